// REQUIRES: heddle-opt
// RUN: heddle-opt %s --split-input-file --verify-diagnostics

// What recomputes and reuses of some layers must not say: each label is a
// constraint of docs/Spec.

heddle.schedule @U4 {
  // expected-error@+1 {{is the last one and names layers, so that others keep nothing; add one that names none}}
  reuse kv, ffn in layers(0 to 3)
  attend dense
}

// -----

heddle.schedule @U4 {
  // expected-error@+1 {{names no layer in layers(...)}}
  "heddle.reuse"() <{rule = #heddle.reuse_rule<kv>, layers = []}> : () -> ()
  attend dense
}

// -----

heddle.schedule @L1 {
  // expected-error@+1 {{a layer range must not be empty, found 3 to 2}}
  reuse kv, ffn in layers(3 to 2)
  reuse kv
  attend dense
}

// -----

heddle.schedule @L2 {
  // expected-note@+1 {{they are named here}}
  reuse kv, ffn in layers(0 to 3)
  // expected-error@+1 {{names layers that another one has; give each layer one reuse}}
  reuse kv, context, ffn in layers(3)
  reuse kv
  attend dense
}

// -----

heddle.schedule @L2 {
  %c = cadence first(1)
  %b = positions block
  reuse kv
  recompute all on %c
  // expected-error@+1 {{names a layer twice}}
  recompute %b in layers(0 to 3, 2)
  recompute %b
  attend dense
}

// -----

heddle.schedule @L2 {
  // expected-error@+1 {{names layer 3 twice}}
  reuse kv in layers(0 to 3, 3 to 5)
  reuse kv
  attend dense
}

// -----

heddle.schedule @L2 {
  // expected-error@+1 {{names layer -3 twice}}
  attend dense in layers(-3, -6 to -2)
  attend dense
}

// -----

heddle.schedule @L2 {
  %c = cadence first(1)
  %b = positions block
  reuse kv
  recompute all on %c
  // expected-note@+1 {{they are named here}}
  recompute %b in layers(0 to 3)
  // expected-error@+1 {{names layers that one in front of it has at every step; give each layer one recompute without a cadence}}
  recompute %b in layers(3 to 5)
  recompute %b
  attend dense
}

// -----

heddle.schedule @R2 {
  %c = cadence first(1)
  %b = positions block
  reuse kv
  recompute all on %c
  // expected-error@+1 {{is the last one and names layers, so that others compute nothing; add one that names none}}
  recompute %b in layers(0 to 3)
  attend dense
}

// -----

heddle.schedule @R2 {
  %b = positions block
  // expected-error@+1 {{names no layer in layers(...)}}
  "heddle.recompute"(%b) <{rule = #heddle.row_rule<all>, layers = [], operandSegmentSizes = array<i32: 1, 0, 0>}> : (!heddle.positions) -> ()
  attend dense
}

// -----

// R1: in layers 0 to 3 as well.
heddle.schedule @R1 {
  %c = cadence first(1)
  %b = positions block
  reuse kv
  // expected-error@+1 {{may run at step 1, where nothing is cached yet}}
  recompute %b in layers(0 to 3)
  recompute all on %c
  recompute %b
  attend dense
}

// -----

// Rows that grow again have no hidden state.
heddle.schedule @R16 {
  %c = cadence first(1) in block
  %b = positions block
  %m = positions undecoded
  %few = intersect %b, %m
  reuse kv
  recompute all on %c
  recompute %few in layers(4 to 7)
  // expected-error@+1 {{computes block in layer 8, and layer 4 no more than intersect(block, undecoded), so that others have no hidden state: let later layers name positions of the earlier ones' (such as an intersect with these), or let layer 4 `reuse kv, output, ffn`}}
  recompute %b
  attend dense
}

// -----

// Unless what they were is kept.
heddle.schedule @R16 {
  %c = cadence first(1) in block
  %b = positions block
  %m = positions undecoded
  %few = intersect %b, %m
  reuse kv, output, ffn in layers(4 to 7)
  reuse kv
  recompute all on %c
  recompute %few in layers(4 to 7)
  recompute %b
  attend dense
}

// -----

heddle.schedule @R16 {
  %c = cadence first(1) in block
  %b = positions block
  %m = positions undecoded
  %few = intersect %b, %m
  reuse kv
  recompute all on %c
  // expected-error@+1 {{computes block in layer -2, and layer 0 no more than intersect(block, undecoded), so that}}
  recompute %b in layers(-2 to -1)
  recompute %few
  attend dense
}

// -----

heddle.schedule @R17 {
  %c = cadence first(1) in block
  %b = positions block
  reuse kv in layers(0 to 3)
  reuse kv, context, ffn
  recompute all on %c
  recompute %b in layers(0 to 3)
  // expected-error@+1 {{goes by what changed in layer 0, which keeps no contexts to compare; let it `reuse kv, context, ffn`}}
  recompute salient(below = 0.99) in %b
  attend dense
}

// -----

heddle.schedule @R5 {
  %c = cadence first(1) in block
  %b = positions block
  reuse kv, ffn in layers(3)
  reuse kv, output, ffn
  recompute all on %c
  // expected-error@+1 {{it needs `reuse kv, output, ffn` (or context, not propagating) in layer 3; or `reuse kv`, and the rows that it does not choose end}}
  recompute least_similar(keep = 1/2, among = %b) in %b in layers(2 to 5)
  recompute %b
  attend dense
}

// -----

heddle.schedule @R18 {
  %c = cadence first(1) in block
  %b = positions block
  reuse kv
  recompute all on %c
  // expected-error@+1 {{lets rows end that it does not choose, and the rows that it does not choose from need not hold the first masked position; leave that out of `among`, by `except %rows, %first` with %first = positions undecoded(first = 1), or let its layers `reuse kv, output, ffn`}}
  recompute least_similar(keep = 1/2, among = %b) in %b in layers(2 to 5)
  recompute %b
  attend dense
}

// -----

heddle.schedule @R18 {
  %c = cadence first(1) in block
  %b = positions block
  %first = positions undecoded(first = 1)
  %others = except %b, %first
  reuse kv
  recompute all on %c
  // expected-error@+1 {{may let rows end that a commit with `revoke` made masks again at the step before, of which the former token's keys and values would stay cached; let its layers `reuse kv, output, ffn`}}
  recompute least_similar(keep = 1/2, among = %others) in %b in layers(2 to 5)
  recompute %b
  commit above(0.6) revoke(below = 0.9)
  attend dense
}

// -----

heddle.schedule @R18 {
  %c = cadence first(1) in block
  %b = positions block
  %first = positions undecoded(first = 1)
  %others = except %b, %first
  reuse kv
  recompute all on %c
  // expected-error@+1 {{may let rows end that a commit with `edit` gave another token at the step before, of which the former token's keys and values would stay cached; let its layers `reuse kv, output, ffn`}}
  recompute least_similar(keep = 1/2, among = %others) in %b in layers(2 to 5)
  recompute %b
  commit above(0.6) edit(above = 0.9)
  attend dense
}

// -----

heddle.schedule @R18 {
  %c = cadence first(1) in block
  %b = positions block
  %first = positions undecoded(first = 1)
  %others = except %b, %first
  reuse kv
  recompute all on %c
  // expected-error@+1 {{may let rows end of masked positions, in whose place `renoise` puts other noise at each step, so that the keys and values of former noise would stay cached; let its layers `reuse kv, output, ffn`}}
  recompute least_similar(keep = 1/2, among = %others) in %b in layers(2 to 5)
  recompute %b
  commit above(0.6) renoise
  attend dense
}

// -----

heddle.schedule @U9 {
  %c = cadence first(1) in block
  %b = positions block
  recompute all on %c
  recompute %b in layers(0 to 3)
  recompute %b
  // expected-error@+1 {{keeps attention outside of a set, which is of all layers, while a recompute or reuse names some; let none name layers}}
  reuse kv, attention(outside = %b, on = %c)
  attend dense
}
