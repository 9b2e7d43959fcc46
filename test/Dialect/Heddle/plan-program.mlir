// REQUIRES: heddle-opt
// RUN: heddle-opt %s --heddle-verify-schedule --heddle-plan-steps --heddle-verify-plan | FileCheck %s

// Rows, keys, reuse and commit in a plan; a selection's refresh puts a pass that
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
// CHECK-NOT: heddle.pass
// CHECK: heddle.kernel @select_blocks_32 select(blocks = 32) by mean_probability
// CHECK: heddle.kernel @select_32_per_kv_head select(group = 32, per_kv_head) by mean_probability
// CHECK: heddle.kernel @select_32 select(group = 32) by mean_probability
// CHECK: heddle.kernel @attention_tiles_shared_own attention [blocks(@tiles, size = 32), columns(@shared, group = 32), columns(@own, group = 32)]
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
// CHECK-NOT: heddle.pass
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
// CHECK: heddle.position_set @fixed fixed(@{{.*}}) on every(8) or after eos
// CHECK: heddle.pass on every(8) or after eos computes all
// CHECK: heddle.commit_rule best(1) on every(8) or after eos
// CHECK-NEXT: heddle.commit_rule best(1) stop(eos, narrowing)
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
  recompute %rows alone
  commit best(1) within(%first) on %phase
  commit timesteps within(%active) on %start and %third
  commit factor(1, last_alone) passes(at_least = 2) stop(eos, narrowing)
  attend dense
}
