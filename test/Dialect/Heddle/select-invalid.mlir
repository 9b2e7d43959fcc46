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
  // expected-error@+1 {{pools the scores of keys, which only columns can: a block's score is the mean of its keys'}}
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

heddle.schedule @twice {
  %c = cadence every(4)
  %block = positions block
  // expected-error@+1 {{'of' is given twice}}
  %a = select columns(keep = 0.3, group = all) by mean_probability of %block always %block of %block on %c
}

// -----

heddle.schedule @forms {
  %block = positions block
  // expected-error@+1 {{expected 'on'}}
  %a = select columns(keep = 0.3, group = all) by mean_probability always %block
}

// -----

heddle.schedule @forms {
  %c = cadence every(4)
  // expected-error@+1 {{isolating needs a word in parentheses}}
  %a = select blocks(keep = 0.3, size = 32) by mean_probability isolating on %c
}

// -----

heddle.schedule @P18 {
  %c = cadence every(4)
  // expected-note@+1 {{the pairs are here}}
  %near = window(64)
  // expected-error@+1 {{chooses within pairs that no selection gives; name a `select`}}
  %a = select columns(keep = 0.3, group = 32) by mean_probability within %near on %c
  attend pairs(%a)
}

// -----

heddle.schedule @P18 {
  %c = cadence every(4)
  %all = select columns(keep = 0.3, group = 128) by mean_probability on %c
  // expected-error@+1 {{chooses within another selection, which only columns can}}
  %a = select blocks(keep = 0.3, size = 32) by mean_probability within %all on %c
  attend pairs(%a)
}

// -----

heddle.schedule @P18 {
  %c = cadence every(4)
  %all = select columns(keep = 0.3, group = 128) by mean_probability on %c
  // expected-note@+1 {{the other selection is here}}
  %some = select columns(keep = 0.3, group = 64) by mean_probability within %all on %c
  // expected-error@+1 {{chooses within a selection that is within another one itself; choose within that one}}
  %a = select columns(keep = 0.3, group = 32) by mean_probability within %some on %c
  attend pairs(%a)
}

// -----

heddle.schedule @P18 {
  %c = cadence every(4)
  // expected-note@+1 {{the other selection is here}}
  %tiles = select blocks(keep = 0.3, size = 128) by mean_probability isolating(filtered) on %c
  // expected-error@+1 {{chooses within blocks that are isolating(filtered), of which a list has any number; isolate aligned or spans}}
  %a = select columns(keep = 0.3, group = 32) by mean_probability within %tiles on %c
  attend pairs(%a)
}

// -----

heddle.schedule @P19 {
  %c = cadence every(4)
  // expected-note@+1 {{the other selection is here}}
  %fine = select columns(keep = 0.3, group = 32) by mean_probability on %c
  // expected-error@+1 {{has a list for 128 rows, and the selection that it chooses within one for 32 rows, so that there would be several to choose within; write a group that divides the other one}}
  %a = select columns(keep = 0.3, group = 128) by mean_probability within %fine on %c
  attend pairs(%a)
}

// -----

heddle.schedule @P19 {
  %c = cadence every(4)
  // expected-note@+1 {{the other selection is here}}
  %tiles = select blocks(keep = 0.3, size = 128) by mean_probability on %c
  // expected-error@+1 {{has a list for all rows, and the selection that it chooses within one for 128 rows}}
  %a = select columns(keep = 0.3, group = all) by mean_probability within %tiles on %c
  attend pairs(%a)
}

// -----

heddle.schedule @P19 {
  %c = cadence every(4)
  // expected-note@+1 {{the other selection is here}}
  %own = select columns(keep = 0.3, group = 128, per_kv_head) by mean_probability on %c
  // expected-error@+1 {{has a list for heads that have several of the selection that it chooses within; write per_kv_head or per_layer there, or for fewer heads here}}
  %a = select columns(keep = 0.3, group = 128, per_layer) by mean_probability within %own on %c
  attend pairs(%a)
}

// -----

heddle.schedule @P20 {
  %seldom = cadence every(8)
  %often = cadence every(2)
  // expected-note@+1 {{the other selection is here}}
  %all = select columns(keep = 0.3, group = 128) by mean_probability on %often
  // expected-error@+1 {{is refreshed on every(8), which may lack steps of every(2), on which the selection that it chooses within is refreshed; refresh it at these steps too}}
  %a = select columns(keep = 0.3, group = 32) by mean_probability within %all on %seldom
  attend pairs(%a)
}

// -----

heddle.schedule @P20 {
  %late = cadence at(0.5)
  %often = cadence every(1)
  // expected-note@+1 {{the other selection is here}}
  %all = select columns(keep = 0.3, group = 128) by mean_probability on %late
  // expected-error@+1 {{is refreshed on every(1), which may begin before at(0.5), on which the selection that it chooses within is refreshed; let both begin at one step}}
  %a = select columns(keep = 0.3, group = 32) by mean_probability within %all on %often
  attend dense until(%late) then pairs(%a)
}

// -----

heddle.schedule @P20 {
  %c = cadence every(4)
  // expected-note@+1 {{the other selection is here}}
  %all = select columns(keep = 0.3, group = 128) by mean_probability on %c in layers(0)
  // expected-error@+1 {{is refreshed in other layers than the selection that it chooses within; write the same layers(...) for both}}
  %a = select columns(keep = 0.3, group = 32) by mean_probability within %all on %c
  attend pairs(%a)
}

// -----

heddle.schedule @P20 {
  %late = cadence at(0.5)
  %seldom = cadence every(8)
  %often = cadence every(1)
  // expected-note@+1 {{the other selection is here}}
  %all = select columns(keep = 0.3, group = 128) by mean_probability on %seldom
  %a = select columns(keep = 0.3, group = 32) by mean_probability within %all on %often
  // expected-error@+1 {{refreshes a selection within another one whose cadence, every(8), may lack steps of at(0.5), before which `at_once` refreshes nothing}}
  attend dense until(%late) then pairs(%a) at_once
}

// -----

heddle.schedule @P27 {
  %c = cadence every(4)
  // expected-error@+1 {{isolates by the probability among the response's keys, and is scored by mean_logit, which is none; isolate aligned or spans}}
  %a = select blocks(keep = 0.3, size = 32) by mean_logit isolating(filtered) on %c
  attend pairs(%a)
}

// -----

heddle.schedule @P27 {
  %c = cadence every(4)
  // expected-error@+1 {{is scaled by the heads, and is scored by mean_logit, whose order no scale changes; drop scaled_by}}
  %a = select blocks(keep = 0.3, size = 32) by mean_logit scaled_by(heads) on %c
  attend pairs(%a)
}
