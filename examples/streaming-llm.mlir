// Sliding window and the first tenth of the sequence.
//
// Source: StreamingLLM: initial tokens draw much attention whatever they say,
// and models break when a window leaves them behind. As a baseline for
// diffusion language models 10% of all keys are sinks: SparseD, section 4.1;
// PulseCol, section 4.1. StreamingLLM itself keeps four: heddle.sinks(4).

heddle.schedule @streaming_llm {
  %near = heddle.window(256)
  %first = heddle.sinks(10 percent)
  %pairs = heddle.union %near, %first
  heddle.attend pairs(%pairs)
}
