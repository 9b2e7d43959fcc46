// flashblock, but that in each layer the quarter of the block's rows whose V
// changed most since the step before attends to all keys and keeps what is over
// those outside anew.
//
// Source: after LoSA (arXiv 2604.12056): between denoising steps few tokens of a
// block change, and only these attend to the prefix. The paper measures hidden
// states by their squared difference and has a sparse prefix; here V, its cosine
// and all keys (docs/Spec/Behaviours.md, 52).

heddle.schedule @losa {
  %start = cadence first(1) in block
  %block = positions block
  reuse kv, attention(outside = %block, on = %start, refresh = least_similar(keep = 0.25) in %block)
  recompute all on %start
  recompute %block
  attend dense
}
