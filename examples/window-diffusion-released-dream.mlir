// window-diffusion as its released code for Dream has it.
//
// Source: vhicrgit/Window-Diffusion. The first step of a phase computes as many
// first positions as are decoded or among the first 127 masked ones, and commits
// the first masked one alone. The others compute the stretch from there to the
// 16th masked position, which is visible even where it leaves that front.

heddle.schedule @window_diffusion_released_dream {
  %phase = heddle.cadence every(32)
  %decoded = heddle.positions decoded
  %external = heddle.positions undecoded(first = 127)
  %active = heddle.positions undecoded(first = 16)
  %first = heddle.positions undecoded(first = 1)
  %kept = heddle.union positions %decoded, %external
  %front = heddle.leading %kept
  %prefix = heddle.fix %front on %phase
  %begin = heddle.fix %first on %phase
  %ends = heddle.union positions %begin, %active
  %rows = heddle.hull %ends
  %seen = heddle.union positions %prefix, %rows
  heddle.visible %seen
  heddle.reuse kv
  heddle.recompute all on %phase
  heddle.recompute %rows alone
  heddle.commit best(1) within(%first) on %phase
  heddle.commit quota within(%rows)
  heddle.attend dense
}
