// sparsed as its released code has it for LLaDA.
//
// Source: INV-WZQ/SparseD. It counts steps from 0 and chooses two later, keeps a
// block more of each part, divides logits by the root of the number of heads
// when it scores, and tells prompt and response apart by filtering: of the
// prompt's blocks those among the best of all, of the response's the best by
// the probability among its keys alone. docs/Spec/Behaviours.md has the list.

heddle.schedule @sparsed_released {
  %once = cadence at(0.2, plus = 2)
  %tiles = select blocks(keep = 0.3, size = 128, rounding = floor_plus_one) by mean_probability isolating(filtered) scaled_by(heads) on %once
  attend dense until(%once) then pairs(%tiles)
}
