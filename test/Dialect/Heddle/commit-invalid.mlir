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
  // expected-error@+1 {{the count of best must be at least 1, found 0}}
  commit best(0)
  attend dense
}

// -----

heddle.schedule @M2 {
  // expected-error@+1 {{best needs a number}}
  commit best()
  attend dense
}

// -----

heddle.schedule @M2 {
  // expected-error@+1 {{argument 'at_least' of passes must be at most 1048576, found 1048577}}
  commit quota stop(eos) passes(at_least = 1048577)
  attend dense
}

// -----

heddle.schedule @M2 {
  // expected-error@+1 {{argument 'at_least' of passes must be at least 1, found 0}}
  commit quota passes(at_least = 0)
  attend dense
}

// -----

heddle.schedule @M2 {
  // expected-error@+1 {{the ratio of above must be more than 0 and at most 1, found 9}}
  commit above(9)
  attend dense
}

// -----

heddle.schedule @M2 {
  // expected-error@+1 {{unknown commit 'all': one of quota, above, factor, random_order, best, timesteps, even, even_above, entropy}}
  commit all
  attend dense
}

// -----

heddle.schedule @M2 {
  // expected-error@+1 {{factor needs a number in parentheses}}
  commit factor
  attend dense
}

// -----

heddle.schedule @M2 {
  // expected-error@+1 {{above has no argument 'last_alone'; it takes }}
  commit above(0.9, last_alone)
  attend dense
}

// -----

heddle.schedule @M8 {
  // expected-error@+1 {{argument 'below' of revoke must be more than 0 and at most 1, found 9}}
  commit above(0.6) revoke(below = 9)
  attend dense
}

// -----

heddle.schedule @M8 {
  // expected-error@+1 {{argument 'below' of revoke must be more than 0}}
  commit above(0.6) revoke(below = 0.0)
  attend dense
}

// -----

heddle.schedule @M8 {
  // expected-error@+1 {{revoke needs argument 'below'}}
  commit above(0.6) revoke()
  attend dense
}

// -----

heddle.schedule @M8 {
  // expected-error@+1 {{revokes tokens, of which an order that is drawn before the run knows nothing; leave `revoke` out, or commit by confidence}}
  commit random_order revoke(below = 0.9)
  attend dense
}

// -----

heddle.schedule @M10 {
  // expected-error@+1 {{argument 'drafts' of verify must be at least 1, found 0}}
  commit quota verify(drafts = 0)
  attend dense
}

// -----

heddle.schedule @M10 {
  // expected-error@+1 {{argument 'drafts' of verify must be at most 64, found 65}}
  commit quota verify(drafts = 65)
  attend dense
}

// -----

heddle.schedule @M10 {
  // expected-error@+1 {{verify needs argument 'drafts'}}
  commit quota verify()
  attend dense
}

// -----

heddle.schedule @M10 {
  %start = cadence first(1) in block
  // expected-error@+1 {{verifies drafts, which the last commit, the one without a cadence, says of the whole run; write `verify` there}}
  commit best(1) on %start verify(drafts = 2)
  commit quota
  attend dense
}

// -----

heddle.schedule @M10 {
  // expected-error@+1 {{takes as many tokens as the step's own confidences say, which are not known when it is drafted; commit by quota, best, timesteps or even alone, or leave `verify` out}}
  commit above(0.9) verify(drafts = 2)
  attend dense
}

// -----

heddle.schedule @M10 {
  %start = cadence first(1) in block
  // expected-error@+1 {{takes as many tokens as the step's own confidences say}}
  commit factor(1) on %start
  commit quota verify(drafts = 2)
  attend dense
}

// -----

heddle.schedule @M10 {
  // expected-error@+1 {{goes by a drawn order, in which a step predicts what it commits and nothing that the next one could be drafted from}}
  commit random_order verify(drafts = 2)
  attend dense
}

// -----

heddle.schedule @M10 {
  %first = positions undecoded(first = 4)
  // expected-error@+1 {{commits within positions, which are known when a step begins and not when it is drafted}}
  commit quota within(%first) verify(drafts = 2)
  attend dense
}

// -----

heddle.schedule @M10 {
  // expected-error@+1 {{revokes tokens, and which ones no earlier prediction says}}
  commit best(4) revoke(below = 0.9) verify(drafts = 2)
  attend dense
}

// -----

heddle.schedule @M10 {
  // expected-error@+1 {{edits tokens, and which ones no earlier prediction says}}
  commit best(4) edit(above = 0.9) verify(drafts = 2)
  attend dense
}

// -----

heddle.schedule @M10 {
  %changed = cadence drift(below = 0.9, within = 8)
  // expected-error@+1 {{is refreshed on drift(below = 0.9, within = 8), of which a step that is drafted knows nothing; name a cadence of another form, or leave `verify` out}}
  %cols = select columns(keep = 1/5, group = 32) by mean_probability on %changed
  commit quota verify(drafts = 2)
  attend pairs(%cols)
}

// -----

heddle.schedule @M10 {
  %once = cadence first(1)
  %prompt = positions prompt
  // expected-error@+1 {{goes by a set of positions, which is known when a step begins and not when it is drafted; leave `of` and `always` or `verify` out}}
  %cols = select columns(keep = 1/5, group = all) by mean_probability of %prompt on %once
  commit quota verify(drafts = 2)
  attend pairs(%cols)
}

// -----

heddle.schedule @M10 {
  %start = cadence first(1) in block
  %block = positions block
  reuse kv
  recompute all on %start
  recompute %block
  // expected-error@+1 {{verifies drafts, whose copies of a sequence compute all positions and keep nothing for a later step, but the schedule has a `recompute`; leave that or `verify` out}}
  commit quota verify(drafts = 2)
  attend dense
}

// -----

heddle.schedule @M10 {
  %known = positions decoded
  %next = positions undecoded(first = 16)
  %seen = union %known, %next
  visible %seen
  // expected-error@+1 {{but the schedule has a `visible`; leave that or `verify` out}}
  commit quota verify(drafts = 2)
  attend dense
}

// -----

heddle.schedule @R15 {
  %start = cadence first(1)
  %active = positions undecoded(first = 16)
  %recent = positions committed(last = 2)
  %rows = union %active, %recent
  reuse kv
  recompute all on %start
  // expected-error@+1 {{computes rows that need not hold what a commit with `revoke` made a mask again at the step before, of which the token's keys and values would stay cached; add `positions undecoded` or the block to them}}
  recompute %rows
  commit above(0.6) within(%active) revoke(below = 0.9)
  attend dense
}

// -----

// Rows that predict what is masked are no rows of it.
heddle.schedule @R15 {
  %start = cadence first(1)
  %masked = positions undecoded
  %rows = predicting %masked
  reuse kv
  recompute all on %start
  // expected-error@+1 {{computes rows that need not hold what a commit with `revoke` made}}
  recompute %rows alone
  commit above(0.6) revoke(below = 0.9)
  attend dense
}

// -----

// What was masked then need not hold what is masked now.
heddle.schedule @R6 {
  %start = cadence first(1)
  %masked = positions undecoded
  %rows = fix %masked on %start
  reuse kv
  recompute all on %start
  // expected-error@+1 {{computes rows that need not hold the first masked position}}
  recompute %rows
  commit above(0.6) revoke(below = 0.9)
  attend dense
}

// -----

heddle.schedule @M9 {
  // expected-error@+1 {{argument 'above' of edit must be more than 0 and at most 1, found 9}}
  commit above(0.6) edit(above = 9)
  attend dense
}

// -----

heddle.schedule @M9 {
  // expected-error@+1 {{argument 'above' of edit must be more than 0}}
  commit above(0.6) edit(above = 0.0)
  attend dense
}

// -----

heddle.schedule @M9 {
  // expected-error@+1 {{edit needs argument 'above'}}
  commit above(0.6) edit(further = 16)
  attend dense
}

// -----

heddle.schedule @M9 {
  // expected-error@+1 {{argument 'further' of edit must be at least 1}}
  commit above(0.6) edit(above = 0.9, further = 0)
  attend dense
}

// -----

heddle.schedule @M9 {
  // expected-error@+1 {{argument 'further' of edit must be at most 1024}}
  commit above(0.6) edit(above = 0.9, further = 1025)
  attend dense
}

// -----

// The cached keys and values of an edited token are those of the former one.
heddle.schedule @R15 {
  %start = cadence first(1)
  %rows = positions undecoded
  reuse kv
  recompute all on %start
  // expected-error@+1 {{computes rows that need not hold what a commit with `edit` gave another token at the step before, of which the former one's keys and values would stay cached; add committed(last = 1) to them}}
  recompute %rows
  commit above(0.6) edit(above = 0.9)
  attend dense
}

// -----

// The last step of a block edits, too.
heddle.schedule @R15 {
  %start = cadence first(1)
  %rows = positions block
  reuse kv
  recompute all on %start
  // expected-error@+1 {{computes rows that need not hold what a commit with `edit` gave another token}}
  recompute %rows
  commit above(0.6) edit(above = 0.9)
  attend dense
}

// -----

heddle.schedule @M2 {
  // expected-error@+1 {{must be more than 0 and at most 1024}}
  commit entropy(1025)
  attend dense
}

// -----

heddle.schedule @M15 {
  %start = cadence first(1) in block
  // expected-error@+1 {{puts noise in the place of masks, which the last commit, the one without a cadence, says of the whole run; write `renoise` there}}
  commit best(1) on %start renoise
  commit above(0.9)
  attend dense
}

// -----

// What is cached of a masked position is of another step's noise.
heddle.schedule @R15 {
  %start = cadence first(1) in block
  %some = positions undecoded(first = 4)
  %new = positions committed(last = 1)
  %rows = union %some, %new
  reuse kv
  recompute all on %start
  // expected-error@+1 {{computes rows that need not hold every masked position of the block, in whose place `renoise` puts other noise at each step, so that the keys and values of former noise would stay cached; add `positions undecoded` or the block to them}}
  recompute %rows
  commit above(0.9) renoise
  attend dense
}

// -----

// Nor is what it was before it became a token.
heddle.schedule @R15 {
  %start = cadence first(1) in block
  %rows = positions undecoded
  reuse kv
  recompute all on %start
  // expected-error@+1 {{computes rows that need not hold what became a token at the step before, in whose place `renoise` had put noise, so that the keys and values of noise would stay cached; add committed(last = 1) to them}}
  recompute %rows
  commit above(0.9) renoise
  attend dense
}

// -----

// The last step of a block makes tokens, too.
heddle.schedule @R15 {
  %start = cadence first(1)
  %rows = positions block
  reuse kv
  recompute all on %start
  // expected-error@+1 {{computes rows that need not hold what became a token at the step before}}
  recompute %rows
  commit above(0.9) renoise
  attend dense
}

// -----

// The windows of masks that move in phases keep what they do not compute.
heddle.schedule @R15 {
  %phase = cadence every(8)
  %decoded = positions decoded
  %external = positions undecoded(first = 32)
  %known = union %decoded, %external
  %seen = fix %known on %phase
  %active = positions undecoded(first = 8)
  %new = positions committed(since = %phase)
  %rows = union %active, %new
  visible %seen
  reuse kv
  recompute all on %phase
  // expected-error@+1 {{computes rows that need not hold every masked position of the block}}
  recompute %rows
  commit quota within(%active) renoise
  attend dense
}

// -----

heddle.schedule @M2 {
  // expected-error@+1 {{argument 'share' of at_most must be more than 0 and at most 1, found 3/2}}
  commit above(0.6) at_most(share = 3/2)
  attend dense
}

// -----

heddle.schedule @M2 {
  // expected-error@+1 {{argument 'least' of at_most must be at least 1, found 0}}
  commit above(0.6) at_most(share = 0.7, least = 0)
  attend dense
}

// -----

heddle.schedule @M2 {
  // expected-error@+1 {{at_most needs argument 'share'}}
  commit above(0.6) at_most(least = 2)
  attend dense
}

// -----

heddle.schedule @M11 {
  // expected-error@+1 {{takes a planned number of tokens, which `at_most` would leave short; leave `at_most` out, or commit by above, factor, best or entropy}}
  commit quota at_most(share = 0.7)
  attend dense
}

// -----

heddle.schedule @M11 {
  // expected-error@+1 {{may be limited to no fewer than 6 tokens and no more than 5; `least` of `at_most` is no more than `most`}}
  commit above(0.6) at_most(share = 0.7, least = 6, most = 5)
  attend dense
}

// -----

heddle.schedule @M8 {
  // expected-error@+1 {{tokens are revoked by row or shadow; write by = shadow, or leave it out}}
  commit above(0.6) revoke(below = 0.9, by = mask)
  attend dense
}

// -----

heddle.schedule @M8 {
  // expected-error@+1 {{fewer tokens are revoked than the step or step_before commits; write fewer_than = step_before, or leave it out}}
  commit above(0.6) revoke(below = 0.9, fewer_than = ever)
  attend dense
}

// -----

heddle.schedule @M12 {
  // expected-error@+1 {{revokes by a shadow and edits, which goes by a token's own row: a step looks at each token in one row; leave `edit` out, or revoke without `by = shadow`}}
  commit above(0.6) revoke(below = 0.9, by = shadow) edit(above = 0.9)
  attend dense
}

// -----

heddle.schedule @M12 {
  // expected-error@+1 {{revokes by a shadow of masks, in whose place the model would read noise; leave `renoise` out, or revoke without `by = shadow`}}
  commit above(0.6) revoke(below = 0.9, by = shadow) renoise
  attend dense
}

// -----

heddle.schedule @M12 {
  %block = positions block
  // expected-error@+1 {{revokes by a shadow within positions, which are known when a step has begun, and whether it has a shadow before; leave `within` out, or revoke without `by = shadow`}}
  commit above(0.6) within(%block) revoke(below = 0.9, by = shadow)
  attend dense
}

// -----

heddle.schedule @M12 {
  %start = cadence first(1) in block
  %block = positions block
  reuse kv
  recompute all on %start
  recompute %block
  // expected-error@+1 {{revokes by a shadow that attends to what the step computes of all positions, but the schedule has a `recompute`; leave that out, or revoke without `by = shadow`}}
  commit above(0.6) revoke(below = 0.9, by = shadow)
  attend dense
}

// -----

heddle.schedule @M12 {
  %some = positions from(block)
  visible %some
  // expected-error@+1 {{but the schedule has a `visible`; leave that out}}
  commit above(0.6) revoke(below = 0.9, by = shadow)
  attend dense
}

// -----

// A step's own rule says so, whatever the others are.
heddle.schedule @M12 {
  %start = cadence first(1) in block
  // expected-error@+1 {{revokes by a shadow and edits}}
  commit best(2) on %start revoke(below = 0.9, by = shadow) edit(above = 0.9)
  commit quota
  attend dense
}

// -----

heddle.schedule @M13 {
  // expected-note@+1 {{the commit is here}}
  commit above(0.6) revoke(below = 0.9, by = shadow)
  %near = window(64)
  // expected-error@+1 {{must be dense where tokens are revoked by a shadow, whose rows and keys are in no list and no window; write `attend dense`, or revoke without `by = shadow`}}
  attend pairs(%near)
}

// -----

heddle.schedule @M13 {
  // expected-note@+1 {{the commit is here}}
  commit above(0.6) revoke(below = 0.9, by = shadow)
  // expected-error@+1 {{has scores that ask for positions, of which a shadow's keys have none of their own; revoke without `by = shadow`}}
  attend dense scores(%logit, %query, %key) {
    %ahead = arith.cmpi sgt, %key, %query : i32
    %none = arith.constant 0xFF800000 : f32
    %masked = arith.select %ahead, %none, %logit : f32
    yield %masked
  }
}

// -----

// A step of the first commit could revoke what it takes, and the next one as
// many again.
heddle.schedule @M14 {
  %odd = cadence every(2)
  commit best(8) on %odd revoke(below = 0.9)
  // expected-error@+1 {{has another `fewer_than` than an earlier commit that revokes, so that a block might never end; write the same for both}}
  commit above(0.6) revoke(below = 0.9, fewer_than = step_before)
  attend dense
}

// -----

heddle.schedule @M16 {
  // expected-error@+1 {{goes by an order that is drawn before the run, and not by confidences, which `near` would lift; leave `near` out, or commit by confidence}}
  commit random_order near(10)
  attend dense
}

// -----

heddle.schedule @M16 {
  // expected-error@+1 {{bounds a sum of entropies, which is none of what `near` makes of them; leave `near` out, or commit by probability}}
  commit entropy(0.1) near(10)
  attend dense
}

// -----

heddle.schedule @M2 {
  // expected-error@+1 {{the deviation of near must be at most 1024, found 1025}}
  commit quota near(1025)
  attend dense
}
