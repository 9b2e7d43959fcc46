// REQUIRES: heddle-opt
// RUN: heddle-opt %s --split-input-file --verify-diagnostics

// What rows, keys, reuse and commit must not say: each label is a constraint of
// docs/Spec.

// Forms

heddle.schedule @forms {
  // expected-error@+1 {{unknown set of positions 'suffix': one of all, prompt, response, block, before(block), from(block), decoded, undecoded, undecoded(first = n), committed(last = n), committed(since ...), next}}
  %p = heddle.positions suffix
}

// -----

heddle.schedule @forms {
  // expected-error@+1 {{committed(last = steps) or committed(since ...) a cadence}}
  %p = heddle.positions committed(before = 3)
}

// -----

heddle.schedule @C1 {
  // expected-error@+1 {{the number of positions must be at least 1, found 0}}
  %p = heddle.positions undecoded(first = 0)
}

// -----

heddle.schedule @C1 {
  %a = heddle.positions block
  // expected-error@+1 {{the number of neighbors must be at least 1, found 0}}
  %p = heddle.neighbors(0) of %a in %a
  heddle.attend dense
}

// -----

heddle.schedule @forms {
  // expected-error@+1 {{neighbors is an op of its own}}
  %p = "heddle.positions"() <{kind = #heddle<positions_kind neighbors>, count = 2}> : () -> !heddle.positions
  heddle.attend dense
}

// -----

heddle.schedule @C1 {
  // expected-error@+1 {{the first step of every must be at least 1, found 0}}
  %c = heddle.cadence every(4, from = 0)
}

// -----

heddle.schedule @C3 {
  // expected-error@+1 {{never has no steps to count in a block}}
  %c = heddle.cadence never in block
}

// -----

heddle.schedule @C3 {
  // expected-error@+1 {{never has no steps, also after EOS}}
  %c = heddle.cadence never or after eos
}

// -----

heddle.schedule @forms {
  // expected-error@+1 {{expected 'after'}}
  %c = heddle.cadence every(4) or eos
}

// -----

// Of steps after EOS the ones before are not known to come at the step before.
heddle.schedule @K3 {
  %phase = heddle.cadence every(8)
  %after = heddle.cadence every(8, from = 2) or after eos
  %decoded = heddle.positions decoded
  %active = heddle.positions undecoded(first = 6)
  %seen = heddle.union positions %decoded, %active
  %window = heddle.fix %seen on %after
  // expected-error@+1 {{changes on every(8, from = 2) or after eos, at whose steps positions may come that have nothing cached}}
  heddle.visible all on %phase then %window
  heddle.reuse kv
  heddle.recompute all on %phase
  heddle.recompute %active
  heddle.commit quota stop(eos)
  heddle.attend dense
}

// -----

heddle.schedule @forms {
  // expected-error@+1 {{expected 'block'}}
  %c = heddle.cadence every(4) in run
}

// -----

heddle.schedule @P6 {
  %c = heddle.cadence every(4)
  // expected-error@+1 {{a block must be a power of two from 16 to 128 keys, found 256}}
  %a = heddle.select blocks(keep = 0.3, size = 256) by mean_probability on %c
}

// -----

heddle.schedule @P6 {
  %c = heddle.cadence every(4)
  // expected-error@+1 {{blocks has no argument 'per_kv_head'; it takes keep, size, rounding}}
  %a = heddle.select blocks(keep = 0.3, size = 128, per_kv_head) by mean_probability on %c
}

// -----

heddle.schedule @P8 {
  %c = heddle.cadence every(4)
  // expected-error@+1 {{isolates spans, which only blocks can}}
  %a = heddle.select columns(keep = 0.3, group = 128) by mean_probability isolating(spans) on %c
}

// -----

heddle.schedule @P8 {
  %c = heddle.cadence every(4)
  // expected-error@+1 {{spans are isolated as spans, aligned or filtered}}
  %a = heddle.select blocks(keep = 0.3, size = 128) by mean_probability isolating(none) on %c
}

// -----

heddle.schedule @P9 {
  %c = heddle.cadence every(4)
  // expected-error@+1 {{is scaled by the heads, which only blocks can be}}
  %a = heddle.select columns(keep = 0.3, group = 128) by mean_probability scaled_by(heads) on %c
}

// -----

heddle.schedule @P5 {
  // expected-error@+1 {{needs at least one set of positions}}
  %p = "heddle.union"() : () -> !heddle.positions
  heddle.attend dense
}

// -----

heddle.schedule @P5 {
  %a = heddle.positions all
  // expected-error@+1 {{unites pairs with positions}}
  %p = "heddle.union"(%a) : (!heddle.positions) -> !heddle.pairs
  heddle.attend dense
}

// -----

heddle.schedule @R9 {
  // expected-error@+1 {{needs at least one set of positions}}
  %p = "heddle.intersect"() : () -> !heddle.positions
  heddle.attend dense
}

// -----

// Rows

heddle.schedule @R1 {
  %c = heddle.cadence every(4, from = 5)
  %b = heddle.positions block
  heddle.reuse kv
  heddle.recompute all on %c
  // expected-error@+1 {{may run at step 1, where nothing is cached yet; a `recompute all` on a cadence that includes step 1 must come before}}
  heddle.recompute %b
  heddle.attend dense
}

// -----

heddle.schedule @R1 {
  %c = heddle.cadence every(4)
  %d = heddle.cadence first(2)
  %b = heddle.positions block
  heddle.reuse kv
  // expected-error@+1 {{may run at step 1}}
  heddle.recompute %b on %d
  heddle.recompute all on %c
  heddle.recompute %b
  heddle.attend dense
}

// -----

heddle.schedule @R1 {
  // A random cadence need not include step 1 of a block.
  %c = heddle.cadence random(window = 1/2, count = 3, seed = 0) in block
  %b = heddle.positions block
  heddle.reuse kv
  heddle.recompute all on %c
  // expected-error@+1 {{may run at step 1}}
  heddle.recompute %b
  heddle.attend dense
}

// -----

heddle.schedule @R2 {
  %c = heddle.cadence every(4)
  // expected-error@+1 {{is the last one and has a cadence, so that some steps compute nothing}}
  heddle.recompute all on %c
  heddle.attend dense
}

// -----

heddle.schedule @R2 {
  %c = heddle.cadence every(4)
  // expected-error@+1 {{has no cadence, so that those after it never run}}
  heddle.recompute all
  heddle.recompute all on %c
  heddle.attend dense
}

// -----

heddle.schedule @R3 {
  %c = heddle.cadence first(1) in block
  %b = heddle.positions block
  heddle.recompute all on %c
  // expected-error@+1 {{computes some rows, which attend to the others' keys and values: these must be kept, by `heddle.reuse kv`}}
  heddle.recompute %b
  heddle.attend dense
}

// -----

heddle.schedule @R4 {
  %c = heddle.cadence first(4)
  heddle.reuse kv, context(propagating)
  heddle.recompute all on %c
  // expected-error@+1 {{compares attention contexts with cached ones and goes on with cached FFN outputs: it needs `heddle.reuse kv, context, ffn`}}
  heddle.recompute salient(below = 0.99) in all
  heddle.attend dense
}

// -----

heddle.schedule @R4 {
  %c = heddle.cadence first(4)
  heddle.reuse kv, output, ffn
  heddle.recompute all on %c
  // expected-error@+1 {{it needs `heddle.reuse kv, context, ffn`}}
  heddle.recompute salient(below = 0.99) in all
  heddle.attend dense
}

// -----

heddle.schedule @R5 {
  %c = heddle.cadence first(4)
  %r = heddle.positions response
  heddle.reuse kv, context(propagating), ffn
  heddle.recompute all on %c
  // expected-error@+1 {{goes on with cached attention and FFN outputs: it needs `heddle.reuse kv, output, ffn` (or context, not propagating)}}
  heddle.recompute least_similar(keep = 0.25, among = %r) in %r
  heddle.attend dense
}

// -----

heddle.schedule @R6 {
  %c = heddle.cadence first(4)
  %p = heddle.positions decoded
  heddle.reuse kv
  heddle.recompute all on %c
  // expected-error@+1 {{computes rows that need not hold the first masked position, so that a run may stop short of its end; add undecoded(first = 1) or the block to them}}
  heddle.recompute %p
  heddle.attend dense
}

// -----

// Fixed on a cadence that ends, the first 16 are all decoded at some time.
heddle.schedule @R6 {
  %c = heddle.cadence first(4)
  %p = heddle.positions undecoded(first = 16)
  %f = heddle.fix %p on %c
  heddle.reuse kv
  heddle.recompute all on %c
  // expected-error@+1 {{computes rows that need not hold the first masked position}}
  heddle.recompute %f
  heddle.attend dense
}

// -----

heddle.schedule @R7 {
  // expected-error@+1 {{a ratio must be more than 0 and at most 2, found 5/2}}
  heddle.recompute salient(below = 2.5) in all
  heddle.attend dense
}

// -----

heddle.schedule @R7 {
  %r = heddle.positions response
  // expected-error@+1 {{a ratio must be more than 0 and at most 1, found 3/2}}
  heddle.recompute least_similar(keep = 1.5, among = %r) in all
  heddle.attend dense
}

// -----

heddle.schedule @R7 {
  // expected-error@+1 {{salient needs a ratio}}
  "heddle.recompute"() <{exact = #heddle<exact salient>, operandSegmentSizes = array<i32: 0, 0, 0>}> : () -> ()
  heddle.attend dense
}

// -----

heddle.schedule @R7 {
  // expected-error@+1 {{least_similar needs argument 'among'}}
  heddle.recompute least_similar(keep = 0.5) in all
  heddle.attend dense
}

// -----

heddle.schedule @R8 {
  %c = heddle.cadence at(0.2)
  %e = heddle.cadence first(1)
  // expected-error@+1 {{goes back to the latest step of at(1/5), which need not include step 1, so that there may be none}}
  %p = heddle.positions committed(since = %c)
  %u = heddle.positions undecoded
  %all = heddle.union positions %p, %u
  heddle.reuse kv
  heddle.recompute all on %e
  heddle.recompute %all
  heddle.attend dense
}

// -----

heddle.schedule @R11 {
  %c = heddle.cadence every(4)
  // expected-error@+1 {{is what comes next in an order that is drawn before the run, and the schedule has none; let it `heddle.commit random_order`}}
  %p = heddle.positions next
  heddle.reuse kv
  heddle.recompute all on %c
  heddle.recompute %p
  heddle.attend dense
}

// -----

// The neighbors of what comes next are not what comes next.
heddle.schedule @R6 {
  %c = heddle.cadence every(4)
  %p = heddle.positions next
  %m = heddle.positions undecoded
  %n = heddle.neighbors(2) of %p in %m
  heddle.reuse kv
  heddle.recompute all on %c
  // expected-error@+1 {{computes rows that need not hold the first masked position}}
  heddle.recompute %n
  heddle.commit random_order
  heddle.attend dense
}

// -----

// Keys

heddle.schedule @K1 {
  %p = heddle.positions prompt
  // expected-error@+1 {{need not hold the first masked position, so that a run may stop short of its end}}
  heddle.visible %p
  heddle.attend dense
}

// -----

heddle.schedule @K2 {
  %start = heddle.cadence first(1)
  %p = heddle.positions from(block)
  %b = heddle.positions block
  // expected-error@+1 {{depends on what is decoded and may change at any step; fix it on a cadence at whose steps all rows are computed: heddle.fix %positions on %cadence}}
  heddle.visible %p
  heddle.reuse kv
  heddle.recompute all on %start
  heddle.recompute %b
  heddle.attend dense
}

// -----

// Where every step computes all that is visible, nothing need be kept.
heddle.schedule @no_K2 {
  %p = heddle.positions from(block)
  heddle.visible %p
  heddle.attend dense
}

// -----

heddle.schedule @K3 {
  %c = heddle.cadence every(32)
  %d = heddle.cadence every(48)
  %p = heddle.positions undecoded
  %f = heddle.fix %p on %c
  %b = heddle.positions undecoded(first = 16)
  // expected-error@+1 {{changes on every(32), at whose steps positions may come that have nothing cached; begin with `heddle.recompute all` on the same cadence}}
  heddle.visible %f
  heddle.reuse kv
  heddle.recompute all on %d
  heddle.recompute %b
  heddle.attend dense
}

// -----

heddle.schedule @K4 {
  %c = heddle.cadence every(32)
  %d = heddle.cadence every(48)
  %p = heddle.positions undecoded
  %f = heddle.fix %p on %c
  heddle.visible %f
  // expected-error@+1 {{is made over the visible keys, which change on every(32); renew it at these steps too, for instance on the same cadence}}
  %cols = heddle.select columns(keep = 0.2, group = 32) by mean_probability on %d
  heddle.attend pairs(%cols)
}

// -----

heddle.schedule @K5 {
  %a = heddle.positions all
  // expected-note@+1 {{the first one is here}}
  heddle.visible %a
  // expected-error@+1 {{is the second one; there can be one only}}
  heddle.visible %a
  heddle.attend dense
}

// -----

// Reuse

heddle.schedule @U1 {
  // expected-error@+1 {{keeps nothing; name kv, context, output or ffn}}
  "heddle.reuse"() : () -> ()
  heddle.attend dense
}

// -----

heddle.schedule @U1 {
  // expected-error@+1 {{what is reused is kv, context, context(propagating), output or ffn}}
  heddle.reuse everything
  heddle.attend dense
}

// -----

heddle.schedule @U2 {
  // expected-error@+1 {{keeps parts of rows but not their keys and values, which other rows attend to; add kv}}
  heddle.reuse context, ffn
  heddle.attend dense
}

// -----

heddle.schedule @U3 {
  // expected-error@+1 {{attention is kept once: as context or as output}}
  heddle.reuse kv, context, output
  heddle.attend dense
}

// -----

heddle.schedule @U4 {
  // expected-note@+1 {{the first one is here}}
  heddle.reuse kv
  // expected-error@+1 {{is the second one; there can be one only}}
  heddle.reuse kv, ffn
  heddle.attend dense
}

// -----

// Commit

heddle.schedule @M1 {
  // expected-error@+1 {{has no cadence, so that those after it never come}}
  heddle.commit quota
  // expected-note@+1 {{the last one is here}}
  heddle.commit above(0.9)
  heddle.attend dense
}

// -----

heddle.schedule @M1 {
  %c = heddle.cadence every(2)
  heddle.commit quota on %c
  // expected-error@+1 {{is the last one and has a cadence, so that other steps have no rule; add one without}}
  heddle.commit above(0.9) on %c
  heddle.attend dense
}

// -----

heddle.schedule @M6 {
  %c = heddle.cadence every(2)
  // expected-error@+1 {{says when blocks end, which only the last commit, the one without a cadence, can}}
  heddle.commit quota on %c passes(at_least = 2)
  heddle.commit above(0.9)
  heddle.attend dense
}

// -----

heddle.schedule @M6 {
  %c = heddle.cadence every(2)
  // expected-error@+1 {{comes with an order that is drawn for the whole run; a schedule with `random_order` has one commit}}
  heddle.commit quota on %c
  heddle.commit random_order
  heddle.attend dense
}

// -----

heddle.schedule @M4 {
  %c = heddle.cadence every(2)
  %p = heddle.positions prompt
  // expected-error@+1 {{commits within positions that need not hold the first masked one}}
  heddle.commit best(1) within(%p) on %c
  heddle.commit quota
  heddle.attend dense
}

// -----

heddle.schedule @M4 {
  %second = heddle.cadence every(4, from = 2)
  %u = heddle.positions undecoded
  %f = heddle.fix %u on %second
  // expected-error@+1 {{commits within positions that go back to a cadence which begins at step 2, so that there are none at step 1}}
  heddle.commit quota within(%f)
  heddle.attend dense
}

// -----

heddle.schedule @M2 {
  // expected-error@+1 {{the number of tokens must be at least 1, found 0}}
  heddle.commit best(0)
  heddle.attend dense
}

// -----

heddle.schedule @M2 {
  // expected-error@+1 {{best needs a number}}
  "heddle.commit"() <{kind = #heddle<commit_kind best>, operandSegmentSizes = array<i32: 0, 0>}> : () -> ()
  heddle.attend dense
}

// -----

heddle.schedule @M2 {
  // expected-error@+1 {{above has no last candidate; factor has}}
  "heddle.commit"() <{kind = #heddle<commit_kind above>, ratio = #heddle.ratio<1/2>, last_alone, operandSegmentSizes = array<i32: 0, 0>}> : () -> ()
  heddle.attend dense
}

// -----

heddle.schedule @M2 {
  // expected-error@+1 {{the number of passes must be at most 1048576, found 1048577}}
  heddle.commit quota stop(eos) passes(at_least = 1048577)
  heddle.attend dense
}

// -----

heddle.schedule @M2 {
  // expected-error@+1 {{the number of passes must be at least 1, found 0}}
  heddle.commit quota passes(at_least = 0)
  heddle.attend dense
}

// -----

heddle.schedule @M7 {
  %c = heddle.cadence every(2)
  // expected-error@+1 {{narrows to what stands before EOS but does not stop at it}}
  "heddle.commit"(%c) <{kind = #heddle<commit_kind quota>, narrows, operandSegmentSizes = array<i32: 0, 1>}> : (!heddle.cadence) -> ()
  heddle.commit quota
  heddle.attend dense
}

// -----

heddle.schedule @M7 {
  // expected-error@+1 {{narrows to what stands before EOS but does not stop at it}}
  "heddle.commit"() <{kind = #heddle<commit_kind quota>, narrows, operandSegmentSizes = array<i32: 0, 0>}> : () -> ()
  heddle.attend dense
}

// -----

heddle.schedule @R13 {
  %c = heddle.cadence every(4)
  %u = heddle.positions undecoded
  %rows = heddle.predicting %u
  heddle.reuse kv
  heddle.recompute all on %c
  // expected-error@+1 {{names the rows that predict positions, and would add the rows that predict these; write `recompute %rows alone`}}
  heddle.recompute %rows
  heddle.attend dense
}

// -----

heddle.schedule @R13 {
  %c = heddle.cadence every(4)
  %u = heddle.positions undecoded
  %rows = heddle.predicting %u
  // expected-error@+1 {{is made of rows (heddle.predicting), which only a `recompute ... alone` takes}}
  %h = heddle.hull %rows
  heddle.reuse kv
  heddle.recompute all on %c
  heddle.recompute %h
  heddle.attend dense
}

// -----

heddle.schedule @R13 {
  %u = heddle.positions undecoded
  %rows = heddle.predicting %u
  // expected-error@+1 {{commits within rows (heddle.predicting); name the positions}}
  heddle.commit quota within(%rows)
  heddle.attend dense
}

// -----

heddle.schedule @R13 {
  %u = heddle.positions all
  %rows = heddle.predicting %u
  // expected-error@+1 {{is made of rows (heddle.predicting); name the positions}}
  heddle.visible %rows
  heddle.attend dense
}

// -----

heddle.schedule @R13 {
  %c = heddle.cadence every(4)
  %u = heddle.positions response
  %rows = heddle.predicting %u
  heddle.reuse kv, output, ffn
  heddle.recompute all on %c
  // expected-error@+1 {{compares rows by what they predict (heddle.predicting); name the positions}}
  heddle.recompute least_similar(keep = 0.5, among = %rows) in %u
  heddle.attend dense
}

// -----

heddle.schedule @R8 {
  %second = heddle.cadence every(4, from = 2)
  %phase = heddle.cadence every(4)
  %u = heddle.positions undecoded
  %f = heddle.fix %u on %second
  // expected-error@+1 {{fixes a set that goes back to a cadence which begins at step 2, so that there is none at step 1}}
  %g = heddle.fix %f on %phase
  heddle.visible %g
  heddle.attend dense
}

// -----

heddle.schedule @K6 {
  %second = heddle.cadence every(4, from = 2)
  %u = heddle.positions undecoded
  %f = heddle.fix %u on %second
  // expected-error@+1 {{goes back to a cadence that begins at step 2, so that there is nothing to see at step 1; let all be visible on a cadence that includes step 1}}
  heddle.visible %f
  heddle.attend dense
}

// -----

heddle.schedule @K6 {
  %c = heddle.cadence every(4)
  %often = heddle.cadence every(2)
  %u = heddle.positions undecoded
  %d = heddle.positions decoded
  %s = heddle.union positions %u, %d
  %f = heddle.fix %s on %c
  // expected-error@+1 {{shows all positions on every(2), at whose steps all rows must be computed; begin with `heddle.recompute all` on the same cadence}}
  heddle.visible all on %often then %f
  heddle.reuse kv
  heddle.recompute all on %c
  heddle.recompute %u
  heddle.attend dense
}

// -----

// The window changes two steps after all was visible.
heddle.schedule @K3 {
  %c = heddle.cadence every(4)
  %late = heddle.cadence every(4, from = 3)
  %second = heddle.cadence every(8, from = 2)
  %u = heddle.positions undecoded
  %f = heddle.fix %u on %second
  // expected-error@+1 {{changes on every(8, from = 2), at whose steps positions may come that have nothing cached}}
  heddle.visible all on %c then %f
  heddle.reuse kv
  heddle.recompute all on %c
  heddle.recompute %u
  heddle.attend dense
}

// -----

// What varies is not what the step computes.
heddle.schedule @K2 {
  %c = heddle.cadence every(4)
  %a = heddle.positions undecoded(first = 4)
  %b = heddle.positions undecoded(first = 6)
  %d = heddle.positions decoded
  %f = heddle.fix %d on %c
  %seen = heddle.union positions %f, %b
  // expected-error@+1 {{depends on what is decoded and may change at any step}}
  heddle.visible %seen
  heddle.reuse kv
  heddle.recompute all on %c
  heddle.recompute %a
  heddle.attend dense
}

// -----

heddle.schedule @K4 {
  %c = heddle.cadence every(4)
  %second = heddle.cadence every(4, from = 2)
  %u = heddle.positions undecoded
  %f = heddle.fix %u on %second
  // expected-error@+1 {{numbers the visible keys, which may change at a step that does not renew it}}
  %cols = heddle.select columns(keep = 0.2, group = 32) by mean_probability on %c
  heddle.visible all on %c then %f
  heddle.reuse kv
  heddle.recompute all on %c
  heddle.recompute %u
  heddle.attend pairs(%cols)
}

// -----

heddle.schedule @M2 {
  // expected-error@+1 {{a ratio must be more than 0 and at most 1, found 9/1}}
  heddle.commit above(9)
  heddle.attend dense
}

// -----

heddle.schedule @M2 {
  // expected-error@+1 {{factor needs a number}}
  "heddle.commit"() <{kind = #heddle<commit_kind factor>, operandSegmentSizes = array<i32: 0, 0>}> : () -> ()
  heddle.attend dense
}

// -----

heddle.schedule @M4 {
  %d = heddle.positions decoded
  // expected-error@+1 {{commits within positions that need not hold the first masked one, so that a run may stop short of its end; add undecoded(first = 1) or the block to them}}
  heddle.commit quota within(%d)
  heddle.attend dense
}

// -----

heddle.schedule @M2 {
  // expected-error@+1 {{what is committed is said by quota, above(confidence), factor(number), best(number), timesteps or random_order}}
  heddle.commit all
  heddle.attend dense
}

// -----

heddle.schedule @M2 {
  // expected-error@+1 {{random_order has no number}}
  "heddle.commit"() <{kind = #heddle<commit_kind random_order>, ratio = #heddle.ratio<1/2>, operandSegmentSizes = array<i32: 0, 0>}> : () -> ()
  heddle.attend dense
}

// -----

// What comes next need not be in the window.
heddle.schedule @M5 {
  %c = heddle.cadence every(8)
  %p = heddle.positions undecoded(first = 16)
  %d = heddle.positions decoded
  %u = heddle.union positions %p, %d
  %w = heddle.fix %u on %c
  %n = heddle.positions next
  heddle.visible %w
  heddle.reuse kv
  heddle.recompute all on %c
  heddle.recompute %n
  // expected-error@+1 {{goes by a drawn order, and of the positions that are visible, computed by a pass and committed within, some need hold only what comes next in it and others only the first masked one, so that a run may stop short of its end; let all hold the same, or the block}}
  heddle.commit random_order
  heddle.attend dense
}

// -----

// Renewals

// The planner computes all rows on a selection's cadence by itself, so that
// only a plan can break S6 (verify-plan-program.mlir).
heddle.schedule @S6 {
  %c = heddle.cadence every(8)
  %start = heddle.cadence first(1) in block
  %b = heddle.positions block
  %cols = heddle.select columns(keep = 0.2, group = 32) by mean_probability on %c
  heddle.reuse kv
  heddle.recompute all on %start
  heddle.recompute %b
  heddle.attend pairs(%cols)
}

// -----

heddle.schedule @order {
  %c = heddle.cadence every(2)
  %a = heddle.positions undecoded(first = 4)
  // expected-error@+1 {{takes no 'within' here: clauses have one order, and not every op has each}}
  heddle.commit quota on %c within(%a)
}

// -----

heddle.schedule @order {
  // expected-error@+1 {{takes no 'in' here: clauses have one order}}
  %c = heddle.cadence every(2) or after eos in block
}

// -----

heddle.schedule @order {
  // expected-error@+1 {{takes nothing in parentheses here}}
  %a = heddle.positions next(2)
}

// -----

heddle.schedule @order {
  // expected-error@+1 {{takes no 'after' here}}
  %c = heddle.cadence every(2) after eos
}

// -----

heddle.schedule @order {
  %c = heddle.cadence every(2)
  // expected-error@+1 {{takes no 'on' here}}
  heddle.reuse kv on %c
}

// -----

heddle.schedule @order {
  %p = heddle.positions response
  // expected-error@+1 {{takes no list here}}
  %h = heddle.hull %p, %p
}

// -----

heddle.schedule @numbers {
  // expected-error@+1 {{expected integer value}}
  %near = heddle.window(wide)
}

// -----

heddle.schedule @braces {
  // expected-error@+1 {{has no attributes in braces; write what it needs in its own words}}
  %near = heddle.window(64) {size = 1}
  heddle.attend pairs(%near)
}
