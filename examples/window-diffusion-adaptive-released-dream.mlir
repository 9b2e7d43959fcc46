// window-diffusion-released-dream with the early stop of that code.
//
// Source: vhicrgit/Window-Diffusion. A step commits one token. Once a step that
// does not begin a phase finds EOS, the text ends there, every step begins a
// phase, and the first masked positions are committed one after the other.

heddle.schedule @window_diffusion_adaptive_released_dream {
  %phase = cadence every(32) or after eos
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
  commit best(1) within(%rows) stop(eos, narrowing)
  attend dense
}
