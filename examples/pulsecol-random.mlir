// pulsecol.mlir with its refresh steps drawn at random from the same window.
//
// Source: PulseCol, the ablation of refresh schedules. The draw need not
// include step 1, so attention is dense until the first refresh; the paper does
// not say what it does there. The seed makes the draw part of the schedule.

heddle.schedule @pulsecol_random(keep = 0.2, group = 32, window = 0.3, count = 16) {
  %refresh = cadence random(window = window, count = count, seed = 1)
  %cols = select columns(keep = keep, group = group) by mean_probability on %refresh
  attend dense until(%refresh) then pairs(%cols)
}
