// dyllm without the correction: a row that is not salient keeps its cached
// attention context as it is.
//
// Source: an ablation of DyLLM's approximate attention (section 3.3).

heddle.schedule @dyllm_no_propagation {
  %full = heddle.cadence first(4)
  %whole = heddle.cadence every(4, from = 5)
  %response = heddle.positions response
  heddle.reuse kv, context, ffn
  heddle.recompute all on %full
  heddle.recompute salient(below = 0.99) in all on %whole
  heddle.recompute salient(below = 0.99) in %response
  heddle.attend dense
}
