// REQUIRES: heddlec, heddle-bundle
// Attention outside of a set arrives in the manifest, with the rows that refresh
// it, and its kernel writes the log-sum-exp.

// RUN: heddlec %s --target=x86-64-v3 --dtype=f32 --head-dim=64 -o %t.hdl
// RUN: heddle-bundle dump %t.hdl --json | FileCheck %s

heddle.schedule @parts {
  %start = cadence first(2) in block
  %block = positions block
  %masked = positions undecoded
  reuse kv, attention(outside = %block, on = %start, refresh = least_similar(keep = 1/4) in %masked)
  recompute all on %start
  recompute %block
  attend dense
}

// CHECK: "name": "attention_dense_lse"
// CHECK-NEXT: "kind": "attention"
// CHECK-NEXT: "writes_lse": true
// CHECK-NEXT: "terms": []
// CHECK: "positions": [
// CHECK-NEXT: {
// CHECK-NEXT: "kind": "block"
// CHECK: "reuse": {
// CHECK-NEXT: "kv": true,
// CHECK-NEXT: "attention": "outside",
// CHECK-NEXT: "ffn": false,
// CHECK-NEXT: "inside": 0,
// CHECK-NEXT: "cadence": {
// CHECK-NEXT: "kind": "first",
// CHECK-NEXT: "count": 2,
// CHECK-NEXT: "in_block": true
// CHECK-NEXT: "after_eos": false
// CHECK-NEXT: },
// CHECK-NEXT: "refreshed": 1,
// CHECK-NEXT: "keep": "1/4"
