// pulsecol's columns, chosen in every eighth layer: the layers between read what
// the nearest one before them has chosen. A composition: Focus-dLLM
// (arXiv 2602.02159) shares its sinks across layers.
//
// keep: the share of keys that is kept. group: rows that share them.
//
// In a step that refreshes, only the layers that choose are dense and score; the
// others are sparse at once. Index lists take memory in four layers.

heddle.schedule @columns_across_layers(keep = 20 percent, group = 128) {
  %refresh = cadence uniform(window = 0.3, count = 16)
  %cols = select columns(keep = keep, group = group) by mean_probability on %refresh in layers(0, 8, 16, 24)
  attend pairs(%cols)
}
