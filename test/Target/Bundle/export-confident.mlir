// REQUIRES: heddlec, heddle-bundle
// The surest positions of a set arrive in the manifest.

// RUN: heddlec %s --target=x86-64-v3 --dtype=f32 --head-dim=64 -o %t.hdl
// RUN: heddle-bundle dump %t.hdl --json | FileCheck %s

// RUN: heddlec %s --compile-to=plan | FileCheck %s --check-prefix=PLAN
// PLAN: %[[BLOCK:.*]] = heddle.positions block
// PLAN: %[[SURE:.*]] = heddle.confident(3) of %[[BLOCK]]
// PLAN: heddle.confident(2, near = 10) of %[[BLOCK]]
// PLAN: heddle.recompute least_similar(keep = 0.5, among = %{{.*}}, confidence = 0.25) in %{{.*}} in layers(4)
// PLAN: heddle.recompute %{{.*}}

// RUN: heddlec %s --compile-to=plan --explain --steps=16 --length=96 --prompt=32 --block-length=8 | FileCheck %s --check-prefix=TEXT
// TEXT: of a dense run: operations about
// TEXT: %sure = confident(3) of block
// TEXT-NEXT: %lifted = confident(2, near = 10) of block
// TEXT-NEXT: %rows = union(%sure, %lifted, undecoded(first = 1))
// TEXT: computes least_similar(keep = 1/2, among = %others, confidence = 1/4) in %rows in layers(4), 1 to 4 of 96 rows
// TEXT: computes %rows, 1 to 4 of 96 rows

heddle.schedule @confident {
  %start = cadence first(1) in block
  %block = positions block
  %sure = confident(3) of %block
  %undecoded = positions undecoded(first = 1)
  %lifted = confident(2, near = 10) of %block
  %rows = union %sure, %lifted, %undecoded
  %others = except %rows, %undecoded
  reuse kv
  recompute all on %start
  recompute least_similar(keep = 1/2, among = %others, confidence = 1/4) in %rows in layers(4)
  recompute %rows
  attend dense
}

// CHECK: "positions": [
// CHECK: "kind": "block"
// CHECK: "kind": "confident"
// CHECK-NEXT: "name": "sure"
// CHECK-NEXT: "of": [
// CHECK-NEXT: 0
// CHECK-NEXT: ]
// CHECK-NEXT: "count": 3
// CHECK: "kind": "confident"
// CHECK-NEXT: "name": "lifted"
// CHECK-NEXT: "of": [
// CHECK-NEXT: 0
// CHECK-NEXT: ]
// CHECK-NEXT: "count": 2,
// CHECK-NEXT: "near": 10
// CHECK: "kind": "least_similar"
// CHECK: "confidence": "1/4"
