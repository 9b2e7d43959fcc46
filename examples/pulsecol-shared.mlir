// pulsecol with one set of columns for all query heads of a key/value head.
//
// The paper leaves open what grouped-query attention does; by default each
// query head has its own columns. Shared ones need a seventh of the memory for
// indices in Dream-7B, and 8 refreshes are the paper's value for it.

heddle.schedule @pulsecol_shared(keep = 0.2, group = 32, window = 0.3, count = 8) {
  %refresh = cadence uniform(window = window, count = count)
  %cols = select columns(keep = keep, group = group, per_kv_head) by mean_probability on %refresh
  attend pairs(%cols)
}
