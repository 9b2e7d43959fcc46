// Blocks in place of columns, refreshed as columns are.
//
// Source: PulseCol, section 4.4, the ablation "block + refresh".

heddle.schedule @blocks_refreshed(keep = 0.2, size = 32, window = 0.3, count = 16) {
  %refresh = cadence uniform(window = window, count = count)
  %tiles = select blocks(keep = keep, size = size) by mean_probability isolating(spans) on %refresh
  attend pairs(%tiles)
}
