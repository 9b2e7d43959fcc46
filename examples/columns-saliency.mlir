// pulsecol's columns with dyllm's salient rows: a composition that nobody has
// published.
//
// Salient rows attend to their group's columns, the others are corrected by the
// change of V at theirs. A step that refreshes columns computes all rows.

heddle.schedule @columns_saliency {
  %refresh = cadence uniform(window = 0.3, count = 16)
  %full = cadence first(4)
  %whole = cadence every(4, from = 5)
  %response = positions response
  %cols = select columns(keep = 0.2, group = 32) by mean_probability on %refresh
  reuse kv, context(propagating), ffn
  recompute all on %full
  recompute salient(below = 0.99) in all on %whole
  recompute salient(below = 0.99) in %response
  attend pairs(%cols)
}
