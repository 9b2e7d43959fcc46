// Keys and values of the prompt are those of the first step.
//
// Source: dKV-Cache, section 3.3, its variant for long prompts.

heddle.schedule @dkv_cache_prefill {
  %once = heddle.cadence first(1)
  %response = heddle.positions response
  heddle.reuse kv
  heddle.recompute all on %once
  heddle.recompute %response
  heddle.attend dense
}
