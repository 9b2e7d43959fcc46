// Windows of one key and of an odd number of keys.
heddle.schedule @narrow_window {
  %cols_at = heddle.cadence every(4)
  %cols = heddle.select columns(keep = 1.0, group = 32) by mean_probability on %cols_at
  %self = heddle.window(1)
  %near = heddle.window(37)
  %pairs = heddle.union %cols, %near
  heddle.attend pairs(%pairs)
  heddle.attend pairs(%self) in layers(0 to 0)
}
