// Two schedules in one file.
heddle.schedule @first {
  attend dense
}

heddle.schedule @second {
  %near = window(64)
  attend pairs(%near)
}
