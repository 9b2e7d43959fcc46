// pulsecol's columns inside window-diffusion's window: a composition that
// nobody has published.
//
// Columns are chosen among the positions that exist in a phase and refreshed when
// it begins.

heddle.schedule @columns_in_window {
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
  reuse kv
  recompute all on %phase
  recompute %rows
  commit quota within(%active)
  attend pairs(%cols)
}
