// The selection of MAGE (arXiv 2602.14209), for models that see the whole
// sequence: the first step of a block, at which all of it is masked, attends
// densely and chooses the keys that the block reads until it is done.
//
// keep: the number of keys. group: rows that share them. The paper's 512 keys
// are for contexts of up to 128K tokens.
//
// MAGE decodes with block-diffusion models, which keep their prefix. Here its
// keys and values are those of the block's first step, as in fast-dllm-dual, and
// groups of rows begin at the sequence's start, not at the block's. What is
// particular to a layer's budget is for an attend and a selection of that layer.

heddle.schedule @mage(keep = 512, group = 32) {
  %start = cadence first(1) in block
  %block = positions block
  %cols = select columns(keep = keep, group = group) by mean_probability on %start
  reuse kv
  recompute all on %start
  recompute %block
  attend pairs(%cols)
}
