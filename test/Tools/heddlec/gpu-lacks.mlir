// REQUIRES: heddlec
// What GPUs can't do yet is refused where the schedule asks for it.

// RUN: not heddlec %s --schedule=rows --target=cuda:sm_90a -o %t.hdl 2>&1 | FileCheck %s --check-prefix=ROWS
// ROWS: gpu-lacks.mlir:[[#@LINE+5]]:3: error: computing some of the rows is not possible on sm_90a yet; compile for --target=host
heddle.schedule @rows {
  %start = heddle.cadence first(1) in block
  %block = heddle.positions block
  heddle.reuse kv
  heddle.recompute all on %start
  heddle.recompute %block
  heddle.attend dense
}

// RUN: not heddlec %s --schedule=keys --target=cuda:sm_90a -o %t.hdl 2>&1 | FileCheck %s --check-prefix=KEYS
// KEYS: gpu-lacks.mlir:[[#@LINE+5]]:3: error: positions that are not visible
heddle.schedule @keys {
  %phase = heddle.cadence every(8)
  %masked = heddle.positions undecoded
  %window = heddle.fix %masked on %phase
  heddle.visible %window
  heddle.attend dense
}

// RUN: not heddlec %s --schedule=commit --target=host,cuda:sm_80 -o %t.hdl 2>&1 | FileCheck %s --check-prefix=COMMIT
// COMMIT: gpu-lacks.mlir:[[#@LINE+2]]:3: error: a commit rule of the schedule is not possible on sm_80 yet
heddle.schedule @commit {
  heddle.commit above(0.9)
  heddle.attend dense
}

// RUN: not heddlec %s --schedule=blocks --target=cuda:sm_90a -o %t.hdl 2>&1 | FileCheck %s --check-prefix=BLOCKS
// BLOCKS: gpu-lacks.mlir:[[#@LINE+3]]:12: error: a selection of blocks
heddle.schedule @blocks {
  %often = heddle.cadence every(8)
  %tiles = heddle.select blocks(keep = 0.3, size = 32) by mean_probability on %often
  heddle.attend pairs(%tiles)
}

// RUN: not heddlec %s --schedule=shared --target=cuda:sm_90a -o %t.hdl 2>&1 | FileCheck %s --check-prefix=SHARED
// SHARED: gpu-lacks.mlir:[[#@LINE+3]]:11: error: lists that query heads share
heddle.schedule @shared {
  %often = heddle.cadence every(8)
  %cols = heddle.select columns(keep = 0.3, group = 32, per_kv_head) by mean_probability on %often
  heddle.attend pairs(%cols)
}

// RUN: not heddlec %s --schedule=in_block --target=cuda:sm_90a -o %t.hdl 2>&1 | FileCheck %s --check-prefix=INBLOCK
// INBLOCK: gpu-lacks.mlir:[[#@LINE+3]]:11: error: a cadence in blocks
heddle.schedule @in_block {
  %start = heddle.cadence first(1) in block
  %cols = heddle.select columns(keep = 0.3, group = 32) by mean_probability on %start
  heddle.attend pairs(%cols)
}

// The model's quota is what GPUs do anyway.
// RUN: heddlec %s --schedule=quota --target=cuda:sm_90a --dtype=bf16 --head-dim=64 --ptxas=none -o %t.hdl
heddle.schedule @quota {
  heddle.commit quota
  heddle.attend dense
}
