// REQUIRES: heddlec, heddle-bundle
// A cadence by drift arrives in the manifest.

// RUN: heddlec %s --target=x86-64-v3 --dtype=f32 --head-dim=64 -o %t.hdl
// RUN: heddle-bundle verify %t.hdl
// RUN: heddle-bundle dump %t.hdl --json | FileCheck %s

heddle.schedule @selected {
  %refresh = cadence drift(attention, below = 0.9, within = 64, layer = -3) in block
  %cols = select columns(keep = 0.2, group = 32) by mean_probability on %refresh
  attend pairs(%cols)
}

// CHECK: "selections"
// CHECK: "cadence": {
// CHECK-NEXT: "kind": "drift"
// CHECK-NEXT: "attention": true
// CHECK-NEXT: "below": "9/10"
// CHECK-NEXT: "within": 64
// CHECK-NEXT: "layer": -3
// CHECK-NEXT: "in_block": true
// CHECK-NEXT: "after_eos": false

// What its steps but its own measure, with which kernel.
// CHECK: "phases": [
// CHECK: "kind": "on"
// CHECK: "refreshes": [
// CHECK-NOT: "measures"
// CHECK: "kind": "otherwise"
// CHECK: "attention": [[COLS:[0-9]+]],
// CHECK-NEXT: "refreshes": [],
// CHECK-NEXT: "measures": [
// CHECK-NEXT: {
// CHECK-NEXT: "cadence": {
// CHECK-NEXT: "kind": "drift",
// CHECK-NEXT: "attention": true,
// CHECK-NEXT: "below": "9/10",
// CHECK-NEXT: "within": 64,
// CHECK-NEXT: "layer": -3,
// CHECK-NEXT: "in_block": true,
// CHECK-NEXT: "after_eos": false
// CHECK-NEXT: },
// CHECK-NEXT: "kernel": [[COLS]]
