// window-diffusion as its released code for LLaDA has it.
//
// Source: vhicrgit/Window-Diffusion. The first step of a phase computes and sees
// every position and commits the surest of all; the window is fixed after it.
// The second step computes what the first one committed, too; the others what was
// committed since. Once the first 16 masked positions reach behind the window,
// those behind it are computed and committed, too, but are no keys.

heddle.schedule @window_diffusion_released {
  %phase = cadence every(32)
  %after = cadence every(32, from = 2)
  %decoded = positions decoded
  %external = positions undecoded(first = 64)
  %active = positions undecoded(first = 16)
  %last = positions committed(last = 1)
  %recent = positions committed(since = %after)
  %seen = union %decoded, %external
  %window = fix %seen on %after
  %first = union %active, %last
  %rows = union %active, %recent
  visible all on %phase then %window
  reuse kv
  recompute all on %phase
  recompute %first on %after
  recompute %rows unseen
  commit quota on %phase
  commit quota within(%active)
  attend dense
}
