// Keys and values of the prompt are those of the first step.
//
// Source: dKV-Cache, section 3.3, its variant for long prompts.

heddle.schedule @dkv_cache_prefill {
  %once = cadence first(1)
  %response = positions response
  reuse kv
  recompute all on %once
  recompute %response
  attend dense
}
