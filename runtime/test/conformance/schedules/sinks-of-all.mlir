// All keys as sinks in some layers, half of them in the others.
heddle.schedule @sinks_of_all {
  %all = sinks(100 percent)
  %half = sinks(1/2)
  attend pairs(%all) in layers(0)
  attend pairs(%half)
}
