// pulsecol's columns with dyllm's salient rows: a composition that nobody has
// published.
//
// Salient rows attend to their group's columns, the others are corrected by the
// change of V at theirs. A step that renews columns computes all rows.

heddle.schedule @columns_saliency {
  %refresh = heddle.cadence uniform(window = 0.3, count = 16)
  %full = heddle.cadence first(4)
  %whole = heddle.cadence every(4, from = 5)
  %response = heddle.positions response
  %cols = heddle.select columns(keep = 0.2, group = 32) by mean_probability on %refresh
  heddle.reuse kv, context(propagating), ffn
  heddle.recompute all on %full
  heddle.recompute salient(below = 0.99) in all on %whole
  heddle.recompute salient(below = 0.99) in %response
  heddle.attend pairs(%cols)
}
