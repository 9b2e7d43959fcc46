// sparsed without telling prompt and response apart: the best 30% of all blocks.
//
// Source: SparseD, table 2, an ablation.

heddle.schedule @sparsed_no_isolation(keep = 0.3, size = 128, skip = 0.2) {
  %once = cadence at(skip)
  %tiles = select blocks(keep = keep, size = size) by mean_probability on %once
  attend dense until(%once) then pairs(%tiles)
}
