// Keys and values of a token are cached once it has been computed as a token.
//
// Source: dKV-Cache, section 3.2, its released code for LLaDA. The first two
// steps of a block and every eighth one compute all rows, the others what is
// masked and what became a token in the last step.

heddle.schedule @dkv_cache_decode {
  %begin = cadence first(2) in block
  %again = cadence every(8) in block
  %masked = positions undecoded
  %new = positions committed(last = 1)
  %rows = union %masked, %new
  reuse kv
  recompute all on %begin
  recompute all on %again
  recompute %rows
  attend dense
}
