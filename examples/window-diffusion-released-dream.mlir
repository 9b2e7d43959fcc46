// window-diffusion as its released code for Dream has it.
//
// Source: vhicrgit/Window-Diffusion. The first step of a phase computes as many
// first positions as are decoded or among the first 127 masked ones, and commits
// the first masked one alone. The others compute the stretch from there to the
// 16th masked position, or to the sequence's end where there is none; it is
// visible even where it leaves that front.

heddle.schedule @window_diffusion_released_dream {
  %phase = cadence every(32)
  %decoded = positions decoded
  %external = positions undecoded(first = 127)
  %active = positions undecoded(first = 16)
  %first = positions undecoded(first = 1)
  %kept = union %decoded, %external
  %front = leading %kept
  %prefix = fix %front on %phase
  %begin = fix %first on %phase
  %fifteen = positions undecoded(first = 15)
  %sixteenth = except %active, %fifteen
  %masked = positions undecoded
  %text = union %decoded, %masked
  %last = last(1) of %text
  %near = neighbors(1) of %sixteenth in %last
  %open = except %last, %near
  %ends = union %begin, %active, %open
  %rows = hull %ends
  %seen = union %prefix, %rows
  visible %seen
  reuse kv
  recompute all on %phase
  recompute %rows alone
  commit best(1) within(%first) on %phase
  commit quota within(%rows)
  attend dense
}
