// Windows of one key and of an odd number of keys.
heddle.schedule @narrow_window {
  %cols_at = cadence every(4)
  %cols = select columns(keep = 1.0, group = 32) by mean_probability on %cols_at
  %self = window(1)
  %near = window(37)
  %pairs = union %cols, %near
  attend pairs(%self) in layers(0)
  attend pairs(%pairs)
}
