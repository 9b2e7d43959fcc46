// Two selections with cadences of their own, renewed in the same and in
// different steps, read together.
heddle.schedule @two_selections {
  %often = heddle.cadence every(3)
  %seldom = heddle.cadence every(6)
  %fine = heddle.select columns(keep = 0.1, group = 16) by mean_probability on %often
  %coarse = heddle.select columns(keep = 1/4, group = 64) by mean_probability on %seldom
  %both = heddle.union %fine, %coarse
  heddle.attend pairs(%both)
}
