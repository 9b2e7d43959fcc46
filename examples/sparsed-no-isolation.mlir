// sparsed without telling prompt and response apart: the best 30% of all blocks.
//
// Source: SparseD, table 2, an ablation.

heddle.schedule @sparsed_no_isolation {
  %once = heddle.cadence at(0.2)
  %tiles = heddle.select blocks(keep = 0.3, size = 128) by mean_probability on %once
  heddle.attend dense until(%once) then pairs(%tiles)
}
