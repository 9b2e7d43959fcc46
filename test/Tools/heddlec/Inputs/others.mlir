heddle.schedule @other(size = 8) {
  %early = cadence every(4)
  %a := window(8)
  %b = window(256%)
  %c = window(8) on %early
  %d = sinks(.5)
  %e = sinks(%size)
  %f = sinks(150%)
  attend pairs(%a | %b) in layers(0)
  %g = union(%a, %b)

  attend dense # a comment
  %h = others()
  commit above(0.9) strictly
  commit above(1e400)
  attend pairs(%a, %b)
  commit best(1_000)
  commit above(.)
  commit above(0.9) revoke
  commit above(0.9) revoke below = 0.1
  commit above(0.9) stop
  %i = select columns(keep = 0.2, group = 32) by mean_probability on %early at_once
  commit above(0.9) at_most(share = 0)
  %first = positions undecoded first = 16
}
