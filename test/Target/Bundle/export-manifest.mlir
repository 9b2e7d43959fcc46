// REQUIRES: heddlec, heddle-bundle
// Every field of the plan arrives in the manifest, and the source as written.

// RUN: heddlec %s --target=x86-64-v3 --dtype=bf16,f32,f32 --head-dim=128,64 -o %t.hdl
// RUN: heddle-bundle dump %t.hdl --json | FileCheck %s
// RUN: heddle-bundle dump %t.hdl --section=schedule > %t.mlir
// RUN: cmp %s %t.mlir
// RUN: heddle-bundle dump %t.hdl --section=plan | FileCheck %s --check-prefix=PLAN

heddle.schedule @everything {
  %often = cadence power(window = 1/2, count = 5)
  %once = cadence at(step = 3)
  %cols = select columns(keep = 1/3, group = 32, rounding = ceil) by mean_probability on %often
  %more = select columns(keep = 20 percent, group = 64) by mean_probability on %once
  %near = window(128)
  %first = sinks(4)
  %pairs = union %cols, %more, %near, %first
  %tenth = sinks(10 percent)
  %streamed = union %near, %tenth
  attend pairs(%near) in layers(-2 to -1)
  attend pairs(%streamed) in layers(0 to 1)
  attend dense until(%once) then pairs(%pairs)
}

// CHECK: "producer": "heddlec
// CHECK: "schedule": "everything"
// CHECK: "abi": 10
// CHECK: "triple": "x86_64-unknown-linux-gnu"
// CHECK-NEXT: "cpu": "x86-64-v3"
// CHECK: "avx2"
// CHECK: "selections": [
// CHECK: "name": "cols"
// CHECK-NEXT: "kind": "columns"
// CHECK-NEXT: "keep": "1/3"
// CHECK-NEXT: "rounding": "ceil"
// CHECK-NEXT: "group": 32
// CHECK-NEXT: "isolation": "none"
// CHECK-NEXT: "scale": "head_dim"
// CHECK-NEXT: "per_kv_head": false
// CHECK-NEXT: "scorer": "mean_probability"
// CHECK: "kind": "power"
// CHECK-NEXT: "window": "1/2"
// CHECK-NEXT: "count": 5
// CHECK: "name": "more"
// CHECK-NEXT: "kind": "columns"
// CHECK-NEXT: "keep": "1/5"
// CHECK-NEXT: "rounding": "floor"
// CHECK-NEXT: "group": 64
// CHECK: "kind": "at"
// CHECK-NEXT: "step": 3
// CHECK: "kernels": [
// CHECK: "writes_lse": true
// CHECK: "kind": "sinks"
// CHECK-NEXT: "size": 4
// CHECK-NEXT: }
// CHECK: "dtype": "f32"
// CHECK-NEXT: "head_dim": 64
// CHECK: "dtype": "f32"
// CHECK-NEXT: "head_dim": 128
// CHECK: "dtype": "bf16"
// CHECK-NEXT: "head_dim": 64
// CHECK: "dtype": "bf16"
// CHECK-NEXT: "head_dim": 128
// CHECK: "kind": "sinks"
// CHECK-NEXT: "share": "1/10"
// CHECK-NEXT: }
// CHECK: "rules": [
// CHECK-DAG: "kind": "before"
// CHECK-DAG: "kind": "otherwise"
// CHECK-DAG: "first": -2
// CHECK-DAG: "last": -1

// CHECK: "positions": []
// CHECK-NEXT: "visible": -1
// CHECK-NEXT: "all_visible": {
// CHECK-NEXT: "kind": "never"
// CHECK: "passes": []
// CHECK-NEXT: "reuse": {
// CHECK: "commit": {
// CHECK-NEXT: "kind": "quota"
// CHECK-NEXT: "within": -1
// CHECK-NEXT: "stop_at_eos": false

// PLAN: heddle.plan @everything
