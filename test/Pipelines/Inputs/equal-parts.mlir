// Equal values, some only once others are: two windows, two unions of them, two sets of
// positions.
heddle.schedule @equal_parts {
  %often = heddle.cadence every(4)
  %also = heddle.cadence every(4)
  %a = heddle.select columns(keep = 0.2, group = 32) by mean_probability on %often
  %near = heddle.window(64)
  %close = heddle.window(64)
  %first = heddle.sinks(4)
  %one = heddle.union %near, %first
  %two = heddle.union %first, %close
  %three = heddle.union %one, %two, %a
  %four = heddle.union %a, %two, %one
  %five = heddle.union %three, %four
  %block = heddle.positions block
  %again = heddle.positions block
  %rows = heddle.union positions %block, %again
  heddle.reuse kv
  heddle.recompute all on %also
  heddle.recompute %rows
  heddle.attend pairs(%five)
}
