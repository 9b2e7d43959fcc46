// Wide groups, rounding up, with sinks and no window.
heddle.schedule @columns_sinks {
  %refresh = heddle.cadence first(2)
  %cols = heddle.select columns(keep = 1/3, group = 128, rounding = ceil) by mean_probability on %refresh
  %first = heddle.sinks(7)
  %pairs = heddle.union %cols, %first
  heddle.attend pairs(%pairs)
}
