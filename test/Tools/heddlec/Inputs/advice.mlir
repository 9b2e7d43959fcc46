heddle.schedule @advice {
  %c = cadence every(8)
  %p = positions decoded
  %u = union positions %p, %p
  %i = intersect positions %p, %p
  %v = heddle.union positions %p, %p
  recompute all %c
  commit quota %c
  recompute all %p
  %n = positions undecoded(16)
  %s = select columns(20 percent, group = 32) by mean_probability on %c
  %t = select columns(keep = 0.2, group = 32) by mean_probability
  %f = fix %p
  %e = cadence uniform(0.3, 16)
  attend dense in layers(0 -3)
}
heddle.schedule @none {
  %t = select columns(keep = 0.2, group = 32) by mean_probability
}
heddle.schedule @several {
  %c = cadence every(8)
  %d = cadence first(1)
  %t = select columns(keep = 0.2, group = 32) by mean_probability
}
