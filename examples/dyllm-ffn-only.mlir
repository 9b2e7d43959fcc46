// Attention of all rows of a step, as dense attention has it; the FFN of those
// whose attention context has changed since it was kept.
//
// Source: an ablation of DyLLM ("salient token selection" without approximate
// attention, table 1).

heddle.schedule @dyllm_ffn_only {
  %full = heddle.cadence first(4)
  %whole = heddle.cadence every(4, from = 5)
  %response = heddle.positions response
  heddle.reuse kv, context, ffn
  heddle.recompute all on %full
  heddle.recompute salient_ffn(below = 0.99) in all on %whole
  heddle.recompute salient_ffn(below = 0.99) in %response
  heddle.attend dense
}
