// dyllm without the correction: a row that is not salient keeps its cached
// attention context as it is.
//
// Source: an ablation of DyLLM's approximate attention (section 3.3).

heddle.schedule @dyllm_no_propagation {
  %full = cadence first(4)
  %whole = cadence every(4, from = 5)
  %response = positions response
  reuse kv, context, ffn
  recompute all on %full
  recompute salient(below = 0.99) in all on %whole
  recompute salient(below = 0.99) in %response
  attend dense
}
