hedddle.schedule @long {
  %w = hedle.window(64)
  hedle.attend pairs(%w)
  heddle.attnd dense
  %x = windw(8)
}
schedule @none {
  attend dens
}
heddle.shedule @b {
  %c = cadence evry(4)
  attend dense scores(%l) {
    %a = airth.mulf %l, %l : f32
    %b = arith.mullf %l, %l : f32
    yield %a
  }
}
schedule @d(keep = 20%) { attend dense }
heddle.schedule @e { attend dense }
