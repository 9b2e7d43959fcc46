// REQUIRES: heddle-opt
// RUN: heddle-opt %s --heddle-verify-schedule --heddle-plan-steps --heddle-verify-plan | FileCheck %s

// Rows, keys, reuse and commit in a plan; a selection's renewal puts a pass that
// computes all rows in front of the schedule's own.

// CHECK-LABEL: heddle.plan @columns_saliency
// CHECK: heddle.selection @cols columns
// CHECK-NEXT: heddle.position_set @response response
// CHECK-NEXT: heddle.pass on uniform(window = 0.3, count = 16) computes all
// CHECK-NEXT: heddle.pass on first(4) computes all
// CHECK-NEXT: heddle.pass on every(4, from = 5) computes salient(below = 0.99) in all
// CHECK-NEXT: heddle.pass computes salient(below = 0.99) in @response
// CHECK-NEXT: heddle.reuse kv, context(propagating), ffn
// CHECK-NEXT: heddle.kernel
heddle.schedule @columns_saliency {
  %refresh = heddle.cadence uniform(window = 0.3, count = 16)
  %full = heddle.cadence first(4)
  %whole = heddle.cadence every(4, from = 5)
  %response = heddle.positions response
  %cols = heddle.select columns(keep = 0.2, group = 32) by mean_probability on %refresh
  heddle.reuse kv, context(propagating), ffn
  heddle.recompute all on %full
  heddle.recompute salient(below = 0.99) in all on %whole
  heddle.recompute salient(below = 0.99) in %response
  heddle.attend pairs(%cols)
}

// A pass that is there already is not put there again.
// CHECK-LABEL: heddle.plan @columns_in_window
// CHECK: heddle.position_set @decoded decoded
// CHECK-NEXT: heddle.position_set @undecoded_64 undecoded(first = 64)
// CHECK-NEXT: heddle.position_set @undecoded_16 undecoded(first = 16)
// CHECK-NEXT: heddle.position_set @committed committed(since every(32))
// CHECK-NEXT: heddle.position_set @union union(@decoded, @undecoded_64)
// CHECK-NEXT: heddle.position_set @fixed fixed(@union) on every(32)
// CHECK-NEXT: heddle.position_set @union_1 union(@undecoded_16, @committed)
// CHECK-NEXT: heddle.visible_set @fixed
// CHECK-NEXT: heddle.pass on every(32) computes all
// CHECK-NEXT: heddle.pass computes @union_1
// CHECK-NEXT: heddle.reuse kv
// CHECK-NEXT: heddle.commit_rule quota within(@undecoded_16)
// CHECK: heddle.rule default {
// CHECK-NEXT: heddle.phase on every(32) {
heddle.schedule @columns_in_window {
  %phase = heddle.cadence every(32)
  %decoded = heddle.positions decoded
  %external = heddle.positions undecoded(first = 64)
  %active = heddle.positions undecoded(first = 16)
  %recent = heddle.positions committed(since = %phase)
  %seen = heddle.union positions %decoded, %external
  %window = heddle.fix %seen on %phase
  %rows = heddle.union positions %active, %recent
  %cols = heddle.select columns(keep = 0.2, group = 32) by mean_probability on %phase
  heddle.visible %window
  heddle.reuse kv
  heddle.recompute all on %phase
  heddle.recompute %rows
  heddle.commit quota within(%active)
  heddle.attend pairs(%cols)
}

// Selections that differ have select kernels of their own kind; without passes
// nothing is kept.
// CHECK-LABEL: heddle.plan @kinds
// CHECK: heddle.selection @tiles blocks(keep = 0.3, size = 32, rounding = floor_plus_one) by mean_probability isolating(filtered) scaled_by(heads) on at(0.2, plus = 2)
// CHECK: heddle.selection @shared columns(keep = 0.3, group = 32, per_kv_head) by mean_probability on at(0.2, plus = 2)
// CHECK: heddle.selection @own columns(keep = 0.3, group = 32) by mean_probability on at(0.2, plus = 2)
// CHECK-NOT: heddle.reuse
// CHECK-NOT: heddle.pass
// CHECK: heddle.kernel @select_blocks_32 select(blocks = 32) by mean_probability
// CHECK: heddle.kernel @select_32_per_kv_head select(group = 32, per_kv_head) by mean_probability
// CHECK: heddle.kernel @select_32 select(group = 32) by mean_probability
// CHECK: heddle.kernel @attention_tiles_shared_own attention [blocks(@tiles, size = 32), columns(@shared, group = 32), columns(@own, group = 32)]
// CHECK: heddle.phase before at(0.2, plus = 2)
heddle.schedule @kinds {
  %once = heddle.cadence at(0.2, plus = 2)
  %tiles = heddle.select blocks(keep = 0.3, size = 32, rounding = floor_plus_one) by mean_probability isolating(filtered) scaled_by(heads) on %once
  %shared = heddle.select columns(keep = 0.3, group = 32, per_kv_head) by mean_probability on %once
  %own = heddle.select columns(keep = 0.3, group = 32) by mean_probability on %once
  %pairs = heddle.union %tiles, %shared, %own
  heddle.reuse kv
  heddle.attend dense until(%once) then pairs(%pairs)
}

// CHECK-LABEL: heddle.plan @ordered
// CHECK: heddle.position_set @next next
// CHECK-NEXT: heddle.position_set @undecoded undecoded
// CHECK-NEXT: heddle.position_set @neighbors_2 neighbors(2) of @next in @undecoded
// CHECK-NEXT: heddle.position_set @neighbors_3 neighbors(3) of @next in @undecoded
// CHECK-NEXT: heddle.position_set @union union(@next, @neighbors_2, @neighbors_3)
// CHECK-NEXT: heddle.pass on every(4) in block computes all
// CHECK-NEXT: heddle.pass computes @union
// CHECK-NEXT: heddle.reuse kv
// CHECK-NEXT: heddle.commit_rule random_order
heddle.schedule @ordered {
  %again = heddle.cadence every(4) in block
  %next = heddle.positions next
  %masked = heddle.positions undecoded
  %near = heddle.neighbors(2) of %next in %masked
  %wide = heddle.neighbors(3) of %next in %masked
  %rows = heddle.union positions %next, %near, %wide
  heddle.reuse kv
  heddle.recompute all on %again
  heddle.recompute %rows
  heddle.commit random_order
  heddle.attend dense
}

// Passes that all compute all rows are none, and keep nothing for anybody.
// CHECK-LABEL: heddle.plan @whole
// CHECK-NOT: heddle.reuse
// CHECK-NOT: heddle.pass
// CHECK: heddle.phase otherwise
heddle.schedule @whole {
  %often = heddle.cadence every(2)
  heddle.reuse kv
  heddle.recompute all on %often
  heddle.recompute all
  heddle.attend dense
}

// What becomes a matter of every step once EOS was found, by a rule that looks.
// CHECK-LABEL: heddle.plan @ending
// CHECK: heddle.position_set @fixed fixed(@{{.*}}) on every(8) or after eos
// CHECK: heddle.pass on every(8) or after eos computes all
// CHECK: heddle.commit_rule best(1) on every(8) or after eos
// CHECK-NEXT: heddle.commit_rule best(1) stop(eos, narrowing)
heddle.schedule @ending {
  %phase = heddle.cadence every(8) or after eos
  %decoded = heddle.positions decoded
  %active = heddle.positions undecoded(first = 6)
  %seen = heddle.union positions %decoded, %active
  %window = heddle.fix %seen on %phase
  heddle.visible %window
  heddle.reuse kv
  heddle.recompute all on %phase
  heddle.recompute %active
  heddle.commit best(1) on %phase
  heddle.commit best(1) stop(eos, narrowing)
  heddle.attend dense
}

// Rules of some steps, what is visible at some, and rows that stand alone.
// CHECK-LABEL: heddle.plan @released
// CHECK: heddle.position_set @fixed fixed(@{{.*}}) on every(8, from = 2)
// CHECK: heddle.position_set @hull hull(@undecoded_6)
// CHECK: heddle.visible_set all on every(8) then @fixed
// CHECK-NEXT: heddle.pass on every(8) computes all
// CHECK-NEXT: heddle.pass computes @hull alone
// CHECK-NEXT: heddle.reuse kv
// CHECK-NEXT: heddle.commit_rule best(1) within(@undecoded_1) on every(8)
// CHECK-NEXT: heddle.commit_rule timesteps within(@undecoded_6) on first(1) in block and every(3)
// CHECK-NEXT: heddle.commit_rule factor(1, last_alone) passes(at_least = 2) stop(eos, narrowing)
heddle.schedule @released {
  %phase = heddle.cadence every(8)
  %after = heddle.cadence every(8, from = 2)
  %start = heddle.cadence first(1) in block
  %third = heddle.cadence every(3)
  %first = heddle.positions undecoded(first = 1)
  %active = heddle.positions undecoded(first = 6)
  %decoded = heddle.positions decoded
  %seen = heddle.union positions %decoded, %active
  %window = heddle.fix %seen on %after
  %rows = heddle.hull %active
  heddle.visible all on %phase then %window
  heddle.reuse kv
  heddle.recompute all on %phase
  heddle.recompute %rows alone
  heddle.commit best(1) within(%first) on %phase
  heddle.commit timesteps within(%active) on %start and %third
  heddle.commit factor(1, last_alone) passes(at_least = 2) stop(eos, narrowing)
  heddle.attend dense
}
