// window-diffusion-released-dream with the early stop of that code.
//
// Source: vhicrgit/Window-Diffusion. A step commits one token. Once a step that
// does not begin a phase finds EOS, the text ends there, every step begins a
// phase, and the first masked positions are committed one after the other.

heddle.schedule @window_diffusion_adaptive_released_dream {
  %phase = heddle.cadence every(32) or after eos
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
  heddle.commit best(1) within(%rows) stop(eos, narrowing)
  heddle.attend dense
}
