// REQUIRES: heddle-opt
// RUN: heddle-opt %s --heddle-verify-schedule --heddle-plan-steps --heddle-verify-plan | FileCheck %s

// Rows, keys, reuse and commit in a plan; a selection's refresh puts a pass that
// computes all rows in front of the schedule's own.

// CHECK-LABEL: heddle.plan @columns_saliency
// CHECK: heddle.selection @cols columns
// CHECK-NEXT: %[[REFRESHED:.*]] = heddle.cadence uniform(window = 0.3, count = 16)
// CHECK-NEXT: %[[FULL:.*]] = heddle.cadence first(4)
// CHECK-NEXT: %[[WHOLE:.*]] = heddle.cadence every(4, from = 5)
// CHECK-NEXT: %[[RESPONSE:.*]] = heddle.positions response
// CHECK-NEXT: heddle.recompute all on %[[REFRESHED]]
// CHECK-NEXT: heddle.recompute all on %[[FULL]]
// CHECK-NEXT: heddle.recompute salient(below = 0.99) in all on %[[WHOLE]]
// CHECK-NEXT: heddle.recompute salient(below = 0.99) in %[[RESPONSE]]
// CHECK-NEXT: heddle.reuse kv, context(propagating), ffn
// CHECK-NEXT: heddle.kernel
heddle.schedule @columns_saliency {
  %refresh = cadence uniform(window = 0.3, count = 16)
  %full = cadence first(4)
  %whole = cadence every(4, from = 5)
  %response = positions response
  %cols = select columns(keep = 0.2, group = 32) by mean_probability on %refresh
  reuse kv, context(propagating), ffn
  recompute all on %full
  recompute salient(below = 0.99) in all on %whole
  recompute salient(below = 0.99) in %response
  attend pairs(%cols)
}

// A pass that is there already is not put there again.
// CHECK-LABEL: heddle.plan @columns_in_window
// CHECK: %[[PHASE:.*]] = heddle.cadence every(32)
// CHECK-NEXT: %[[DECODED:.*]] = heddle.positions decoded
// CHECK-NEXT: %[[EXTERNAL:.*]] = heddle.positions undecoded(first = 64)
// CHECK-NEXT: %[[ACTIVE:.*]] = heddle.positions undecoded(first = 16)
// CHECK-NEXT: %[[RECENT:.*]] = heddle.positions committed(since = %[[PHASE]])
// CHECK-NEXT: %[[SEEN:.*]] = heddle.union %[[DECODED]], %[[EXTERNAL]]
// CHECK-NEXT: %[[WINDOW:.*]] = heddle.fix %[[SEEN]] on %[[PHASE]]
// CHECK-NEXT: %[[ROWS:.*]] = heddle.union %[[ACTIVE]], %[[RECENT]]
// CHECK-NEXT: heddle.visible %[[WINDOW]]
// CHECK-NEXT: heddle.recompute all on %[[PHASE]]
// CHECK-NEXT: heddle.recompute %[[ROWS]]
// CHECK-NEXT: heddle.reuse kv
// CHECK-NEXT: heddle.commit quota within(%[[ACTIVE]])
// CHECK: heddle.rule default {
// CHECK-NEXT: heddle.phase on every(32) {
heddle.schedule @columns_in_window {
  %phase = cadence every(32)
  %decoded = positions decoded
  %external = positions undecoded(first = 64)
  %active = positions undecoded(first = 16)
  %recent = positions committed(since = %phase)
  %seen = union %decoded, %external
  %window = fix %seen on %phase
  %rows = union %active, %recent
  %cols = select columns(keep = 0.2, group = 32) by mean_probability on %phase
  visible %window
  reuse kv
  recompute all on %phase
  recompute %rows
  commit quota within(%active)
  attend pairs(%cols)
}

// Selections that differ have select kernels of their own kind; without passes
// nothing is kept.
// CHECK-LABEL: heddle.plan @kinds
// CHECK: heddle.selection @tiles blocks(keep = 0.3, size = 32, rounding = floor_plus_one) by mean_probability isolating(filtered) scaled_by(heads) on at(0.2, plus = 2)
// CHECK: heddle.selection @shared columns(keep = 0.3, group = 32, per_kv_head) by mean_probability on at(0.2, plus = 2)
// CHECK: heddle.selection @own columns(keep = 0.3, group = 32) by mean_probability on at(0.2, plus = 2)
// CHECK-NOT: heddle.reuse
// CHECK-NOT: heddle.recompute
// CHECK: heddle.kernel @select_blocks_32 select(blocks = 32) by mean_probability
// CHECK: heddle.kernel @select_32_per_kv_head select(group = 32, per_kv_head) by mean_probability
// CHECK: heddle.kernel @select_32 select(group = 32) by mean_probability
// CHECK: heddle.kernel @attention_tiles_shared_own attention [blocks(@tiles, size = 32), columns(@shared, group = 32), columns(@own, group = 32)]
// What a selection is scored by beside the phase's attention stands before it.
// CHECK:      heddle.attend_with @attention_dense_lse
// CHECK-NEXT: heddle.score_with @attention_dense_lse scaled_by(heads){{$}}
// CHECK-NEXT: heddle.score_with @attention_dense_lse scaled_by(heads) of response{{$}}
// CHECK-NEXT: heddle.refresh @tiles with @select_blocks_32
// CHECK-NEXT: heddle.refresh @shared with
// CHECK-NEXT: heddle.refresh @own with
// CHECK: heddle.phase before at(0.2, plus = 2)
heddle.schedule @kinds {
  %once = cadence at(0.2, plus = 2)
  %tiles = select blocks(keep = 0.3, size = 32, rounding = floor_plus_one) by mean_probability isolating(filtered) scaled_by(heads) on %once
  %shared = select columns(keep = 0.3, group = 32, per_kv_head) by mean_probability on %once
  %own = select columns(keep = 0.3, group = 32) by mean_probability on %once
  %pairs = union %tiles, %shared, %own
  reuse kv
  attend dense until(%once) then pairs(%pairs)
}

// A selection that goes by sets stands behind them; its kernel is for all rows.
// CHECK-LABEL: heddle.plan @evicted
// CHECK: %[[BLOCK:.+]] = heddle.positions block
// CHECK: heddle.recompute all on %{{.+}}
// CHECK: heddle.selection @kept columns(keep = 0.5, group = all, per_layer) by mean_probability pooled(3) of %[[BLOCK]] always %[[BLOCK]] on at(step = 2) in block
// CHECK: heddle.kernel @select_all_per_layer_pooled3 select(group = all, per_layer) by mean_probability pooled(3)
// CHECK: heddle.kernel @attention_kept attention [columns(@kept, group = all)]
// CHECK: heddle.phase on at(step = 2) in block
// CHECK: heddle.refresh @kept with @select_all_per_layer_pooled3
// CHECK: heddle.phase before at(step = 2) in block
// CHECK: heddle.phase otherwise
heddle.schedule @evicted {
  %start = cadence first(1) in block
  %second = cadence at(step = 2) in block
  %block = positions block
  %kept = select columns(keep = 0.5, group = all, per_layer) by mean_probability pooled(3) of %block always %block on %second
  reuse kv
  recompute all on %start
  recompute %block
  attend dense until(%second) then pairs(%kept)
}

// What is chosen within is refreshed first, seldom; alike selections are one.
// CHECK-LABEL: heddle.plan @within
// CHECK: heddle.selection @chunks blocks(keep = 4, size = 128) by mean_probability on every(8)
// CHECK: heddle.selection @fine columns(keep = 0.25, group = 32) by mean_probability within @chunks on every(2)
// CHECK-NOT: heddle.selection
// CHECK: heddle.kernel @select_blocks_128 select(blocks = 128) by mean_probability
// CHECK: heddle.kernel @select_32_within_blocks128 select(group = 32) by mean_probability within blocks(size = 128)
// CHECK: heddle.kernel @attention_fine attention [columns(@fine, group = 32)]
// CHECK: heddle.phase on every(8)
// CHECK: heddle.refresh @chunks with @select_blocks_128
// CHECK-NEXT: heddle.refresh @fine with @select_32_within_blocks128
// CHECK: heddle.phase on every(2)
// CHECK-NOT: heddle.refresh @chunks
// CHECK: heddle.refresh @fine with @select_32_within_blocks128
// CHECK: heddle.phase otherwise
// CHECK: heddle.attend_with @attention_fine
heddle.schedule @within {
  %seldom = cadence every(8)
  %often = cadence every(2)
  %chunks = select blocks(keep = 4, size = 128) by mean_probability on %seldom
  %same = select blocks(keep = 4, size = 128) by mean_probability on %seldom
  %fine = select columns(keep = 0.25, group = 32) by mean_probability within %chunks on %often
  %more = select columns(keep = 0.25, group = 32) by mean_probability within %same on %often
  %both = union %fine, %more
  attend pairs(%both)
}

// What is merged is merged by log-sum-exps.

// CHECK-LABEL: heddle.plan @parts
// CHECK-DAG: %[[START:.*]] = heddle.cadence first(1) in block
// CHECK-DAG: %[[BLOCK:.*]] = heddle.positions block
// CHECK: heddle.recompute all on %[[START]]
// CHECK-NEXT: heddle.recompute %[[BLOCK]]
// CHECK-NEXT: heddle.reuse kv, attention(outside = %[[BLOCK]], on = %{{[a-z0-9_]+}})
// CHECK-NEXT: heddle.kernel @attention_dense_lse attention dense writes_lse
// CHECK-NEXT: heddle.rule default {
// CHECK-NEXT: heddle.phase otherwise {
// CHECK-NEXT: heddle.attend_with @attention_dense_lse
heddle.schedule @parts {
  %start = cadence first(1) in block
  %again = cadence first(1) in block
  %block = positions block
  %same = positions block
  reuse kv(before_rope), attention(outside = %same, on = %again)
  recompute all on %start
  recompute %block
  attend dense
}

// And the rows that refresh it, of one set where two are alike.

// CHECK-LABEL: heddle.plan @refreshing
// CHECK: %[[BLOCK:.*]] = heddle.positions block
// CHECK: heddle.reuse kv, attention(outside = %[[BLOCK]], on = %{{[a-z0-9_]+}}, refresh = least_similar(keep = 0.25) in %[[BLOCK]])
heddle.schedule @refreshing {
  %start = cadence first(1) in block
  %block = positions block
  %same = positions block
  reuse kv, attention(outside = %block, on = %start, refresh = least_similar(keep = 1/4) in %same)
  recompute all on %start
  recompute %block
  attend dense
}

// CHECK-LABEL: heddle.plan @ordered
// CHECK: %[[AGAIN:.*]] = heddle.cadence every(4) in block
// CHECK-NEXT: %[[NEXT:.*]] = heddle.positions next
// CHECK-NEXT: %[[MASKED:.*]] = heddle.positions undecoded
// CHECK-NEXT: %[[NEAR:.*]] = heddle.neighbors(2) of %[[NEXT]] in %[[MASKED]]
// CHECK-NEXT: %[[WIDE:.*]] = heddle.neighbors(3) of %[[NEXT]] in %[[MASKED]]
// CHECK-NEXT: %[[ROWS:.*]] = heddle.union %[[NEXT]], %[[NEAR]], %[[WIDE]]
// CHECK-NEXT: heddle.recompute all on %[[AGAIN]]
// CHECK-NEXT: heddle.recompute %[[ROWS]]
// CHECK-NEXT: heddle.reuse kv
// CHECK-NEXT: heddle.commit random_order
heddle.schedule @ordered {
  %again = cadence every(4) in block
  %next = positions next
  %masked = positions undecoded
  %near = neighbors(2) of %next in %masked
  %wide = neighbors(3) of %next in %masked
  %rows = union %next, %near, %wide
  reuse kv
  recompute all on %again
  recompute %rows
  commit random_order
  attend dense
}

// Passes that all compute all rows are none, and keep nothing for anybody.
// CHECK-LABEL: heddle.plan @whole
// CHECK-NOT: heddle.reuse
// CHECK-NOT: heddle.recompute
// CHECK: heddle.phase otherwise
heddle.schedule @whole {
  %often = cadence every(2)
  reuse kv
  recompute all on %often
  recompute all
  attend dense
}

// What becomes a matter of every step once EOS was found, by a rule that looks.
// CHECK-LABEL: heddle.plan @ending
// CHECK: %[[PHASE:.*]] = heddle.cadence every(8) or after eos
// CHECK: heddle.fix %{{.*}} on %[[PHASE]]
// CHECK: heddle.recompute all on %[[PHASE]]
// CHECK: heddle.commit best(1) on %[[PHASE]]
// CHECK-NEXT: heddle.commit best(1) stop(eos, narrowing)
heddle.schedule @ending {
  %phase = cadence every(8) or after eos
  %decoded = positions decoded
  %active = positions undecoded(first = 6)
  %seen = union %decoded, %active
  %window = fix %seen on %phase
  visible %window
  reuse kv
  recompute all on %phase
  recompute %active
  commit best(1) on %phase
  commit best(1) stop(eos, narrowing)
  attend dense
}

// Rules of some steps, what is visible at some, and rows that stand alone.
// CHECK-LABEL: heddle.plan @released
// CHECK: %[[PHASE:.*]] = heddle.cadence every(8)
// CHECK: %[[START:.*]] = heddle.cadence first(1) in block
// CHECK: %[[THIRD:.*]] = heddle.cadence every(3)
// CHECK: %[[FIRST:.*]] = heddle.positions undecoded(first = 1)
// CHECK: %[[ACTIVE:.*]] = heddle.positions undecoded(first = 6)
// CHECK: %[[WINDOW:.*]] = heddle.fix
// CHECK: %[[ROWS:.*]] = heddle.hull %[[ACTIVE]]
// CHECK: heddle.visible all on %[[PHASE]] then %[[WINDOW]]
// CHECK-NEXT: heddle.recompute all on %[[PHASE]]
// CHECK-NEXT: heddle.recompute %[[ROWS]] alone unseen
// CHECK-NEXT: heddle.reuse kv
// CHECK-NEXT: heddle.commit best(1) within(%[[FIRST]]) on %[[PHASE]]
// CHECK-NEXT: heddle.commit timesteps within(%[[ACTIVE]]) on %[[START]] and %[[THIRD]]
// CHECK-NEXT: heddle.commit factor(1, last_alone) passes(at_least = 2) stop(eos, narrowing)
heddle.schedule @released {
  %phase = cadence every(8)
  %after = cadence every(8, from = 2)
  %start = cadence first(1) in block
  %third = cadence every(3)
  %first = positions undecoded(first = 1)
  %active = positions undecoded(first = 6)
  %decoded = positions decoded
  %seen = union %decoded, %active
  %window = fix %seen on %after
  %rows = hull %active
  visible all on %phase then %window
  reuse kv
  recompute all on %phase
  recompute %rows alone unseen
  commit best(1) within(%first) on %phase
  commit timesteps within(%active) on %start and %third
  commit factor(1, last_alone) passes(at_least = 2) stop(eos, narrowing)
  attend dense
}

// How many copies a step's forward pass has is the commit's to say.
// CHECK-LABEL: heddle.plan @drafted
// CHECK: heddle.commit quota verify(drafts = 3)
heddle.schedule @drafted {
  commit quota verify(drafts = 3)
  attend dense
}

// What steps read in place of masks, too.
// CHECK-LABEL: heddle.plan @noise
// CHECK: heddle.commit quota renoise verify(drafts = 3)
heddle.schedule @noise {
  commit quota renoise verify(drafts = 3)
  attend dense
}
