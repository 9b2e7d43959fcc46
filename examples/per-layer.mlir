// Composed: dense in the first layers, a window in the last one, columns in all
// others.
//
// Layers count from 0, or from the last one, which is -1: the schedule fits
// models of any depth from 3 layers up. The last attend names no
// layers and holds for those that no other one names.

heddle.schedule @per_layer {
  %refresh = cadence every(8)
  %cols = select columns(keep = 1/8, group = 128) by mean_probability on %refresh
  %near = window(256)
  attend dense in layers(0 to 1)
  attend pairs(%near) in layers(-1)
  attend pairs(%cols)
}
