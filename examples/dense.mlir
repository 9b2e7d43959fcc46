// Dense attention: every query reads every key at every step.
//
// The reference that every other schedule is measured against.

heddle.schedule @dense {
  attend dense
}
