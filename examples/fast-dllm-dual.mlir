// Keys and values of what stands before and after a block are those of its
// first step.
//
// Source: Fast-dLLM, section 3.2, dual cache. The first step of a block computes
// all rows, the others the block alone.

heddle.schedule @fast_dllm_dual {
  %start = cadence first(1) in block
  %block = positions block
  reuse kv
  recompute all on %start
  recompute %block
  attend dense
}
