// Wide groups, rounding up, with sinks and no window.
heddle.schedule @columns_sinks {
  %refresh = cadence first(2)
  %cols = select columns(keep = 1/3, group = 128, rounding = ceil) by mean_probability on %refresh
  %first = sinks(7)
  %pairs = union %cols, %first
  attend pairs(%pairs)
}
