// Logits bounded to 30 by a soft cap, in attention and in what scores keys: the
// fifth of the keys that matter most, as pulsecol.mlir has them.
//
// Source: Gemma 2, which bounds the logits of its attention so. LLaDA and Dream
// were trained without: an example of the form, and no method.

heddle.schedule @soft_cap {
  %refresh = cadence uniform(window = 0.3, count = 16)
  %cols = select columns(keep = 0.2, group = 32) by mean_probability on %refresh
  attend pairs(%cols) scores(%logit) {
    %cap = arith.constant 30.0 : f32
    %share = arith.divf %logit, %cap : f32
    %bound = math.tanh %share : f32
    %capped = arith.mulf %bound, %cap : f32
    yield %capped
  }
}
