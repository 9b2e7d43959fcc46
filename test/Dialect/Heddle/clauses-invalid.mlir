// REQUIRES: heddle-opt
// RUN: heddle-opt %s --split-input-file --verify-diagnostics

// What is wrong with clauses, whatever they are stated with.

heddle.schedule @twice {
  %c = cadence every(2)
  %a = positions undecoded(first = 4)
  // expected-error@+1 {{'on' is given twice}}
  commit quota on %c within(%a) on %c
}

// -----

heddle.schedule @twice {
  // expected-error@+1 {{'stop' is given twice}}
  commit quota stop(eos) passes(at_least = 2) stop(eos, narrowing)
}

// -----

heddle.schedule @forms {
  // expected-error@+1 {{stop needs argument 'eos'}}
  commit quota stop(narrowing)
}

// -----

heddle.schedule @forms {
  // expected-error@+2 {{stop has no argument 'eot'; it takes eos, narrowing}}
  // expected-note@+1 {{did you mean 'eos'?}}
  commit quota stop(eot)
}

// -----

heddle.schedule @forms {
  // expected-error@+1 {{within needs a value in parentheses}}
  commit quota within
}

// -----

heddle.schedule @forms {
  // expected-error@+1 {{takes no 'alone' here: not every op has each clause}}
  commit quota alone
}

// -----

// What is visible is so in all layers.
heddle.schedule @K7 {
  %a = positions prompt
  // expected-error@+1 {{names layers, and what is visible is so in all of them, whose lists, groups and blocks count the same places; say by `attend pairs(%set) in layers(...)` which keys some layers read, and by `recompute %rows in layers(...)` which rows they compute}}
  visible %a in layers(0 to 3)
}

// -----

heddle.schedule @twice {
  // expected-error@+1 {{'in' is given twice}}
  %c = cadence every(2) in block or after eos in block
}
