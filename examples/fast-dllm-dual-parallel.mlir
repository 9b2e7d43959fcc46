// fast-dllm-dual and fast-dllm-parallel together: the paper's fastest setting.
//
// Source: Fast-dLLM, sections 3.2 and 3.3.

heddle.schedule @fast_dllm_dual_parallel {
  %start = cadence first(1) in block
  %block = positions block
  reuse kv
  recompute all on %start
  recompute %block
  commit above(0.9)
  attend dense
}
