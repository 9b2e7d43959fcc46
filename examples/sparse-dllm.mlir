// Of what stands outside of a block its second step keeps the keys that the
// block's rows attend to most, the same for all heads of a layer; later steps
// compute the block over these and its own keys.
//
// keep: the fraction of the keys outside of the block. pool: neighboring keys of
// which the best score counts for each.
//
// Source: Sparse-dLLM (arXiv 2508.02558), whose released code has these values,
// and blocks of 32. It scores by logits (sparse-dllm-released), here by
// probabilities; docs/Spec/Behaviours.md has the rest (numbers 53 to 55). Keys that
// are left out stay in the cache here, where no step reads them.

heddle.schedule @sparse_dllm(keep = 1/2, pool = 3) {
  %start = cadence first(1) in block
  %second = cadence at(step = 2) in block
  %block = positions block
  %kept = select columns(keep = keep, group = all, per_layer) by mean_probability pooled(pool) of %block always %block on %second
  reuse kv
  recompute all on %start
  recompute %block
  attend dense until(%second) then pairs(%kept)
}
