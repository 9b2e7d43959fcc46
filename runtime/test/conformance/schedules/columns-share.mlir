// Wide groups, with a window and as many sinks as the sequence's length says,
// but no fewer than three.
heddle.schedule @columns_share {
  %often = cadence every(4)
  %cols = select columns(keep = 0.3, group = 256) by mean_probability on %often
  %first = sinks(3)
  %third = sinks(1/3)
  %near = window(20)
  %pairs = union %cols, %first, %third, %near
  attend pairs(%pairs)
}
