// The same as sparsed with the paper's values for short prompts.
//
// Source: SparseD, section 4.1: half of the blocks of 32 keys.

heddle.schedule @sparsed_short {
  %once = heddle.cadence at(0.2)
  %tiles = heddle.select blocks(keep = 0.5, size = 32) by mean_probability isolating(spans) on %once
  heddle.attend dense until(%once) then pairs(%tiles)
}
