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
}
