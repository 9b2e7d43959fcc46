// pulsecol.mlir with its refresh steps drawn at random from the same window.
//
// Source: PulseCol, the ablation of refresh schedules. The draw need not
// include step 1, so attention is dense until the first refresh; the paper does
// not say what it does there. The seed makes the draw part of the schedule.

heddle.schedule @pulsecol_random {
  %refresh = heddle.cadence random(window = 0.3, count = 16, seed = 1)
  %cols = heddle.select columns(keep = 0.2, group = 32) by mean_probability on %refresh
  heddle.attend dense until(%refresh) then pairs(%cols)
}
