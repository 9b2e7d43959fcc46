// Keys and values of what stands before a block are those of its first step.
//
// Source: Fast-dLLM, section 3.2. The first step of a block computes all rows,
// the others the block and what follows it.

heddle.schedule @fast_dllm_prefix {
  %start = heddle.cadence first(1) in block
  %rest = heddle.positions from(block)
  heddle.reuse kv
  heddle.recompute all on %start
  heddle.recompute %rest
  heddle.attend dense
}
