// A function of logits under which blocks score alike but for rounding: the
// trial run at load takes either of two blocks that do.

heddle.schedule @alike_scores {
  %once = cadence at(0.2)
  %blocks = select blocks(keep = 40, size = 32) by mean_probability on %once
  attend dense until(%once) then pairs(%blocks) scores(%logit) {
    %size = math.absf %logit : f32
    %one = arith.constant 1.0 : f32
    %more = arith.addf %size, %one : f32
    %root = math.sqrt %more : f32
    yield %root
  }
}
