// fast-dllm-dual's cache, made anew within a block, too, when the block has
// drifted.
//
// A composition. Elastic-Cache (arXiv:2510.14973) refreshes a cache by drift; its
// test is of attention weights (`drift(attention, ...)`), and what it computes anew
// begins at a deeper layer.
//
// below   the mean cosine of the block's values to those after the latest refresh,
//         below which the next step computes all rows.
// within  the most steps from one refresh to the next.

heddle.schedule @dual_cache_drift(below = 0.9, within = 16) {
  %start = cadence drift(below = below, within = within) in block
  %block = positions block
  reuse kv
  recompute all on %start
  recompute %block
  attend dense
}
