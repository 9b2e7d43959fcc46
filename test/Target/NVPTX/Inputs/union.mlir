heddle.schedule @union {
  %near = window(64)
  %some = window(200, dilation = 4)
  %few = window(300, dilation = 7)
  %first = sinks(4)
  %share = sinks(0.1)
  %one = random_blocks(one_in = 5, size = 100)
  %other = random_blocks(one_in = 8, size = 64)
  %all = union %near, %some, %few, %first, %share, %one, %other
  attend pairs(%all)
}
