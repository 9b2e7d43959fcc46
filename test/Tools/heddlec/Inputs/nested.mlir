heddle.schedule @nested {
  %early = cadence every(4)
  %j = window(1,000)
  commit above(0,9)
  %k = window(1,000,000, dilation = 2)
  %l = cadence first(0,3)
  %m = positions before block
  %n = positions block before
  %o = positions after block
  reuse kv context propagating
  %p = select columns(keep = 0.2, group = 32) by mean_probability at_once on %early
  commit above(0.9) revoke(below = 0.1, by = "row")
  commit above(0.9) revoke(below = 0.1, fewer_than = 3)
  %q = select columns(keep = 0,2, group = 1,024) by mean_probability on %early
  commit above(0.9,100)
  commit above(1/2,100)
  %s = window(16,128)
  %t = cadence every(4,100)
  %u = cadence first(12,128)
  %v = window(1, 024)
  %w = window(16, 128)
  %x = cadence every(0_3)
  %y = select columns(keep = 0.2_5, group = 32) by mean_probability on %early
  reuse kv propagating
}
