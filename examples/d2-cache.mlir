// Of the masked positions those that decoded ones near them and past confidence say
// become tokens next, the last step's tokens, and of all others those that drew most
// attention in the step before; K and V of what is left are kept.
//
// After d2Cache (arXiv 2509.23094), whose released code computes 32 masked positions,
// weighs decoded ones by a Gaussian of standard deviation 10, and takes others until
// they have a tenth of the attention.
//
// Commits go by the weighted confidence, too: its certainty prior, which the released
// code has in runs of one block. Here all rows are computed in a block's first step,
// and the first masked position at every step, so that a run ends.
// docs/Spec/Behaviours.md has the rest (number 57).

heddle.schedule @d2_cache(count = 32, near = 10, share = 10 percent) {
  %start = cadence first(1) in block
  %masked = positions undecoded
  %sure = confident(count, near = near) of %masked
  %left = positions undecoded(first = 1)
  %new = positions committed(last = 1)
  %certain = union %sure, %left, %new
  %all = positions all
  %others = except %all, %certain
  %drawing = attended(share = share) of %others
  %rows = union %sure, %left, %new, %drawing
  reuse kv
  recompute all on %start
  recompute %rows
  attend dense
  commit quota near(near)
}
