// dkv-cache-decode as its released code for Dream has it, with the shift "un".
//
// Source: horseee/dKV-Cache. Every eighth step computes all rows. The others
// compute the row before each position that is masked or became a token in the
// last step, whatever the row itself holds. The second step goes by the flags of
// the start, which have the last row too; nothing is predicted there.

heddle.schedule @dkv_cache_decode_released_dream {
  %again = cadence every(8)
  %second = cadence at(step = 2)
  %response = positions response
  %masked = positions undecoded
  %new = positions committed(last = 1)
  %rows = union %masked, %new
  %before = predicting %rows
  reuse kv
  recompute all on %again
  recompute %response on %second
  recompute %before alone
  attend dense
}
