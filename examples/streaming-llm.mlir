// Sliding window and the first tenth of the sequence.
//
// Source: StreamingLLM: initial tokens draw much attention whatever they say,
// and models break when a window leaves them behind. As a baseline for
// diffusion language models 10% of all keys are sinks: SparseD, section 4.1;
// PulseCol, section 4.1. StreamingLLM itself keeps four: sinks(4).

heddle.schedule @streaming_llm(size = 256, sinks = 10 percent) {
  %near = window(size)
  %first = sinks(sinks)
  %pairs = union %near, %first
  attend pairs(%pairs)
}
