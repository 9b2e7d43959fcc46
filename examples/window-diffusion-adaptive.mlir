// window-diffusion that goes no further than the end of the text, once that is a
// token, and ends when nothing before it is masked.
//
// Source: Window-Diffusion, section 4.2, adaptive termination.

heddle.schedule @window_diffusion_adaptive {
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
  heddle.commit quota within(%active) stop(eos, narrowing)
  heddle.attend dense
}
