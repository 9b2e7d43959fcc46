// REQUIRES: heddlec, heddle-bundle
// Selections by logits arrive in the manifest: the scorer, of kernels too, and
// that a step refreshes first, with no attention for its log-sum-exp.

// RUN: heddlec %s --target=x86-64-v3 --dtype=f32 --head-dim=64 -o %t.hdl
// RUN: heddle-bundle dump %t.hdl --json | FileCheck %s
// RUN: heddlec %s --explain --layers=1 | FileCheck %s --check-prefix=SAYS

heddle.schedule @logits {
  %always = cadence every(1)
  %tiles = select blocks(keep = 1/4, size = 64) by mean_logit on %always
  attend pairs(%tiles) at_once
}

// CHECK: "selections": [
// CHECK: "scorer": "mean_logit",
// CHECK: "kernels": [
// CHECK: "name": "attention_tiles",
// CHECK: "name": "select_blocks_64_by_mean_logit",
// CHECK: "scorer": "mean_logit",
// CHECK-NOT: "name": "attention_dense
// CHECK: "rules": [
// CHECK: "attention": 0,
// CHECK-NEXT: "refreshes_first": true,
// CHECK-NEXT: "refreshes": [

// SAYS: attention 25.0% of the pairs, scoring another 1.6%
// SAYS: blocks(tiles), 25.0% of the pairs, after refreshing tiles
// SAYS: scored by mean_logit, refreshed every(1)
