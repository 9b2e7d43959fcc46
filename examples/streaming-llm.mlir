// Sliding window and the first keys of the sequence.
//
// Source: StreamingLLM: a few initial tokens draw much attention whatever they
// say, and models break when a window leaves them behind.

heddle.schedule @streaming_llm {
  %near = heddle.window(256)
  %first = heddle.sinks(4)
  %pairs = heddle.union %near, %first
  heddle.attend pairs(%pairs)
}
