// Keys and values of what stands before and after a block are those of its
// first step.
//
// Source: Fast-dLLM, section 3.2, dual cache. The first step of a block computes
// all rows, the others the block alone.

heddle.schedule @fast_dllm_dual {
  %start = heddle.cadence first(1) in block
  %block = heddle.positions block
  heddle.reuse kv
  heddle.recompute all on %start
  heddle.recompute %block
  heddle.attend dense
}
