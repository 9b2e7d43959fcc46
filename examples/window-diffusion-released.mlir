// window-diffusion as its released code for LLaDA has it.
//
// Source: vhicrgit/Window-Diffusion. The first step of a phase computes and sees
// every position and commits the surest of all; the window is fixed after it.
// The second step computes what the first one committed, too; the others what was
// committed since.

heddle.schedule @window_diffusion_released {
  %phase = heddle.cadence every(32)
  %after = heddle.cadence every(32, from = 2)
  %decoded = heddle.positions decoded
  %external = heddle.positions undecoded(first = 64)
  %active = heddle.positions undecoded(first = 16)
  %last = heddle.positions committed(last = 1)
  %recent = heddle.positions committed(since = %after)
  %seen = heddle.union positions %decoded, %external
  %window = heddle.fix %seen on %after
  %first = heddle.union positions %active, %last
  %rows = heddle.union positions %active, %recent
  heddle.visible all on %phase then %window
  heddle.reuse kv
  heddle.recompute all on %phase
  heddle.recompute %first on %after
  heddle.recompute %rows
  heddle.commit quota on %phase
  heddle.commit quota within(%active)
  heddle.attend dense
}
