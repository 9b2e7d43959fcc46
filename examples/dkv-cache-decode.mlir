// Keys and values of a token are cached once it has been computed as a token.
//
// Source: dKV-Cache, section 3.2, its released code for LLaDA. The first two
// steps of a block and every eighth one compute all rows, the others what is
// masked and what became a token in the last step.

heddle.schedule @dkv_cache_decode {
  %begin = heddle.cadence first(2) in block
  %again = heddle.cadence every(8) in block
  %masked = heddle.positions undecoded
  %new = heddle.positions committed(last = 1)
  %rows = heddle.union positions %masked, %new
  heddle.reuse kv
  heddle.recompute all on %begin
  heddle.recompute all on %again
  heddle.recompute %rows
  heddle.attend dense
}
