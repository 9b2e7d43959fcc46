heddle.schedule @columns {
  %refresh = cadence uniform(window = 0.3, count = 16)
  %cols = select columns(keep = 0.2, group = 128) by mean_probability on %refresh
  attend pairs(%cols)
}
