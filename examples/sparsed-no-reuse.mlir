// sparsed with blocks that are chosen anew at every step.
//
// Source: SparseD, the ablation without reuse. After the first fifth of the run
// each step scores all pairs, chooses blocks and attends over them at once.

heddle.schedule @sparsed_no_reuse {
  %always = cadence every(1)
  %skipped = cadence at(0.2, plus = 1)
  %tiles = select blocks(keep = 0.3, size = 128) by mean_probability isolating(spans) on %always
  attend dense until(%skipped) then pairs(%tiles) at_once
}
