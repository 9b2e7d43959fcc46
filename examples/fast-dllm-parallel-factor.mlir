// Commits as many predictions as their confidences allow together: the largest
// m with (m + 1)(1 - c) < 1, where c is the m-th largest.
//
// Source: Fast-dLLM, section 3.3, factor-based decoding.

heddle.schedule @fast_dllm_parallel_factor {
  commit factor(1)
  attend dense
}
