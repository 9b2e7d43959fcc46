// REQUIRES: heddle-opt
// RUN: heddle-opt %s --split-input-file --verify-diagnostics

heddle.schedule @R24_no_share {
  %a = positions block
  // expected-error@+1 {{attended needs argument 'share'}}
  %p = attended() of %a
  attend dense
}

// -----

heddle.schedule @R24_none {
  %a = positions block
  // expected-error@+1 {{argument 'share' of attended must be more than 0 and at most 1, found 0}}
  %p = attended(share = 0 percent) of %a
  attend dense
}

// -----

heddle.schedule @R24_more_than_all {
  %a = positions block
  // expected-error@+1 {{argument 'share' of attended must be more than 0 and at most 1, found 101/100}}
  %p = attended(share = 101 percent) of %a
  attend dense
}

// -----

heddle.schedule @R24_generic {
  %a = positions block
  // expected-error@+1 {{argument 'share' of attended must be more than 0 and at most 1, found 3/2}}
  %p = "heddle.attended"(%a) <{share = #heddle.ratio<3 / 2>}> : (!heddle.positions) -> !heddle.positions
  attend dense
}

// -----

heddle.schedule @misspelt {
  %a = positions block
  // expected-error@+2 {{attended has no argument}}
  // expected-note@+1 {{did you mean 'share'?}}
  %p = attended(shares = 1/10) of %a
  attend dense
}

// -----

// Nothing is kept that it could be added up from.
heddle.schedule @R24_no_cache {
  %a = positions block
  // expected-error@+1 {{goes by the attention that positions drew, which is added up from cached keys, and the schedule caches none: it needs `reuse kv`, and a `recompute %rows` by which some steps leave rows out}}
  %p = attended(share = 1/10) of %a
  visible %p
  attend dense
}

// -----

heddle.schedule @R24_outside {
  %start = cadence first(1) in block
  %block = positions block
  %left = positions undecoded(first = 1)
  // expected-error@+1 {{goes by the attention that positions drew, and of that outside of a set a step has only what was kept}}
  %p = attended(share = 1/10) of %block
  %rows = union %left, %p
  reuse kv, attention(outside = %block, on = %start)
  recompute all on %start
  recompute %rows
  attend dense
}

// -----

heddle.schedule @R24_unseen {
  %start = cadence first(1) in block
  %block = positions block
  %left = positions undecoded(first = 1)
  // expected-error@+1 {{goes by the attention that positions drew from rows that are visible; write a recompute without `unseen`}}
  %p = attended(share = 1/10) of %block
  %rows = union %left, %p
  reuse kv
  recompute all on %start
  recompute %rows unseen
  attend dense
}

// -----

// A window's rows are no rows of a list of all.
heddle.schedule @R25_pairs {
  %start = cadence first(1) in block
  %block = positions block
  %left = positions undecoded(first = 1)
  // expected-note@+1 {{the attended is here}}
  %p = attended(share = 1/10) of %block
  %rows = union %left, %p
  reuse kv
  recompute all on %start
  recompute %rows
  %near = window(24)
  // expected-error@+1 {{must be dense where a set goes by the attention that positions drew (attended); write `attend dense`}}
  attend pairs(%near)
}

// -----

// The first of those that drew most need not be the first masked one.
heddle.schedule @R6 {
  %start = cadence first(1) in block
  %block = positions block
  %p = attended(share = 1/10) of %block
  reuse kv
  recompute all on %start
  // expected-error@+1 {{computes rows that need not hold the first masked position}}
  recompute %p
  attend dense
}
