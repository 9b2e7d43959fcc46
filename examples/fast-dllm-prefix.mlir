// Keys and values of what stands before a block are those of its first step.
//
// Source: Fast-dLLM, section 3.2. The first step of a block computes all rows,
// the others the block and what follows it.

heddle.schedule @fast_dllm_prefix {
  %start = cadence first(1) in block
  %rest = positions from(block)
  reuse kv
  recompute all on %start
  recompute %rest
  attend dense
}
