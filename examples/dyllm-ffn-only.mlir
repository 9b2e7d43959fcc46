// Attention of all rows of a step, as dense attention has it; the FFN of those
// whose attention context has changed since it was kept.
//
// Source: an ablation of DyLLM ("salient token selection" without approximate
// attention, table 1).

heddle.schedule @dyllm_ffn_only {
  %full = cadence first(4)
  %whole = cadence every(4, from = 5)
  %response = positions response
  reuse kv, context, ffn
  recompute all on %full
  recompute salient_ffn(below = 0.99) in all on %whole
  recompute salient_ffn(below = 0.99) in %response
  attend dense
}
