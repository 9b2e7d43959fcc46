heddle.schedule @columns {
  %refresh = heddle.cadence uniform(window = 0.3, count = 16)
  %cols = heddle.select columns(keep = 0.2, group = 128) by mean_probability on %refresh
  heddle.attend pairs(%cols)
}
