// REQUIRES: heddlec
// What GPUs can't do yet is refused where the schedule asks for it.

// RUN: not heddlec %s --schedule=keys --target=host,cuda:sm_90a -o %t.hdl 2>&1 | FileCheck %s --check-prefix=KEYS
// KEYS: gpu-lacks.mlir:[[#@LINE+5]]:3: error: a window or sinks over some of the positions is not possible on sm_90a yet; compile for --target=host
heddle.schedule @keys {
  %phase = heddle.cadence every(8)
  %masked = heddle.positions undecoded
  %some = heddle.fix %masked on %phase
  heddle.visible %some
  %band = heddle.window(64)
  heddle.attend pairs(%band)
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

// The rest is what they do.
// RUN: heddlec %s --schedule=rows --target=cuda:sm_90a --dtype=bf16 --head-dim=64 --ptxas=none -o %t.hdl
heddle.schedule @rows {
  %start = heddle.cadence first(1) in block
  %cols = heddle.select columns(keep = 0.3, group = 32) by mean_probability on %start
  %block = heddle.positions block
  heddle.reuse kv
  heddle.recompute all on %start
  heddle.recompute %block
  heddle.commit above(0.9)
  heddle.attend pairs(%cols)
}
