// fast-dllm-dual-parallel as its released code for Dream has it.
//
// Source: NVlabs/Fast-dLLM. A block's full pass commits the block's first position
// and no other, so that the row in front of the block is not needed; and the
// code looks whether a block is done only after another pass.

heddle.schedule @fast_dllm_dual_parallel_released {
  %start = heddle.cadence first(1) in block
  %block = heddle.positions block
  %first = heddle.positions undecoded(first = 1)
  heddle.reuse kv
  heddle.recompute all on %start
  heddle.recompute %block alone
  heddle.commit best(1) within(%first) on %start
  heddle.commit above(0.9) passes(at_least = 2)
  heddle.attend dense
}
