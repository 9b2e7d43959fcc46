// Commits all predictions of confidence 0.9 and more, at least one a step.
//
// Source: Fast-dLLM, section 3.3, the paper's threshold.

heddle.schedule @fast_dllm_parallel(threshold = 0.9) {
  commit above(threshold)
  attend dense
}
