// Columns, a moving window and salient rows at once: a composition that nobody
// has published.

heddle.schedule @columns_window_saliency {
  %phase = heddle.cadence every(32)
  %decoded = heddle.positions decoded
  %external = heddle.positions undecoded(first = 64)
  %active = heddle.positions undecoded(first = 16)
  %recent = heddle.positions committed(since = %phase)
  %seen = heddle.union positions %decoded, %external
  %window = heddle.fix %seen on %phase
  %rows = heddle.union positions %active, %recent
  %cols = heddle.select columns(keep = 0.2, group = 32) by mean_probability on %phase
  heddle.visible %window
  heddle.reuse kv, context(propagating), ffn
  heddle.recompute all on %phase
  heddle.recompute salient(below = 0.99) in %rows
  heddle.commit quota within(%active)
  heddle.attend pairs(%cols)
}
