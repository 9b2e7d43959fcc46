// REQUIRES: heddlec, heddle-bundle
// Rows, keys, reuse and commit arrive in the manifest.

// RUN: heddlec %s --target=x86-64-v3 --dtype=f32 --head-dim=64 -o %t.hdl
// RUN: heddle-bundle dump %t.hdl --json | FileCheck %s

heddle.schedule @rows {
  %phase = cadence every(32) or after eos
  %start = cadence first(1) in block
  %late = cadence every(4, from = 5)
  %decoded = positions decoded
  %external = positions undecoded(first = 64)
  %active = positions undecoded(first = 16)
  %recent = positions committed(since = %phase)
  %seen = union %decoded, %external
  %window = fix %seen on %phase
  %rows = union %active, %recent
  %tiles = select blocks(keep = 0.3, size = 32, rounding = floor_plus_one) by mean_probability isolating(filtered) scaled_by(heads) on %phase
  visible %window
  reuse kv, output, ffn
  recompute all on %phase
  recompute all on %start and %late
  recompute least_similar(keep = 0.25, among = %active) in %rows alone
  commit best(2) on %phase stop(eos)
  commit factor(1.5, last_alone) within(%active) passes(at_least = 3) stop(eos, narrowing)
  attend pairs(%tiles)
}

// CHECK: "selections": [
// CHECK: "kind": "blocks"
// CHECK: "rounding": "floor_plus_one"
// CHECK-NEXT: "group": 32
// CHECK-NEXT: "isolation": "filtered"
// CHECK-NEXT: "scale": "heads"
// CHECK: "kernels": [
// CHECK: "name": "select_blocks_32"
// CHECK-NEXT: "kind": "select"
// CHECK-NEXT: "group": 32
// CHECK-NEXT: "blocks": true
// CHECK-NEXT: "per_kv_head": false
// CHECK: "kind": "blocks"
// CHECK-NEXT: "selection": 0
// CHECK: "rules": [
// CHECK: "refreshes": [
// CHECK: "scorings": [
// CHECK-NEXT: {
// CHECK-NEXT: "kernel": 0,
// CHECK-NEXT: "scale": "heads",
// CHECK-NEXT: "of_response": false
// CHECK-NEXT: },
// CHECK-NEXT: {
// CHECK-NEXT: "kernel": 0,
// CHECK-NEXT: "scale": "heads",
// CHECK-NEXT: "of_response": true
// CHECK: "positions": [
// CHECK: "kind": "decoded"
// CHECK: "kind": "undecoded"
// CHECK-NEXT: "name": "external"
// CHECK-NEXT: "count": 64
// CHECK: "kind": "undecoded"
// CHECK-NEXT: "name": "active"
// CHECK-NEXT: "count": 16
// CHECK: "kind": "committed"
// CHECK-NEXT: "name": "recent"
// CHECK-NEXT: "cadence": {
// CHECK-NEXT: "kind": "every"
// CHECK-NEXT: "period": 32
// CHECK-NEXT: "from": 1
// CHECK-NEXT: "in_block": false,
// CHECK-NEXT: "after_eos": true
// CHECK: "kind": "union"
// CHECK-NEXT: "name": "seen"
// CHECK-NEXT: "of": [
// CHECK-NEXT: 0,
// CHECK-NEXT: 1
// CHECK: "kind": "fixed"
// CHECK-NEXT: "name": "window"
// CHECK-NEXT: "of": [
// CHECK-NEXT: 4
// CHECK: "visible": 5
// CHECK: "passes": [
// CHECK: "rows": -1
// CHECK: "kind": "first"
// CHECK-NEXT: "count": 1
// CHECK-NEXT: "in_block": true,
// CHECK-NEXT: "after_eos": false
// CHECK: "from": 5
// CHECK: "rows": 6
// CHECK-NEXT: "alone": true
// CHECK-NEXT: "exact": {
// CHECK-NEXT: "kind": "least_similar"
// CHECK-NEXT: "keep": "1/4"
// CHECK-NEXT: "among": 2
// CHECK: "reuse": {
// CHECK-NEXT: "kv": true
// CHECK-NEXT: "attention": "output"
// CHECK-NEXT: "ffn": true
// CHECK: "dated_commits": [
// CHECK: "kind": "best"
// CHECK-NEXT: "count": 2
// CHECK-NEXT: "within": -1,
// CHECK-NEXT: "stop_at_eos": true,
// CHECK-NEXT: "narrows": false,
// CHECK-NEXT: "when": [
// CHECK: "commit": {
// CHECK-NEXT: "kind": "factor"
// CHECK-NEXT: "ratio": "3/2"
// CHECK-NEXT: "last_alone": true
// CHECK-NEXT: "within": 2
// CHECK-NEXT: "stop_at_eos": true
// CHECK-NEXT: "narrows": true
// CHECK-NEXT: "least_passes": 3
