heddle.schedule @mistakes {
  // What is wrong here:
  %c = cadence evry(4)
  %early = cadence first(1)
  %good = select columns(keep = 0.2, group = 32) by mean_probability on %early
  %cols = select columns(keep = 1.5, group = 32) by mean_probability
      on %c
  %p = positions decodd
  %all = union %p, %p
  visible %all
  %close = windw(4)
  %near = window(8)
  %pairs = union %cols, %close
  attend pairs(%naer)
  attend dense in layers(0 to 1)
}
