// REQUIRES: heddle-opt
// RUN: heddle-opt %s --canonicalize | FileCheck %s
// RUN: heddle-opt %s --heddle-plan-steps | FileCheck %s --check-prefix=PLAN
// RUN: heddle-opt %s --canonicalize --heddle-plan-steps | FileCheck %s --check-prefix=PLAN

// Unions and intersections are flat and have no repeats; all positions are no
// restriction.

// CHECK-LABEL: heddle.schedule @flat
// CHECK: %[[DECODED:.*]] = positions decoded
// CHECK: %[[FEW:.*]] = positions undecoded(first = 16)
// CHECK: %[[LAST:.*]] = positions committed(last = 1)
// CHECK: %[[ROWS:.*]] = union %[[DECODED]], %[[FEW]], %[[LAST]]
// CHECK-NOT: union
// CHECK: reuse kv{{$}}
// CHECK: recompute all on
// CHECK: recompute %[[ROWS]]
heddle.schedule @flat {
  %start = cadence first(1)
  %decoded = positions decoded
  %few = positions undecoded(first = 16)
  %last = positions committed(last = 1)
  %a = union %decoded, %few
  %b = union %a, %a
  %rows = union %b, %last, %decoded
  reuse kv(before_rope)
  %all = positions all
  recompute %all on %start
  recompute %rows
  attend dense
}
// The planner needs no canonical schedule.
// PLAN-LABEL: heddle.plan @flat
// PLAN: heddle.recompute {{.*}} on %
// PLAN: heddle.recompute %{{[a-z0-9_]+$}}
// PLAN: heddle.reuse kv{{$}}

// CHECK-LABEL: heddle.schedule @everything
// CHECK-NOT: visible
// CHECK: %[[RESPONSE:.*]] = positions response
// CHECK-NOT: fix
// CHECK: recompute all on
// CHECK: recompute %[[RESPONSE]]
heddle.schedule @everything {
  %start = cadence first(1)
  %all = positions all
  %decoded = positions decoded
  %response = positions response
  %u = union %decoded, %all
  visible %u
  %same = fix %response on %start
  %i = intersect %all, %same, %same
  reuse kv
  recompute %u on %start
  recompute %i
  attend dense
}

// Visible rows may be a union: it is flat in canonical form, and as good.
// CHECK-LABEL: heddle.schedule @rows_of_a_union
// CHECK: visible
// PLAN-LABEL: heddle.plan @rows_of_a_union
// PLAN: heddle.visible %
// PLAN: heddle.commit quota{{$}}
// PLAN-NOT: heddle.commit
heddle.schedule @rows_of_a_union {
  %c = cadence every(4)
  %never = cadence never
  %d = positions decoded
  %u = positions undecoded(first = 4)
  %n = positions committed(last = 1)
  %rows = union %u, %n
  %f = fix %d on %c
  %s = union %f, %rows
  visible %s
  reuse kv
  recompute all on %c
  recompute %rows
  commit above(0.5) on %never
  commit quota
  attend dense
}

// Sets that are alike are one in the plan, those that nothing uses are none.
// PLAN-LABEL: heddle.plan @alike
// PLAN: %[[ONE:.*]] = heddle.positions undecoded(first = 16)
// PLAN-NOT: heddle.positions
// PLAN: heddle.recompute %[[ONE]]
// PLAN: heddle.commit quota within(%[[ONE]])
heddle.schedule @alike {
  %start = cadence first(1)
  %a = positions undecoded(first = 16)
  %b = positions undecoded(first = 16)
  %c = positions undecoded(first = 17)
  reuse kv
  recompute all on %start
  recompute %a
  commit quota within(%b)
  attend dense
}

// Nor are those of a commit that is the rule of no step.
// PLAN-LABEL: heddle.plan @idle
// PLAN-NOT: heddle.positions
// PLAN: heddle.commit above(0.5)
heddle.schedule @idle {
  %few = positions undecoded(first = 3)
  %never = cadence never
  %some = cadence at(step = 4)
  commit best(1) within(%few) on %never and %some
  commit above(0.5)
  attend dense
}

// The most changed of all rows are all of them.
// CHECK-LABEL: heddle.schedule @refreshing_all
// CHECK: reuse kv, attention(outside = %[[BLOCK:.*]], on = %{{.*}}, refresh = %[[BLOCK]]){{$}}
// PLAN-LABEL: heddle.plan @refreshing_all
// PLAN: heddle.reuse kv, attention(outside = %[[BLOCK:.*]], on = %{{.*}}, refresh = {{.*}}%[[BLOCK]])
heddle.schedule @refreshing_all {
  %start = cadence first(1)
  %block = positions block
  reuse kv(before_rope), attention(outside = %block, on = %start, refresh = least_similar(keep = 100 percent) in %block)
  recompute all on %start
  recompute %block
  attend dense
}
