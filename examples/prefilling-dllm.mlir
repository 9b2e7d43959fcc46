// The first step computes all positions and keeps keys and values. For each 128
// rows it keeps the chunks of the prompt that these pay most to, and in them the
// best of their keys. Later steps compute the response over these and its own keys.
//
// chunks: of the prompt, 128 keys each. keep: the fraction of their keys.
//
// Source: after Prefilling-dLLM (arXiv 2606.10537, abstract): the prefix in chunks
// whose keys and values are made once, the best chunks, few tokens within each.
// There each chunk is computed by itself, behind a token that begins it; here all of
// the prompt sees itself. docs/Spec/Behaviours.md has the rest (number 60).

heddle.schedule @prefilling_dllm(chunks = 8, keep = 1/2) {
  %start = cadence first(1)
  %response = positions response
  %chunks = select blocks(keep = chunks, size = 128) by mean_probability isolating(spans) on %start
  %tokens = select columns(keep = keep, group = 128) by mean_probability always %response within %chunks on %start
  reuse kv
  recompute all on %start
  recompute %response
  attend pairs(%tokens)
}
