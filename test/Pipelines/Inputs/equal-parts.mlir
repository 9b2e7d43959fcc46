// Equal values, some only once others are: two windows, two unions of them, two sets of
// positions.
heddle.schedule @equal_parts {
  %often = cadence every(4)
  %also = cadence every(4)
  %a = select columns(keep = 0.2, group = 32) by mean_probability on %often
  %near = window(64)
  %close = window(64)
  %first = sinks(4)
  %one = union %near, %first
  %two = union %first, %close
  %three = union %one, %two, %a
  %four = union %a, %two, %one
  %five = union %three, %four
  %block = positions block
  %again = positions block
  %rows = union %block, %again
  reuse kv
  recompute all on %also
  recompute %rows
  attend pairs(%five)
}
