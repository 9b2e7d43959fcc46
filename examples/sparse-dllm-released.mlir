// sparse-dllm by its code's scores: the mean of logits over the block's rows and
// all heads.
//
// keep: the fraction of the keys outside of the block. pool: neighboring keys of
// which the best score counts for each.
//
// Source: Sparse-dLLM's released code, with blocks of 32; docs/Spec/Behaviours.md
// has the rest (numbers 53 to 55).

heddle.schedule @sparse_dllm_released(keep = 1/2, pool = 3) {
  %start = cadence first(1) in block
  %second = cadence at(step = 2) in block
  %block = positions block
  %kept = select columns(keep = keep, group = all, per_layer) by mean_logit pooled(pool) of %block always %block on %second
  reuse kv
  recompute all on %start
  recompute %block
  attend dense until(%second) then pairs(%kept)
}
