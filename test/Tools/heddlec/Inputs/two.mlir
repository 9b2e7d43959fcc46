// Two schedules in one file.
heddle.schedule @first {
  heddle.attend dense
}

heddle.schedule @second {
  %near = heddle.window(64)
  heddle.attend pairs(%near)
}
