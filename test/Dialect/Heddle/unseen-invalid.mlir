// REQUIRES: heddle-opt
// RUN: heddle-opt %s --split-input-file --verify-diagnostics

// Where rows that are not visible mean nothing: each label is a constraint of
// docs/Spec.

heddle.schedule @R19_all_are_visible {
  %phase = cadence every(4)
  %active = positions undecoded(first = 4)
  reuse kv
  recompute all on %phase
  // expected-error@+1 {{computes rows that are not visible (`unseen`), and every position is; leave `unseen` out, or say by `visible` which positions are keys}}
  recompute %active unseen
  attend dense
}

// -----

heddle.schedule @R19_all {
  %phase = cadence every(4)
  %next = positions undecoded(first = 8)
  %window = fix %next on %phase
  visible %window
  reuse kv
  // expected-error@+1 {{computes all visible rows, of which none is unseen; name positions, or leave `unseen` out}}
  recompute all unseen on %phase
  recompute %next
  attend dense
}

// -----

heddle.schedule @R19_salient {
  %phase = cadence every(4)
  %next = positions undecoded(first = 8)
  %new = positions committed(last = 1)
  %rows = union %next, %new
  %window = fix %next on %phase
  visible %window
  reuse kv, context, ffn
  recompute all on %phase
  // expected-error@+1 {{computes rows that are not visible (`unseen`), of which nothing is cached to compare them with; write `recompute %rows unseen`, or leave `unseen` out}}
  recompute salient(below = 0.9) in %rows unseen
  attend dense
}

// -----

heddle.schedule @R19_least_similar {
  %phase = cadence every(4)
  %next = positions undecoded(first = 8)
  %window = fix %next on %phase
  visible %window
  reuse kv, output, ffn
  recompute all on %phase
  // expected-error@+1 {{of which nothing is cached to compare them with}}
  recompute least_similar(keep = 1/2, among = %next) in %next unseen
  attend dense
}

// -----

heddle.schedule @R19_layers {
  %phase = cadence every(4)
  %next = positions undecoded(first = 8)
  %few = positions undecoded(first = 4)
  %window = fix %next on %phase
  visible %window
  reuse kv, output, ffn
  recompute all on %phase
  // expected-error@+1 {{of which layers that leave them out keep nothing, and a recompute names layers; let none name layers, or leave `unseen` out}}
  recompute %next unseen in layers(0 to 1)
  recompute %few
  attend dense
}

// -----

heddle.schedule @R19_kept_attention {
  %phase = cadence every(4)
  %next = positions undecoded(first = 8)
  %block = positions block
  %window = fix %next on %phase
  visible %window
  reuse kv, attention(outside = %block, on = %phase)
  recompute all on %phase
  // expected-error@+1 {{of which no attention outside of a set is kept; leave `unseen` out, or reuse kv without attention}}
  recompute %next unseen
  attend dense
}

// -----

heddle.schedule @R20_window {
  %phase = cadence every(4)
  %next = positions undecoded(first = 8)
  %window = fix %next on %phase
  %near = window(64)
  visible %window
  reuse kv
  recompute all on %phase
  // expected-note@+1 {{the recompute is here}}
  recompute %next unseen
  // expected-error@+1 {{must be dense where rows that are not visible are computed; write `attend dense`, or a recompute without `unseen`}}
  attend pairs(%near) in layers(0)
  attend dense
}

// -----

heddle.schedule @R20_columns {
  %phase = cadence every(4)
  %next = positions undecoded(first = 8)
  %window = fix %next on %phase
  %cols = select columns(keep = 1/5, group = 32) by mean_probability on %phase
  visible %window
  reuse kv
  recompute all on %phase
  // expected-note@+1 {{the recompute is here}}
  recompute %next unseen
  // expected-error@+1 {{must be dense where rows that are not visible are computed}}
  attend pairs(%cols)
}

// -----

heddle.schedule @R20_scores {
  %phase = cadence every(4)
  %next = positions undecoded(first = 8)
  %window = fix %next on %phase
  visible %window
  reuse kv
  recompute all on %phase
  // expected-note@+1 {{the recompute is here}}
  recompute %next unseen
  // expected-error@+1 {{has scores that ask for positions, which rows that are not visible have no place for; write a recompute without `unseen`}}
  attend dense scores(%logit, %query, %key) {
    %far = arith.subi %query, %key : i32
    %less = arith.sitofp %far : i32 to f32
    %sum = arith.addf %logit, %less : f32
    yield %sum
  }
}

// -----

// Of logits alone they may be.
heddle.schedule @capped {
  %phase = cadence every(4)
  %next = positions undecoded(first = 8)
  %window = fix %next on %phase
  visible %window
  reuse kv
  recompute all on %phase
  recompute %next unseen
  attend dense scores(%logit) {
    %half = arith.constant 0.5 : f32
    %less = arith.mulf %logit, %half : f32
    yield %less
  }
}

// -----

heddle.schedule @twice {
  %phase = cadence every(4)
  %next = positions undecoded(first = 8)
  reuse kv
  // expected-error@+1 {{'unseen' is given twice}}
  recompute %next unseen alone unseen
}

// -----

heddle.schedule @visible {
  %next = positions undecoded(first = 8)
  // expected-error@+1 {{takes no 'unseen' here: not every op has each clause}}
  visible %next unseen
}
