// The prompt seldom, the response often, in between the quarter of the response
// whose values changed most.
//
// Source: dLLM-Cache, section 3 and algorithm 1, with the values of its released
// code for LLaDA: the prompt every 100 steps, the response every 7, and a quarter
// of it by the lowest cosine of V against the cached one at the others.

heddle.schedule @dllm_cache {
  %prompt = heddle.cadence every(100)
  %often = heddle.cadence every(7)
  %response = heddle.positions response
  heddle.reuse kv, output, ffn
  heddle.recompute all on %prompt and %often
  heddle.recompute least_similar(keep = 0.25, among = %response) in all on %prompt
  heddle.recompute %response on %often
  heddle.recompute least_similar(keep = 0.25, among = %response) in %response
  heddle.attend dense
}
