// REQUIRES: heddle-opt
// RUN: heddle-opt %s --split-input-file --verify-diagnostics

// What commits must not say: each label is a constraint of docs/Spec/Commit.md.

heddle.schedule @M1 {
  %c = cadence every(2)
  commit quota on %c
  // expected-error@+1 {{is the last one and has a cadence, so that other steps have no rule; add one without}}
  commit above(0.9) on %c
  attend dense
}

// -----

heddle.schedule @M6 {
  %c = cadence every(2)
  // expected-error@+1 {{says when blocks end, which only the last commit, the one without a cadence, can}}
  commit quota on %c passes(at_least = 2)
  commit above(0.9)
  attend dense
}

// -----

heddle.schedule @M6 {
  %c = cadence every(2)
  // expected-error@+1 {{comes with an order that is drawn for the whole run; a schedule with `random_order` has one commit}}
  commit quota on %c
  commit random_order
  attend dense
}

// -----

heddle.schedule @M2 {
  // expected-error@+1 {{the number of tokens must be at least 1, found 0}}
  commit best(0)
  attend dense
}

// -----

heddle.schedule @M2 {
  // expected-error@+1 {{best needs a number}}
  "heddle.commit"() <{kind = #heddle<commit_kind best>, operandSegmentSizes = array<i32: 0, 0>}> : () -> ()
  attend dense
}

// -----

heddle.schedule @M2 {
  // expected-error@+1 {{above has no last candidate; factor has}}
  "heddle.commit"() <{kind = #heddle<commit_kind above>, ratio = #heddle.ratio<1/2>, last_alone, operandSegmentSizes = array<i32: 0, 0>}> : () -> ()
  attend dense
}

// -----

heddle.schedule @M2 {
  // expected-error@+1 {{the number of passes must be at most 1048576, found 1048577}}
  commit quota stop(eos) passes(at_least = 1048577)
  attend dense
}

// -----

heddle.schedule @M2 {
  // expected-error@+1 {{the number of passes must be at least 1, found 0}}
  commit quota passes(at_least = 0)
  attend dense
}

// -----

heddle.schedule @M7 {
  %c = cadence every(2)
  // expected-error@+1 {{narrows to what stands before EOS but does not stop at it}}
  "heddle.commit"(%c) <{kind = #heddle<commit_kind quota>, narrows, operandSegmentSizes = array<i32: 0, 1>}> : (!heddle.cadence) -> ()
  commit quota
  attend dense
}

// -----

heddle.schedule @M7 {
  // expected-error@+1 {{narrows to what stands before EOS but does not stop at it}}
  "heddle.commit"() <{kind = #heddle<commit_kind quota>, narrows, operandSegmentSizes = array<i32: 0, 0>}> : () -> ()
  attend dense
}

// -----

heddle.schedule @M2 {
  // expected-error@+1 {{the confidence of above must be more than 0 and at most 1, found 9; write 9 percent}}
  commit above(9)
  attend dense
}

// -----

heddle.schedule @M2 {
  // expected-error@+1 {{factor needs a number}}
  "heddle.commit"() <{kind = #heddle<commit_kind factor>, operandSegmentSizes = array<i32: 0, 0>}> : () -> ()
  attend dense
}

// -----

heddle.schedule @M2 {
  // expected-error@+1 {{what is committed is said by quota, above(confidence), factor(number), best(number), timesteps, even, even_above(confidence) or random_order}}
  commit all
  attend dense
}

// -----

heddle.schedule @M2 {
  // expected-error@+1 {{even_above needs a number}}
  "heddle.commit"() <{kind = #heddle<commit_kind even_above>, operandSegmentSizes = array<i32: 0, 0>}> : () -> ()
  attend dense
}

// -----

heddle.schedule @M2 {
  // expected-error@+1 {{random_order has no number}}
  "heddle.commit"() <{kind = #heddle<commit_kind random_order>, ratio = #heddle.ratio<1/2>, operandSegmentSizes = array<i32: 0, 0>}> : () -> ()
  attend dense
}

