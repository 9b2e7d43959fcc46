// REQUIRES: heddle-opt
// RUN: heddle-opt %s --split-input-file --verify-diagnostics

heddle.schedule @P2 {
  %c = cadence every(4)
  // expected-error@+1 {{a group must be a power of two from 16 to 1024 rows, or all, found 2048}}
  %a = select columns(keep = 0.3, group = 2048) by mean_probability on %c
}

// -----

heddle.schedule @P6 {
  %c = cadence every(4)
  // expected-error@+1 {{expected an integer, found 'all'}}
  %a = select blocks(keep = 0.3, size = all) by mean_probability on %c
}

// -----

heddle.schedule @P15 {
  %c = cadence every(4)
  // expected-error@+1 {{scores are pooled over an odd number of keys from 3 to 127, found 4}}
  %a = select columns(keep = 0.3, group = 32) by mean_probability pooled(4) on %c
}

// -----

heddle.schedule @P15 {
  %c = cadence every(4)
  // expected-error@+1 {{pools the scores of neighboring keys, which only columns can: a block's score is the mean of its keys'}}
  %a = select blocks(keep = 0.3, size = 32) by mean_probability pooled(3) on %c
}

// -----

heddle.schedule @P15 {
  %c = cadence every(4)
  // expected-error@+1 {{has a list for each key/value head and one for the layer; drop per_kv_head or per_layer}}
  %a = select columns(keep = 0.3, group = 32, per_kv_head, per_layer) by mean_probability on %c
}

// -----

heddle.schedule @P16 {
  %c = cadence every(4)
  %block = positions block
  // expected-error@+1 {{is scored by the rows of a set and has groups of 32 rows, of which some may have none of the set; write group = all}}
  %a = select columns(keep = 0.3, group = 32) by mean_probability of %block on %c
  attend pairs(%a)
}

// -----

heddle.schedule @P16 {
  %c = cadence every(4)
  %block = positions block
  // expected-error@+1 {{names a set of positions, which only columns can}}
  %a = select blocks(keep = 0.3, size = 32) by mean_probability always %block on %c
  attend pairs(%a)
}

// -----

heddle.schedule @P17 {
  %c = cadence every(4)
  %left = positions undecoded
  // expected-error@+1 {{is scored by the rows of a set that need not be a range of positions; name all, prompt, response, a block, hull or leading of a set, or a fix of one of these}}
  %a = select columns(keep = 0.3, group = all) by mean_probability of %left on %c
  attend pairs(%a)
}

// -----

heddle.schedule @P17 {
  %c = cadence every(4)
  %late = cadence every(8, from = 2)
  %left = positions undecoded(first = 4)
  %then = fix %left on %late
  %hull = hull %then
  // expected-error@+1 {{is scored by the rows of a set that goes back to a cadence which begins at step 2, so that there is none at step 1}}
  %a = select columns(keep = 0.3, group = all) by mean_probability of %hull on %c
  attend pairs(%a)
}

// -----

heddle.schedule @P17 {
  %c = cadence every(4)
  %block = positions block
  %left = positions undecoded
  %some = intersect %block, %left
  // expected-error@+1 {{always lists the keys of a set that need not be a range of positions; name all, prompt}}
  %a = select columns(keep = 0.3, group = all) by mean_probability of %block always %some on %c
  attend pairs(%a)
}

// -----

heddle.schedule @order {
  %c = cadence every(4)
  %block = positions block
  // expected-error@+1 {{expected 'on'}}
  %a = select columns(keep = 0.3, group = all) by mean_probability always %block of %block on %c
}
