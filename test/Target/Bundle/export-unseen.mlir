// REQUIRES: heddlec, heddle-bundle
// Rows that are not visible arrive in the manifest.

// RUN: heddlec %s --target=x86-64-v3 --dtype=f32 --head-dim=64 -o %t.hdl
// RUN: heddle-bundle dump %t.hdl --json | FileCheck %s

heddle.schedule @unseen {
  %phase = cadence every(4)
  %next = positions undecoded(first = 8)
  %window = fix %next on %phase
  visible %window
  reuse kv
  recompute all on %phase
  recompute %next unseen
  attend dense
}

// CHECK: "passes": [
// CHECK: "rows": -1,
// CHECK-NEXT: "alone": false,
// CHECK-NEXT: "exact": {
// CHECK: "rows": 0,
// CHECK-NEXT: "alone": false,
// CHECK-NEXT: "unseen": true,
// CHECK-NEXT: "exact": {
