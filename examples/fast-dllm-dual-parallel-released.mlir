// fast-dllm-dual-parallel as its released code for Dream has it.
//
// Source: NVlabs/Fast-dLLM. A block's full pass commits the block's first position
// and no other, so that the row in front of the block is not needed; and the
// code looks whether a block is done only after another pass.

heddle.schedule @fast_dllm_dual_parallel_released {
  %start = cadence first(1) in block
  %block = positions block
  %first = positions undecoded(first = 1)
  reuse kv
  recompute all on %start
  recompute %block alone
  commit best(1) within(%first) on %start
  commit above(0.9) passes(at_least = 2)
  attend dense
}
