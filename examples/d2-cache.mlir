// Of the masked positions those that decoded ones near them and past confidence say
// become tokens next, and the last step's tokens; K and V of all others are kept.
//
// After d2Cache (arXiv 2509.23094), whose released code computes 32 masked positions
// and weighs decoded ones by a Gaussian of standard deviation 10.
//
// There each step also computes positions that drew most attention in the step
// before, and commits go by the weighted confidence, too. Here all rows are computed
// in a block's first step, and the first masked position at every step, so that a
// run ends. docs/Spec/Behaviours.md has the rest (number 57).

heddle.schedule @d2_cache(count = 32, near = 10) {
  %start = cadence first(1) in block
  %masked = positions undecoded
  %sure = confident(count, near = near) of %masked
  %left = positions undecoded(first = 1)
  %new = positions committed(last = 1)
  %rows = union %sure, %left, %new
  reuse kv
  recompute all on %start
  recompute %rows
  attend dense
}
