heddle.schedule @halves {
  %c = cadence every(2k)
  %2c = cadence every(4steps)
  %m = select columns(keep = 0.2, group = 32) by mean-probability on %c
  %w = window(size-1)
  attend dense in layers(0 until 3)
  attend dense in layers(4 - 7)
  attend dense in layers(8 .. 11)
  attend dense in layers(12 13 17)
  attend dense in layers(20 22)
  %n = window(1 000)
  %b = window(10 000 000)
  %e = cadence at(0.2 0.3)
  attend dense in layers(30 by 3)
}
