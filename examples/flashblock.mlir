// Attention of a block's rows over the keys outside of the block is that of the
// block's first step; over the keys inside it is computed at every step, and the
// two are merged by their log-sum-exps.
//
// Source: FlashBlock (arXiv 2602.05305), section 3: block-external attention
// changes little within a block. The paper has block-causal models, of which no
// key stands behind the block; here fast-dllm-dual's cache keeps these too.

heddle.schedule @flashblock {
  %start = cadence first(1) in block
  %block = positions block
  reuse kv, attention(outside = %block, on = %start)
  recompute all on %start
  recompute %block
  attend dense
}
