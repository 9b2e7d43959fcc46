// Blocks in place of columns, renewed as columns are.
//
// Source: PulseCol, section 4.4, the ablation "block + refresh".

heddle.schedule @blocks_refreshed {
  %refresh = heddle.cadence uniform(window = 0.3, count = 16)
  %tiles = heddle.select blocks(keep = 0.2, size = 32) by mean_probability isolating(spans) on %refresh
  heddle.attend pairs(%tiles)
}
