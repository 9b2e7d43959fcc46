// REQUIRES: heddlec, heddle-bundle
// The layers of recomputes and reuses arrive in the manifest; a bundle that names
// none says nothing of them.

// RUN: heddlec %s --schedule=layers --target=x86-64-v3 --dtype=f32 --head-dim=64 -o %t.hdl
// RUN: heddle-bundle dump %t.hdl --json | FileCheck %s
// RUN: heddlec %s --schedule=none --target=x86-64-v3 --dtype=f32 --head-dim=64 -o %t.none.hdl
// RUN: heddle-bundle dump %t.none.hdl --json | FileCheck %s --check-prefix=NONE

// CHECK: "passes": [
// CHECK: "kind": "first"
// CHECK: "layers": [
// CHECK-NEXT: {
// CHECK-NEXT: "first": 0,
// CHECK-NEXT: "last": 3
// CHECK-NEXT: },
// CHECK-NEXT: {
// CHECK-NEXT: "first": -1,
// CHECK-NEXT: "last": -1
// CHECK-NEXT: }
// CHECK-NEXT: ],
// CHECK-NEXT: "rows": 0,
// CHECK: "layered_reuses": [
// CHECK-NEXT: {
// CHECK-NEXT: "layers": [
// CHECK-NEXT: {
// CHECK-NEXT: "first": 1,
// CHECK-NEXT: "last": 2
// CHECK-NEXT: }
// CHECK-NEXT: ],
// CHECK-NEXT: "kv": true,
// CHECK-NEXT: "attention": "output",
// CHECK-NEXT: "ffn": true
// CHECK: "reuse": {
// CHECK-NEXT: "kv": true,
// CHECK-NEXT: "attention": "context",
// CHECK-NEXT: "ffn": true
heddle.schedule @layers {
  %start = cadence first(1)
  %block = positions block
  %masked = positions undecoded
  %live = intersect %block, %masked
  reuse kv, output, ffn in layers(1 to 2)
  reuse kv, context, ffn
  recompute all on %start
  recompute %block in layers(0 to 3, -1)
  recompute %live
  attend dense
}

// NONE-NOT: "layers": [
// NONE-NOT: layered_reuses
heddle.schedule @none {
  %start = cadence first(1)
  %block = positions block
  reuse kv
  recompute all on %start
  recompute %block
  attend dense
}
