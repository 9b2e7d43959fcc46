// REQUIRES: heddle-opt
// RUN: heddle-opt %s --split-input-file --verify-diagnostics

// What rows, keys, reuse and commit must not say: each label is a constraint of
// docs/Spec.

// Forms

heddle.schedule @forms {
  // expected-error@+1 {{unknown set of positions 'suffix': one of all, prompt, response, block, before(block), from(block), decoded, undecoded, committed, next}}
  %p = positions suffix
}

// -----

heddle.schedule @forms {
  // expected-error@+1 {{committed has no argument 'before'; it takes since, last}}
  %p = positions committed(before = 3)
}

// -----

heddle.schedule @C1 {
  // expected-error@+1 {{argument 'first' of undecoded must be at least 1, found 0}}
  %p = positions undecoded(first = 0)
}

// -----

heddle.schedule @C1 {
  %a = positions block
  // expected-error@+1 {{the number of neighbors must be at least 1, found 0}}
  %p = neighbors(0) of %a in %a
  attend dense
}

// -----

heddle.schedule @C1 {
  %a = positions block
  // expected-error@+1 {{the number of positions must be at least 1, found 0}}
  %p = nearest(0) of %a in %a
  attend dense
}

// -----

heddle.schedule @C1 {
  %a = positions block
  // expected-error@+1 {{the count of confident must be at least 1, found 0}}
  %p = confident(0) of %a
  attend dense
}

// -----

heddle.schedule @forms {
  // expected-error@+1 {{unknown set of positions 'neighbors': one of all, prompt, response}}
  %p = "heddle.positions"() <{set = #heddle.position_set<neighbors(2)>}> : () -> !heddle.positions
  attend dense
}

// -----

heddle.schedule @forms {
  // expected-error@+1 {{committed needs a number of steps or a cadence}}
  %p = "heddle.positions"() <{set = #heddle.position_set<committed(since = cadence)>}> : () -> !heddle.positions
  attend dense
}

// -----

heddle.schedule @C1 {
  // expected-error@+1 {{argument 'from' of every must be at least 1, found 0}}
  %c = cadence every(4, from = 0)
}

// -----

heddle.schedule @C3 {
  // expected-error@+1 {{takes no 'in' here}}
  %c = cadence never in block
}

// -----

heddle.schedule @C3 {
  // expected-error@+1 {{takes no 'or' here}}
  %c = cadence never or after eos
}

// -----

heddle.schedule @forms {
  // expected-error@+1 {{expected 'after'}}
  %c = cadence every(4) or eos
}

// -----

// Of steps after EOS the ones before are not known to come at the step before.
heddle.schedule @K3 {
  %phase = cadence every(8)
  %after = cadence every(8, from = 2) or after eos
  %decoded = positions decoded
  %active = positions undecoded(first = 6)
  %seen = union %decoded, %active
  %window = fix %seen on %after
  // expected-error@+1 {{changes on every(8, from = 2) or after eos, at whose steps positions may come that have nothing cached}}
  visible all on %phase then %window
  reuse kv
  recompute all on %phase
  recompute %active
  commit quota stop(eos)
  attend dense
}

// -----

heddle.schedule @forms {
  // expected-error@+1 {{expected 'block'}}
  %c = cadence every(4) in run
}

// -----

heddle.schedule @P6 {
  %c = cadence every(4)
  // expected-error@+1 {{a block must be a power of two from 16 to 128 keys, found 256}}
  %a = select blocks(keep = 0.3, size = 256) by mean_probability on %c
}

// -----

heddle.schedule @P6 {
  %c = cadence every(4)
  // expected-error@+1 {{blocks has no argument 'per_kv_head'; it takes keep, size, rounding}}
  %a = select blocks(keep = 0.3, size = 128, per_kv_head) by mean_probability on %c
}

// -----

heddle.schedule @P8 {
  %c = cadence every(4)
  // expected-error@+1 {{isolates spans, which only blocks can}}
  %a = select columns(keep = 0.3, group = 128) by mean_probability isolating(spans) on %c
}

// -----

heddle.schedule @P8 {
  %c = cadence every(4)
  // expected-error@+1 {{spans are isolated as spans, aligned or filtered}}
  %a = select blocks(keep = 0.3, size = 128) by mean_probability isolating(none) on %c
}

// -----

heddle.schedule @P9 {
  %c = cadence every(4)
  // expected-error@+1 {{is scaled by the heads, which only blocks can be}}
  %a = select columns(keep = 0.3, group = 128) by mean_probability scaled_by(heads) on %c
}

// -----

heddle.schedule @P5 {
  // expected-error@+1 {{needs at least one set of positions}}
  %p = "heddle.union"() : () -> !heddle.positions
  attend dense
}

// -----

heddle.schedule @P5 {
  %a = positions all
  // expected-error@+1 {{unites pairs with positions}}
  %p = "heddle.union"(%a) : (!heddle.positions) -> !heddle.pairs
  attend dense
}

// -----

heddle.schedule @R9 {
  // expected-error@+1 {{needs at least one set of positions}}
  %p = "heddle.intersect"() : () -> !heddle.positions
  attend dense
}

// -----

heddle.schedule @R9 {
  // expected-error@+1 {{needs at least one set of pairs}}
  %p = "heddle.intersect"() : () -> !heddle.pairs
  attend dense
}

// -----

heddle.schedule @R9 {
  %a = positions all
  // expected-error@+1 {{intersects pairs with positions}}
  %p = "heddle.intersect"(%a) : (!heddle.positions) -> !heddle.pairs
  attend dense
}

// -----

// Rows

heddle.schedule @R1 {
  %c = cadence every(4, from = 5)
  %b = positions block
  reuse kv
  recompute all on %c
  // expected-error@+1 {{may run at step 1, where nothing is cached yet; a `recompute all` on a cadence that includes step 1 must come before}}
  recompute %b
  attend dense
}

// -----

heddle.schedule @R1 {
  %c = cadence every(4)
  %d = cadence first(2)
  %b = positions block
  reuse kv
  // expected-error@+1 {{may run at step 1}}
  recompute %b on %d
  recompute all on %c
  recompute %b
  attend dense
}

// -----

heddle.schedule @R1 {
  // A random cadence need not include step 1 of a block.
  %c = cadence random(window = 1/2, count = 3, seed = 0) in block
  %b = positions block
  reuse kv
  recompute all on %c
  // expected-error@+1 {{may run at step 1}}
  recompute %b
  attend dense
}

// -----

heddle.schedule @R2 {
  %c = cadence every(4)
  // expected-error@+1 {{is the last one and has a cadence, so that some steps compute nothing}}
  recompute all on %c
  attend dense
}

// -----

heddle.schedule @R2 {
  %c = cadence every(4)
  // expected-error@+1 {{has no cadence, so that those after it never run}}
  recompute all
  recompute all on %c
  attend dense
}

// -----

heddle.schedule @R3 {
  %c = cadence first(1) in block
  %b = positions block
  recompute all on %c
  // expected-error@+1 {{computes some rows, which attend to the others' keys and values: these must be kept, by `reuse kv`}}
  recompute %b
  attend dense
}

// -----

heddle.schedule @R4 {
  %c = cadence first(4)
  reuse kv, context(propagating)
  recompute all on %c
  // expected-error@+1 {{compares attention contexts with cached ones and goes on with cached FFN outputs: it needs `reuse kv, context, ffn`}}
  recompute salient(below = 0.99) in all
  attend dense
}

// -----

heddle.schedule @R4 {
  %c = cadence first(4)
  reuse kv, output, ffn
  recompute all on %c
  // expected-error@+1 {{it needs `reuse kv, context, ffn`}}
  recompute salient(below = 0.99) in all
  attend dense
}

// -----

heddle.schedule @R5 {
  %c = cadence first(4)
  %r = positions response
  reuse kv, context(propagating), ffn
  recompute all on %c
  // expected-error@+1 {{goes on with cached attention and FFN outputs: it needs `reuse kv, output, ffn` (or context, not propagating)}}
  recompute least_similar(keep = 0.25, among = %r) in %r
  attend dense
}

// -----

heddle.schedule @R6 {
  %c = cadence first(4)
  %p = positions decoded
  reuse kv
  recompute all on %c
  // expected-error@+1 {{computes rows that need not hold the first masked position, so that a run may stop short of its end; add undecoded(first = 1) or the block to them}}
  recompute %p
  attend dense
}

// -----

// Fixed on a cadence that ends, the first 16 are all decoded at some time.
heddle.schedule @R6 {
  %c = cadence first(4)
  %p = positions undecoded(first = 16)
  %f = fix %p on %c
  reuse kv
  recompute all on %c
  // expected-error@+1 {{computes rows that need not hold the first masked position}}
  recompute %f
  attend dense
}

// -----

heddle.schedule @R7 {
  // expected-error@+1 {{must be more than 0 and at most 2, found 5/2}}
  recompute salient(below = 2.5) in all
  attend dense
}

// -----

heddle.schedule @R7 {
  %r = positions response
  // expected-error@+1 {{argument 'keep' of least_similar must be from 0 to 1, found 3/2}}
  recompute least_similar(keep = 1.5, among = %r) in all
  attend dense
}

// -----

// A cosine's bound is never 0, and no other fraction.
heddle.schedule @R7 {
  // expected-error@+1 {{argument 'below' of salient must be more than 0 and at most 2, found 0}}
  recompute salient(below = 0 percent) in all
  attend dense
}

// -----

heddle.schedule @R7 {
  // expected-error@+1 {{argument 'below' of salient must be more than 0 and at most 2, found 0}}
  "heddle.recompute"() <{rule = #heddle.row_rule<salient(below = 0) in all>, operandSegmentSizes = array<i32: 0, 0, 0>}> : () -> ()
  attend dense
}

// -----

heddle.schedule @R7 {
  // expected-error@+1 {{salient needs its arguments in parentheses; write salient(below = ...)}}
  "heddle.recompute"() <{rule = #heddle.row_rule<salient in all>, operandSegmentSizes = array<i32: 0, 0, 0>}> : () -> ()
  attend dense
}

// -----

heddle.schedule @R7 {
  // expected-error@+1 {{least_similar needs argument 'among'}}
  recompute least_similar(keep = 0.5) in all
  attend dense
}

// -----

heddle.schedule @R8 {
  %c = cadence at(0.2)
  %e = cadence first(1)
  // expected-error@+1 {{goes back to the latest step of at(0.2), which need not include step 1, so that there may be none}}
  %p = positions committed(since = %c)
  %u = positions undecoded
  %all = union %p, %u
  reuse kv
  recompute all on %e
  recompute %all
  attend dense
}

// -----

heddle.schedule @R11 {
  %c = cadence every(4)
  // expected-error@+1 {{is what comes next in an order that is drawn before the run, and the schedule has none; let it `commit random_order`}}
  %p = positions next
  reuse kv
  recompute all on %c
  recompute %p
  attend dense
}

// -----

// The neighbors of what comes next are not what comes next.
heddle.schedule @R6 {
  %c = cadence every(4)
  %p = positions next
  %m = positions undecoded
  %n = neighbors(2) of %p in %m
  reuse kv
  recompute all on %c
  // expected-error@+1 {{computes rows that need not hold the first masked position}}
  recompute %n
  commit random_order
  attend dense
}

// -----

heddle.schedule @R6 {
  %c = cadence every(4)
  %p = positions next
  %m = positions undecoded
  %n = nearest(2) of %p in %m
  reuse kv
  recompute all on %c
  // expected-error@+1 {{computes rows that need not hold the first masked position}}
  recompute %n
  commit random_order
  attend dense
}

// -----

// The surest need not be the first one.
heddle.schedule @R6 {
  %c = cadence every(4)
  %block = positions block
  %sure = confident(4) of %block
  reuse kv
  recompute all on %c
  // expected-error@+1 {{computes rows that need not hold the first masked position}}
  recompute %sure
  attend dense
}

// -----

heddle.schedule @R21 {
  %c = cadence every(4)
  %block = positions block
  // expected-error@+1 {{goes by the confidence of what earlier steps predicted and left masked, and with `commit random_order` they predict what they commit alone; commit by confidence, or name `positions next`}}
  %sure = confident(4) of %block
  %next = positions next
  %rows = union %next, %sure
  reuse kv
  recompute all on %c
  recompute %rows
  commit random_order
  attend dense
}

// -----

// Keys

heddle.schedule @K1 {
  %p = positions prompt
  // expected-error@+1 {{need not hold the first masked position, so that a run may stop short of its end}}
  visible %p
  attend dense
}

// -----

heddle.schedule @K2 {
  %start = cadence first(1)
  %p = positions from(block)
  %b = positions block
  // expected-error@+1 {{depends on what is decoded and may change at any step; fix it on a cadence at whose steps all rows are computed: fix %positions on %cadence}}
  visible %p
  reuse kv
  recompute all on %start
  recompute %b
  attend dense
}

// -----

// Where every step computes all that is visible, nothing need be kept.
heddle.schedule @no_K2 {
  %p = positions from(block)
  visible %p
  attend dense
}

// -----

heddle.schedule @K3 {
  %c = cadence every(32)
  %d = cadence every(48)
  %p = positions undecoded
  %f = fix %p on %c
  %b = positions undecoded(first = 16)
  // expected-error@+1 {{changes on every(32), at whose steps positions may come that have nothing cached; begin with `recompute all` on the same cadence}}
  visible %f
  reuse kv
  recompute all on %d
  recompute %b
  attend dense
}

// -----

heddle.schedule @K4 {
  %c = cadence every(32)
  %d = cadence every(48)
  %p = positions undecoded
  %f = fix %p on %c
  visible %f
  // expected-error@+1 {{is made over the visible keys, which change on every(32); refresh it at these steps too, for instance on the same cadence}}
  %cols = select columns(keep = 0.2, group = 32) by mean_probability on %d
  attend pairs(%cols)
}

// -----

heddle.schedule @K5 {
  %a = positions all
  // expected-note@+1 {{the first one is here}}
  visible %a
  // expected-error@+1 {{is the second one; there can be one only}}
  visible %a
  attend dense
}

// -----

// Commit

heddle.schedule @M1 {
  // expected-error@+1 {{has no cadence, so that those after it never come}}
  commit quota
  // expected-note@+1 {{the last one is here}}
  commit above(0.9)
  attend dense
}

// -----

heddle.schedule @M4 {
  %c = cadence every(2)
  %p = positions prompt
  // expected-error@+1 {{commits within positions that need not hold the first masked one}}
  commit best(1) within(%p) on %c
  commit quota
  attend dense
}

// -----

heddle.schedule @M4 {
  %second = cadence every(4, from = 2)
  %u = positions undecoded
  %f = fix %u on %second
  // expected-error@+1 {{commits within positions that go back to a cadence which begins at step 2, so that there are none at step 1}}
  commit quota within(%f)
  attend dense
}

// -----

// What is taken away may be the first masked position.
heddle.schedule @R6 {
  %c = cadence every(4)
  %u = positions undecoded
  %b = positions before(block)
  %rows = except %u, %b
  reuse kv
  recompute all on %c
  // expected-error@+1 {{computes rows that need not hold the first masked position}}
  recompute %rows
  attend dense
}

// -----

// So may be what stands before the last positions.
heddle.schedule @R6 {
  %c = cadence every(4)
  %u = positions undecoded
  %rows = last(8) of %u
  reuse kv
  recompute all on %c
  // expected-error@+1 {{computes rows that need not hold the first masked position}}
  recompute %rows
  attend dense
}

// -----

heddle.schedule @C1 {
  %u = positions undecoded
  // expected-error@+1 {{the number of positions must be at least 1, found 0}}
  %p = last(0) of %u
  attend dense
}

// -----

heddle.schedule @form {
  %u = positions undecoded
  // expected-error@+1 {{expected ','}}
  %p = except %u
  attend dense
}

// -----

heddle.schedule @R13 {
  %c = cadence every(4)
  %u = positions undecoded
  %rows = predicting %u
  reuse kv
  recompute all on %c
  // expected-error@+1 {{names the rows that predict positions, and would add the rows that predict these; write `recompute %rows alone`}}
  recompute %rows
  attend dense
}

// -----

heddle.schedule @R13 {
  %c = cadence every(4)
  %u = positions undecoded
  %rows = predicting %u
  // expected-error@+1 {{is made of rows (predicting), which only a `recompute ... alone` takes}}
  %h = hull %rows
  reuse kv
  recompute all on %c
  recompute %h
  attend dense
}

// -----

heddle.schedule @R13 {
  %u = positions undecoded
  %rows = predicting %u
  // expected-error@+1 {{commits within rows (predicting); name the positions}}
  commit quota within(%rows)
  attend dense
}

// -----

heddle.schedule @R13 {
  %u = positions all
  %rows = predicting %u
  // expected-error@+1 {{is made of rows (predicting); name the positions}}
  visible %rows
  attend dense
}

// -----

heddle.schedule @R13 {
  %c = cadence every(4)
  %u = positions response
  %rows = predicting %u
  reuse kv, output, ffn
  recompute all on %c
  // expected-error@+1 {{compares rows by what they predict (predicting); name the positions}}
  recompute least_similar(keep = 0.5, among = %rows) in %u
  attend dense
}

// -----

heddle.schedule @R8 {
  %second = cadence every(4, from = 2)
  %phase = cadence every(4)
  %u = positions undecoded
  %f = fix %u on %second
  // expected-error@+1 {{fixes a set that goes back to a cadence which begins at step 2, so that there is none at step 1}}
  %g = fix %f on %phase
  visible %g
  attend dense
}

// -----

heddle.schedule @K6 {
  %second = cadence every(4, from = 2)
  %u = positions undecoded
  %f = fix %u on %second
  // expected-error@+1 {{goes back to a cadence that begins at step 2, so that there is nothing to see at step 1; let all be visible on a cadence that includes step 1}}
  visible %f
  attend dense
}

// -----

heddle.schedule @K6 {
  %c = cadence every(4)
  %often = cadence every(2)
  %u = positions undecoded
  %d = positions decoded
  %s = union %u, %d
  %f = fix %s on %c
  // expected-error@+1 {{shows all positions on every(2), at whose steps all rows must be computed; begin with `recompute all` on the same cadence}}
  visible all on %often then %f
  reuse kv
  recompute all on %c
  recompute %u
  attend dense
}

// -----

// The window changes two steps after all was visible.
heddle.schedule @K3 {
  %c = cadence every(4)
  %late = cadence every(4, from = 3)
  %second = cadence every(8, from = 2)
  %u = positions undecoded
  %f = fix %u on %second
  // expected-error@+1 {{changes on every(8, from = 2), at whose steps positions may come that have nothing cached}}
  visible all on %c then %f
  reuse kv
  recompute all on %c
  recompute %u
  attend dense
}

// -----

// What varies is not what the step computes.
heddle.schedule @K2 {
  %c = cadence every(4)
  %a = positions undecoded(first = 4)
  %b = positions undecoded(first = 6)
  %d = positions decoded
  %f = fix %d on %c
  %seen = union %f, %b
  // expected-error@+1 {{depends on what is decoded and may change at any step}}
  visible %seen
  reuse kv
  recompute all on %c
  recompute %a
  attend dense
}

// -----

heddle.schedule @K4 {
  %c = cadence every(4)
  %second = cadence every(4, from = 2)
  %u = positions undecoded
  %f = fix %u on %second
  // expected-error@+1 {{numbers the visible keys, which may change at a step that does not refresh it}}
  %cols = select columns(keep = 0.2, group = 32) by mean_probability on %c
  visible all on %c then %f
  reuse kv
  recompute all on %c
  recompute %u
  attend pairs(%cols)
}

// -----

heddle.schedule @M4 {
  %d = positions decoded
  // expected-error@+1 {{commits within positions that need not hold the first masked one, so that a run may stop short of its end; add undecoded(first = 1) or the block to them}}
  commit quota within(%d)
  attend dense
}

// -----

// What comes next need not be in the window.
heddle.schedule @M5 {
  %c = cadence every(8)
  %p = positions undecoded(first = 16)
  %d = positions decoded
  %u = union %p, %d
  %w = fix %u on %c
  %n = positions next
  visible %w
  reuse kv
  recompute all on %c
  recompute %n
  // expected-error@+1 {{goes by a drawn order, and of the positions that are visible, computed by a pass and committed within, some need hold only what comes next in it and others only the first masked one, so that a run may stop short of its end; let all hold the same, or the block}}
  commit random_order
  attend dense
}

// -----

// Refreshes

// The planner computes all rows on a selection's cadence by itself, so that
// only a plan can break S6 (verify-plan-program.mlir).
heddle.schedule @S6 {
  %c = cadence every(8)
  %start = cadence first(1) in block
  %b = positions block
  %cols = select columns(keep = 0.2, group = 32) by mean_probability on %c
  reuse kv
  recompute all on %start
  recompute %b
  attend pairs(%cols)
}

// -----

heddle.schedule @order {
  // expected-error@+1 {{takes nothing in parentheses here}}
  %a = positions next(2)
}

// -----

heddle.schedule @order {
  // expected-error@+1 {{takes no 'after' here}}
  %c = cadence every(2) after eos
}

// -----

heddle.schedule @order {
  %c = cadence every(2)
  // expected-error@+1 {{takes no 'on' here}}
  reuse kv on %c
}

// -----

heddle.schedule @order {
  %p = positions response
  // expected-error@+1 {{takes no list here}}
  %h = hull %p, %p
}

// -----

heddle.schedule @numbers {
  // expected-error@+1 {{expected an integer, found 'wide'}}
  %near = window(wide)
}

// -----

heddle.schedule @braces {
  // expected-error@+1 {{has no attributes in braces; write what it needs in its own words}}
  %near = window(64) {size = 1}
  attend pairs(%near)
}
