// All keys as sinks in some layers, half of them in the others.
heddle.schedule @sinks_of_all {
  %all = heddle.sinks(100 percent)
  %half = heddle.sinks(1/2)
  heddle.attend pairs(%half)
  heddle.attend pairs(%all) in layers(0 to 0)
}
