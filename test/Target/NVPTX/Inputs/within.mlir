// Unions whose pairs are asked for one by one, of lists that heads share.
heddle.schedule @within(group = 64) {
  %refresh = cadence uniform(window = 0.3, count = 16)
  %cols = select columns(keep = 0.2, group = group, per_kv_head) by mean_probability on %refresh
  %near = window(512)
  %first = sinks(4)
  %kept = union %cols, %near, %first
  %gaps = window(4096, dilation = 2)
  %drawn = random_blocks(one_in = 4, size = 64)
  %wide = window(4096)
  // Columns alone, within each.
  %cols_gaps = intersect %cols, %gaps
  %cols_drawn = intersect %cols, %drawn
  %cols_wide = intersect %cols, %wide
  // All parts, and some.
  %kept_gaps = intersect %kept, %gaps
  %kept_drawn = intersect %kept, %drawn
  %some_gaps = union %cols_gaps, %near, %first
  %some_drawn = union %cols_drawn, %near, %first
  %some_wide = union %cols_wide, %near, %first
  %far = union %cols, %gaps, %first
  attend pairs(%cols_gaps) in layers(0)
  attend pairs(%cols_drawn) in layers(1)
  attend pairs(%cols_wide) in layers(2)
  attend pairs(%kept_gaps) in layers(3)
  attend pairs(%kept_drawn) in layers(4)
  attend pairs(%some_gaps) in layers(5)
  attend pairs(%some_drawn) in layers(6)
  attend pairs(%some_wide) in layers(7)
  attend pairs(%far)
}
