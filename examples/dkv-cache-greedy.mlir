// The order of commits is drawn before the run, so that a step knows what it is
// going to commit, and computes little else.
//
// Source: dKV-Cache, its greedy variant, in the released code for LLaDA. Every
// fourth step of a block computes all rows, the others what they commit, the
// two masked neighbors of each, and what became a token in the last step.

heddle.schedule @dkv_cache_greedy {
  %again = heddle.cadence every(4) in block
  %next = heddle.positions next
  %masked = heddle.positions undecoded
  %near = heddle.neighbors(2) of %next in %masked
  %new = heddle.positions committed(last = 1)
  %rows = heddle.union positions %next, %near, %new
  heddle.reuse kv
  heddle.recompute all on %again
  heddle.recompute %rows
  heddle.commit random_order
  heddle.attend dense
}
