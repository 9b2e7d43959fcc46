// REQUIRES: heddle-opt
// RUN: heddle-opt %s --split-input-file --verify-diagnostics

// What cadences by drift must not say: each label is a constraint of docs/Spec.

heddle.schedule @C1 {
  // expected-error@+1 {{the below of drift must be more than 0 and at most 1, found 3/2}}
  %c = cadence drift(below = 1.5, within = 4)
}

// -----

heddle.schedule @C1 {
  // expected-error@+1 {{the within of drift must be at least 1, found 0}}
  %c = cadence drift(below = 0.9, within = 0)
}

// -----

heddle.schedule @drift_is_bounded {
  // expected-error@+1 {{drift needs argument 'within'}}
  %c = cadence drift(below = 0.9)
}

// -----

heddle.schedule @C1 {
  // expected-error@+1 {{argument 'layer' of drift must be at least -2147483647, found -2147483648}}
  %c = cadence drift(below = 0.9, within = 4, layer = -2147483648)
}

// -----

heddle.schedule @C4 {
  %refresh = cadence drift(below = 0.9, within = 4)
  %whole = cadence drift(below = 0.8, within = 4)
  %response = positions response
  %cols = select columns(keep = 1/5, group = 32) by mean_probability on %refresh
  reuse kv
  // expected-error@+1 {{goes by drift(below = 0.8, within = 4) beside drift(below = 0.9, within = 4); cadences by drift differ in their layer, and with it in `below`, alone}}
  recompute all on %whole
  recompute %response
  attend pairs(%cols)
}

// -----

heddle.schedule @C4 {
  %early = cadence drift(below = 0.9, within = 4, layer = 1)
  %late = cadence drift(below = 0.8, within = 5, layer = 2)
  %first = cadence first(1)
  %response = positions response
  reuse kv, output, ffn
  recompute all on %first
  recompute all on %early in layers(1 to 3)
  // expected-error@+1 {{goes by drift(below = 0.8, within = 5, layer = 2) beside drift(below = 0.9, within = 4, layer = 1)}}
  recompute all on %late in layers(2 to 3)
  recompute %response
  attend dense
}

// -----

heddle.schedule @C4 {
  %early = cadence drift(attention, below = 0.9, within = 4, layer = 1)
  %late = cadence drift(below = 0.9, within = 4, layer = 2)
  %first = cadence first(1)
  %response = positions response
  reuse kv, output, ffn
  recompute all on %first
  recompute all on %early in layers(1 to 3)
  // expected-error@+1 {{goes by drift(below = 0.9, within = 4, layer = 2) beside drift(attention, below = 0.9, within = 4, layer = 1)}}
  recompute all on %late in layers(2 to 3)
  recompute %response
  attend dense
}

// -----

heddle.schedule @C6 {
  %start = cadence drift(attention, below = 0.9, within = 4)
  %block = positions block
  // expected-error@+1 {{keeps attention outside of a set, so that no step has the weights that drift(attention, below = 0.9, within = 4) compares; leave `attention` out}}
  reuse kv, attention(outside = %block, on = %start)
  recompute all on %start
  recompute %block
  attend dense
}

// -----

heddle.schedule @flag {
  // expected-error@+1 {{argument 'attention' is given twice}}
  %c = cadence drift(attention, below = 0.9, within = 4, attention)
}

// -----

// What layer 1 refreshes is no step of layer 0's cadence.
heddle.schedule @U5 {
  %early = cadence drift(below = 0.9, within = 4, layer = 0)
  %late = cadence drift(below = 0.9, within = 4, layer = 1)
  %block = positions block
  // expected-error@+1 {{keeps attention outside of a set on drift(below = 0.9, within = 4, layer = 1), at whose steps all visible rows must be computed}}
  reuse kv, attention(outside = %block, on = %late)
  recompute all on %early
  recompute %block
  attend dense
}

// -----

heddle.schedule @C5 {
  %refresh = cadence drift(below = 0.9, within = 4)
  %cols = select columns(keep = 1/5, group = 32) by mean_probability on %refresh
  // expected-error@+1 {{is on drift(below = 0.9, within = 4), which says what is computed and not what is committed}}
  commit best(2) on %refresh
  commit quota
  attend pairs(%cols)
}
