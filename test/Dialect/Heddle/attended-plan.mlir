// REQUIRES: heddle-opt
// The plan says what adds up attention, and has attention write what it is
// added up by.

// RUN: heddle-opt %s --split-input-file --heddle-plan-steps --heddle-verify-plan | FileCheck %s

// CHECK-LABEL: heddle.plan @attended
// CHECK: heddle.kernel @attention_dense_lse attention dense writes_lse
// CHECK: heddle.kernel @[[ADDED:.*]] select
// CHECK: heddle.attend_with @attention_dense_lse rollout @[[ADDED]]
heddle.schedule @attended {
  %start = cadence first(1) in block
  %block = positions block
  %left = positions undecoded(first = 1)
  %p = attended(share = 1/10) of %block
  %rows = union %left, %p
  reuse kv
  recompute all on %start
  recompute %rows
  attend dense
}

// -----

// A set that nothing asks for asks for nothing.
// CHECK-LABEL: heddle.plan @unused
// CHECK-NOT: rollout
// CHECK-NOT: lse
heddle.schedule @unused {
  %start = cadence first(1) in block
  %block = positions block
  %left = positions undecoded(first = 1)
  %p = attended(share = 1/10) of %block
  reuse kv
  recompute all on %start
  recompute %left
  attend dense
}
