// REQUIRES: heddle-opt
// RUN: heddle-opt %s --split-input-file --verify-diagnostics

heddle.schedule @R22 {
  %a = positions block
  // expected-error@+1 {{argument 'near' of confident must be at least 1, found 0}}
  %p = confident(2, near = 0) of %a
  attend dense
}

// -----

heddle.schedule @R22 {
  %a = positions block
  // expected-error@+1 {{argument 'near' of confident must be at most 1024, found 1025}}
  %p = confident(2, near = 1025) of %a
  attend dense
}

// -----

heddle.schedule @R22 {
  %a = positions block
  // expected-error@+1 {{argument 'near' of confident must be at least 1, found 0}}
  %p = "heddle.confident"(%a) <{count = 2 : i64, near = 0 : i64}> : (!heddle.positions) -> !heddle.positions
  attend dense
}

// -----

heddle.schedule @arguments {
  %a = positions block
  // expected-error@+2 {{confident has no argument 'neer'; it takes near}}
  // expected-note@+1 {{did you mean 'near'?}}
  %p = confident(2, neer = 10) of %a
  attend dense
}

// -----

heddle.schedule @arguments {
  %a = positions block
  // expected-error@+1 {{confident needs a number}}
  %p = confident() of %a
  attend dense
}

// -----

heddle.schedule @R23 {
  %c = cadence every(4)
  %block = positions block
  reuse kv, output, ffn
  recompute all on %c
  // expected-error@+1 {{argument 'confidence' of least_similar must be more than 0 and at most 1, found 3/2}}
  recompute least_similar(keep = 1/2, among = %block, confidence = 1.5) in %block
  attend dense
}

// -----

heddle.schedule @R23 {
  %c = cadence every(4)
  %block = positions block
  reuse kv, output, ffn
  recompute all on %c
  // expected-error@+1 {{computes no row of those to compare (keep = 0 percent), so that nothing is chosen by their confidence; drop `confidence`}}
  recompute least_similar(keep = 0 percent, among = %block, confidence = 0.5) in %block
  attend dense
}

// -----

heddle.schedule @R23 {
  // expected-error@+1 {{salient has no argument 'confidence'; it takes below}}
  "heddle.recompute"() <{rule = #heddle.row_rule<salient(below = 1/2, confidence = 1/2) in all>, operandSegmentSizes = array<i32: 0, 0, 0>}> : () -> ()
  attend dense
}

// -----

heddle.schedule @R23 {
  %c = cadence every(4)
  %next = positions next
  reuse kv, output, ffn
  recompute all on %c
  // expected-error@+1 {{weighs the confidence of what earlier steps predicted and left masked, and with `commit random_order` they predict what they commit alone; commit by confidence, or drop `confidence`}}
  recompute least_similar(keep = 1/2, among = %next, confidence = 0.5) in %next
  commit random_order
  attend dense
}
