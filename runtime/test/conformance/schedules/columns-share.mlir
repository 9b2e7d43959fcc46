// Wide groups, with a window and as many sinks as the sequence's length says,
// but no fewer than three.
heddle.schedule @columns_share {
  %often = heddle.cadence every(4)
  %cols = heddle.select columns(keep = 0.3, group = 256) by mean_probability on %often
  %first = heddle.sinks(3)
  %third = heddle.sinks(1/3)
  %near = heddle.window(20)
  %pairs = heddle.union %cols, %first, %third, %near
  heddle.attend pairs(%pairs)
}
