// Two selections with cadences of their own, refreshed in the same and in
// different steps, read together.
heddle.schedule @two_selections {
  %often = cadence every(3)
  %seldom = cadence every(6)
  %fine = select columns(keep = 0.1, group = 16) by mean_probability on %often
  %coarse = select columns(keep = 1/4, group = 64) by mean_probability on %seldom
  %both = union %fine, %coarse
  attend pairs(%both)
}
