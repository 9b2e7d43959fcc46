// REQUIRES: heddlec, heddle-bundle
// A drawn order, what comes next in it, its neighbors and what is nearest arrive in the manifest.

// RUN: heddlec %s --target=x86-64-v3 --dtype=f32 --head-dim=64 -o %t.hdl
// RUN: heddle-bundle dump %t.hdl --json | FileCheck %s

heddle.schedule @ordered {
  %again = cadence every(4) in block
  %next = positions next
  %masked = positions undecoded
  %near = neighbors(2) of %next in %masked
  %close = nearest(3) of %next in %masked
  %rows = union %next, %near, %close
  reuse kv
  recompute all on %again
  recompute %rows
  commit random_order
  attend dense
}

// CHECK: "positions": [
// CHECK: "kind": "next"
// CHECK-NEXT: }
// CHECK: "kind": "undecoded"
// CHECK: "kind": "neighbors"
// CHECK-NEXT: "name": "near"
// CHECK-NEXT: "of": [
// CHECK-NEXT: 0,
// CHECK-NEXT: 1
// CHECK-NEXT: ]
// CHECK-NEXT: "count": 2
// CHECK: "kind": "nearest"
// CHECK-NEXT: "name": "close"
// CHECK-NEXT: "of": [
// CHECK-NEXT: 0,
// CHECK-NEXT: 1
// CHECK-NEXT: ]
// CHECK-NEXT: "count": 3
// CHECK: "commit": {
// CHECK-NEXT: "kind": "random_order"
// CHECK-NEXT: "within": -1
// CHECK-NEXT: "stop_at_eos": false
