// The order of commits is drawn before the run, so that a step knows what it is
// going to commit, and computes little else.
//
// Source: dKV-Cache, its greedy variant, in the released code for LLaDA. Every
// fourth step of a block computes all rows, the others what they commit, for
// each of that the two nearest masked positions that are not taken yet, and what
// became a token in the last step.

heddle.schedule @dkv_cache_greedy {
  %again = cadence every(4) in block
  %next = positions next
  %masked = positions undecoded
  %near = nearest(2) of %next in %masked
  %new = positions committed(last = 1)
  %rows = union %next, %near, %new
  reuse kv
  recompute all on %again
  recompute %rows
  commit random_order
  attend dense
}
