// REQUIRES: heddlec, heddle-bundle
// A set by the attention that positions drew arrives in the manifest, with the
// kernel that adds it up.

// RUN: heddlec %s --target=x86-64-v3 --dtype=f32 --head-dim=64 -o %t.hdl
// RUN: heddle-bundle dump %t.hdl --json | FileCheck %s

// RUN: heddlec %s --compile-to=plan --explain --steps=16 --length=96 --prompt=32 --block-length=8 | FileCheck %s --check-prefix=TEXT
// TEXT: of a dense run: operations about
// TEXT: %drawing = attended(share = 10 percent) of %others

heddle.schedule @attended {
  %start = cadence first(1) in block
  %left = positions undecoded(first = 1)
  %all = positions all
  %others = except %all, %left
  %drawing = attended(share = 10 percent) of %others
  %rows = union %left, %drawing
  reuse kv
  recompute all on %start
  recompute %rows
  attend dense
}

// CHECK: "writes_lse": true
// CHECK: "group": 1073741824
// CHECK: "rollout": 1
// CHECK: "kind": "attended"
// CHECK-NEXT: "name": "drawing"
// CHECK-NEXT: "of": [
// CHECK-NEXT: 2
// CHECK-NEXT: ]
// CHECK-NEXT: "share": "1/10"
