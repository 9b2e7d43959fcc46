// Computes the first masked positions inside a window that moves in phases.
//
// Source: Window-Diffusion, sections 4.1 to 4.3. A phase of 32 steps fixes which
// positions exist: what is decoded and the first 64 masked ones. Its first step
// computes all of them; the others the first 16 masked ones and what was
// committed in the phase, and take the rest from the cache.
//
// external  64 masked positions exist, the paper's value for LLaDA; 128 for
//           Dream.
// active    16 of them are computed: the internal window.

heddle.schedule @window_diffusion(external = 64, active = 16, phase = 32) {
  %phase = cadence every(phase)
  %decoded = positions decoded
  %external = positions undecoded(first = external)
  %active = positions undecoded(first = active)
  %recent = positions committed(since = %phase)
  %seen = union %decoded, %external
  %window = fix %seen on %phase
  %rows = union %active, %recent
  visible %window
  reuse kv
  recompute all on %phase
  recompute %rows
  commit quota within(%active)
  attend dense
}
