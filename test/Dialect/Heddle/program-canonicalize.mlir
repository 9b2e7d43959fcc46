// REQUIRES: heddle-opt
// RUN: heddle-opt %s --canonicalize | FileCheck %s
// RUN: heddle-opt %s --heddle-plan-steps | FileCheck %s --check-prefix=PLAN
// RUN: heddle-opt %s --canonicalize --heddle-plan-steps | FileCheck %s --check-prefix=PLAN

// Unions and intersections are flat and have no repeats; all positions are no
// restriction.

// CHECK-LABEL: heddle.schedule @flat
// CHECK: %[[DECODED:.*]] = heddle.positions decoded
// CHECK: %[[FEW:.*]] = heddle.positions undecoded(first = 16)
// CHECK: %[[LAST:.*]] = heddle.positions committed(last = 1)
// CHECK: %[[ROWS:.*]] = heddle.union positions %[[DECODED]], %[[FEW]], %[[LAST]]
// CHECK-NOT: heddle.union
// CHECK: heddle.reuse kv{{$}}
// CHECK: heddle.recompute all on
// CHECK: heddle.recompute %[[ROWS]]
heddle.schedule @flat {
  %start = heddle.cadence first(1)
  %decoded = heddle.positions decoded
  %few = heddle.positions undecoded(first = 16)
  %last = heddle.positions committed(last = 1)
  %a = heddle.union positions %decoded, %few
  %b = heddle.union positions %a, %a
  %rows = heddle.union positions %b, %last, %decoded
  heddle.reuse kv(before_rope)
  %all = heddle.positions all
  heddle.recompute %all on %start
  heddle.recompute %rows
  heddle.attend dense
}
// The planner needs no canonical schedule.
// PLAN-LABEL: heddle.plan @flat
// PLAN: heddle.pass on first(1) computes all
// PLAN: heddle.pass computes @
// PLAN: heddle.reuse kv{{$}}

// CHECK-LABEL: heddle.schedule @everything
// CHECK-NOT: heddle.visible
// CHECK: %[[RESPONSE:.*]] = heddle.positions response
// CHECK-NOT: heddle.fix
// CHECK: heddle.recompute all on
// CHECK: heddle.recompute %[[RESPONSE]]
heddle.schedule @everything {
  %start = heddle.cadence first(1)
  %all = heddle.positions all
  %decoded = heddle.positions decoded
  %response = heddle.positions response
  %u = heddle.union positions %decoded, %all
  heddle.visible %u
  %same = heddle.fix %response on %start
  %i = heddle.intersect %all, %same, %same
  heddle.reuse kv
  heddle.recompute %u on %start
  heddle.recompute %i
  heddle.attend dense
}

// Visible rows may be a union: it is flat in canonical form, and as good.
// CHECK-LABEL: heddle.schedule @rows_of_a_union
// CHECK: heddle.visible
// PLAN-LABEL: heddle.plan @rows_of_a_union
// PLAN: heddle.visible_set @union_1
// PLAN: heddle.commit_rule quota{{$}}
// PLAN-NOT: heddle.commit_rule
heddle.schedule @rows_of_a_union {
  %c = heddle.cadence every(4)
  %never = heddle.cadence never
  %d = heddle.positions decoded
  %u = heddle.positions undecoded(first = 4)
  %n = heddle.positions committed(last = 1)
  %rows = heddle.union positions %u, %n
  %f = heddle.fix %d on %c
  %s = heddle.union positions %f, %rows
  heddle.visible %s
  heddle.reuse kv
  heddle.recompute all on %c
  heddle.recompute %rows
  heddle.commit above(0.5) on %never
  heddle.commit quota
  heddle.attend dense
}

// Sets that are alike are one in the plan, those that nothing uses are none.
// PLAN-LABEL: heddle.plan @alike
// PLAN: heddle.position_set @undecoded_16 undecoded(first = 16)
// PLAN-NOT: heddle.position_set
// PLAN: heddle.pass computes @undecoded_16
// PLAN: heddle.commit_rule quota within(@undecoded_16)
heddle.schedule @alike {
  %start = heddle.cadence first(1)
  %a = heddle.positions undecoded(first = 16)
  %b = heddle.positions undecoded(first = 16)
  %c = heddle.positions undecoded(first = 17)
  heddle.reuse kv
  heddle.recompute all on %start
  heddle.recompute %a
  heddle.commit quota within(%b)
  heddle.attend dense
}

// Nor are those of a commit that is the rule of no step.
// PLAN-LABEL: heddle.plan @idle
// PLAN-NOT: heddle.position_set
// PLAN: heddle.commit_rule above(0.5)
heddle.schedule @idle {
  %few = heddle.positions undecoded(first = 3)
  %never = heddle.cadence never
  %some = heddle.cadence at(step 4)
  heddle.commit best(1) within(%few) on %never and %some
  heddle.commit above(0.5)
  heddle.attend dense
}
