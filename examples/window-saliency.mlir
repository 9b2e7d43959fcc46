// dyllm's salient rows inside window-diffusion's window: a composition that
// nobody has published.
//
// Of the rows that a step of window-diffusion computes, a layer computes those
// that are salient.

heddle.schedule @window_saliency {
  %phase = cadence every(32)
  %decoded = positions decoded
  %external = positions undecoded(first = 64)
  %active = positions undecoded(first = 16)
  %recent = positions committed(since = %phase)
  %seen = union %decoded, %external
  %window = fix %seen on %phase
  %rows = union %active, %recent
  visible %window
  reuse kv, context(propagating), ffn
  recompute all on %phase
  recompute salient(below = 0.99) in %rows
  commit quota within(%active)
  attend dense
}
