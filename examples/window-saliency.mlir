// dyllm's salient rows inside window-diffusion's window: a composition that
// nobody has published.
//
// Of the rows that a step of window-diffusion computes, a layer computes those
// that are salient.

heddle.schedule @window_saliency {
  %phase = heddle.cadence every(32)
  %decoded = heddle.positions decoded
  %external = heddle.positions undecoded(first = 64)
  %active = heddle.positions undecoded(first = 16)
  %recent = heddle.positions committed(since = %phase)
  %seen = heddle.union positions %decoded, %external
  %window = heddle.fix %seen on %phase
  %rows = heddle.union positions %active, %recent
  heddle.visible %window
  heddle.reuse kv, context(propagating), ffn
  heddle.recompute all on %phase
  heddle.recompute salient(below = 0.99) in %rows
  heddle.commit quota within(%active)
  heddle.attend dense
}
