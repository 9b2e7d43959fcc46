// Columns, a moving window and salient rows at once: a composition that nobody
// has published.

heddle.schedule @columns_window_saliency {
  %phase = cadence every(32)
  %decoded = positions decoded
  %external = positions undecoded(first = 64)
  %active = positions undecoded(first = 16)
  %recent = positions committed(since = %phase)
  %seen = union %decoded, %external
  %window = fix %seen on %phase
  %rows = union %active, %recent
  %cols = select columns(keep = 0.2, group = 32) by mean_probability on %phase
  visible %window
  reuse kv, context(propagating), ffn
  recompute all on %phase
  recompute salient(below = 0.99) in %rows
  commit quota within(%active)
  attend pairs(%cols)
}
