// pulsecol.mlir at 50% sparsity.
//
// Source: PulseCol, the setting of its accuracy tables that keeps half of the
// keys.

heddle.schedule @pulsecol_50 {
  %refresh = heddle.cadence uniform(window = 0.3, count = 16)
  %cols = heddle.select columns(keep = 0.5, group = 32) by mean_probability on %refresh
  heddle.attend pairs(%cols)
}
