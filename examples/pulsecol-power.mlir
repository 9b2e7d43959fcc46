// pulsecol.mlir with refresh steps that lie densest at the beginning.
//
// Source: PulseCol, the ablation of refresh schedules: step i of 16 stands at
// the square of its uniform place in the window.

heddle.schedule @pulsecol_power {
  %refresh = heddle.cadence power(window = 0.3, count = 16)
  %cols = heddle.select columns(keep = 0.2, group = 32) by mean_probability on %refresh
  heddle.attend pairs(%cols)
}
