// Columns chosen once, after a dense fifth of the run.
//
// Source: PulseCol, section 4.4, the ablation "column + skip".

heddle.schedule @columns_once(keep = 0.2, group = 32, skip = 0.2) {
  %once = cadence at(skip)
  %cols = select columns(keep = keep, group = group) by mean_probability on %once
  attend dense until(%once) then pairs(%cols)
}
