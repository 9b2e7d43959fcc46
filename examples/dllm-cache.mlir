// The prompt seldom, the response often, in between the quarter of the response
// whose values changed most.
//
// Source: dLLM-Cache, section 3 and algorithm 1, with the values of its released
// code for LLaDA: the prompt every 100 steps, the response every 7, and a quarter
// of it by the lowest cosine of V against the cached one at the others. With
// --set keep=0.0, its class's own value, these compute the first layer alone.

heddle.schedule @dllm_cache(prompt = 100, response = 7, keep = 0.25) {
  %prompt = cadence every(prompt)
  %often = cadence every(response)
  %response = positions response
  reuse kv, output, ffn
  recompute all on %prompt and %often
  recompute least_similar(keep = keep, among = %response) in all on %prompt
  recompute %response on %often
  recompute least_similar(keep = keep, among = %response) in %response
  attend dense
}
