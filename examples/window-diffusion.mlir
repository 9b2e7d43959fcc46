// Computes the first masked positions inside a window that moves in phases.
//
// Source: Window-Diffusion, sections 4.1 to 4.3. A phase of 32 steps fixes which
// positions exist: what is decoded and the first 64 masked ones. Its first step
// computes all of them; the others the first 16 masked ones and what was
// committed in the phase, and take the rest from the cache.
//
// 64      external window, the paper's value for LLaDA; 128 for Dream.
// 16, 32  internal window and phase.

heddle.schedule @window_diffusion {
  %phase = heddle.cadence every(32)
  %decoded = heddle.positions decoded
  %external = heddle.positions undecoded(first = 64)
  %active = heddle.positions undecoded(first = 16)
  %recent = heddle.positions committed(since = %phase)
  %seen = heddle.union positions %decoded, %external
  %window = heddle.fix %seen on %phase
  %rows = heddle.union positions %active, %recent
  heddle.visible %window
  heddle.reuse kv
  heddle.recompute all on %phase
  heddle.recompute %rows
  heddle.commit quota within(%active)
  heddle.attend dense
}
