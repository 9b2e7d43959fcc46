// Sliding window: every query reads the keys near it.
//
// Source: the baseline of PulseCol and SparseD. 256 is the width of the whole
// window, half of it on either side.

heddle.schedule @sliding_window(size = 256) {
  %near = window(size)
  attend pairs(%near)
}
