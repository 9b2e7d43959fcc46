// Columns chosen once, after a dense fifth of the run.
//
// Source: PulseCol, section 4.4, the ablation "column + skip".

heddle.schedule @columns_once {
  %once = heddle.cadence at(0.2)
  %cols = heddle.select columns(keep = 0.2, group = 32) by mean_probability on %once
  heddle.attend dense until(%once) then pairs(%cols)
}
