// window-diffusion that goes no further than the end of the text, once that is a
// token, and ends when nothing before it is masked.
//
// Source: Window-Diffusion, section 4.2, adaptive termination.

heddle.schedule @window_diffusion_adaptive {
  %phase = cadence every(32)
  %decoded = positions decoded
  %external = positions undecoded(first = 64)
  %active = positions undecoded(first = 16)
  %recent = positions committed(since = %phase)
  %seen = union %decoded, %external
  %window = fix %seen on %phase
  %rows = union %active, %recent
  visible %window
  reuse kv
  recompute all on %phase
  recompute %rows
  commit quota within(%active) stop(eos, narrowing)
  attend dense
}
