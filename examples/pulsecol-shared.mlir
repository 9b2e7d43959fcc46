// pulsecol with one set of columns for all query heads of a key/value head.
//
// The paper leaves open what grouped-query attention does; by default each
// query head has its own columns. Shared ones need a seventh of the memory for
// indices in Dream-7B, and 8 refreshes are the paper's value for it.

heddle.schedule @pulsecol_shared {
  %refresh = heddle.cadence uniform(window = 0.3, count = 8)
  %cols = heddle.select columns(keep = 0.2, group = 32, per_kv_head) by mean_probability on %refresh
  heddle.attend pairs(%cols)
}
