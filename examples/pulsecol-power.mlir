// pulsecol.mlir with refresh steps that lie densest at the beginning.
//
// Source: PulseCol, the ablation of refresh schedules: step i of 16 stands at
// the square of its uniform place in the window.

heddle.schedule @pulsecol_power(keep = 0.2, group = 32, window = 0.3, count = 16) {
  %refresh = cadence power(window = window, count = count)
  %cols = select columns(keep = keep, group = group) by mean_probability on %refresh
  attend pairs(%cols)
}
