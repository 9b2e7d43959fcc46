// fast-dllm-dual and fast-dllm-parallel together: the paper's fastest setting.
//
// Source: Fast-dLLM, sections 3.2 and 3.3.

heddle.schedule @fast_dllm_dual_parallel {
  %start = heddle.cadence first(1) in block
  %block = heddle.positions block
  heddle.reuse kv
  heddle.recompute all on %start
  heddle.recompute %block
  heddle.commit above(0.9)
  heddle.attend dense
}
