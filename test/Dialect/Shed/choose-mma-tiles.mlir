// REQUIRES: heddle-opt
// RUN: heddle-opt %s --shed-choose-mma-tiles="shared-of-block=166912 shared-of-processor=167936" | FileCheck %s --check-prefixes=CHECK,A100
// RUN: heddle-opt %s --shed-choose-mma-tiles="shared-of-block=232448 shared-of-processor=233472" | FileCheck %s --check-prefixes=CHECK,H100
// RUN: heddle-opt %s --shed-choose-mma-tiles="shared-of-block=101376 shared-of-processor=102400" | FileCheck %s --check-prefixes=CHECK,SMALL
// RUN: not heddle-opt %s --shed-choose-mma-tiles="shared-of-block=16384 shared-of-processor=32768" 2>&1 | FileCheck %s --check-prefix=NONE

// RUN: not heddle-opt %s --shed-choose-mma-tiles=registers-of-thread=60 2>&1 | FileCheck %s --check-prefix=FEW
// RUN: not heddle-opt %s --shed-choose-mma-tiles=registers-of-thread=0 2>&1 | FileCheck %s --check-prefix=ZERO
// RUN: not heddle-opt %s --shed-choose-mma-tiles=shared-of-processor=-1 2>&1 | FileCheck %s --check-prefix=NEGATIVE
// RUN: not heddle-opt %s --shed-verify-mma-kernels=shared-of-block=-9 2>&1 | FileCheck %s --check-prefix=BLOCK

// ZERO: choose-mma-tiles.mlir:{{.*}} error: registers-of-thread is at least 1, not 0
// NEGATIVE: choose-mma-tiles.mlir:{{.*}} error: shared-of-processor is at least 1, not -1
// BLOCK: choose-mma-tiles.mlir:{{.*}} error: shared-of-block is at least 1, not -9
// FEW: 'shed.kernel' op has no tiling that fits 166912 bytes of shared memory and 60 registers of a thread
// NONE: 'shed.kernel' op has no tiling that fits 16384 bytes of shared memory and 255 registers of a thread (groups of 0 rows, head_dim 128, 'bf16')

// Warps of 32 rows, and eight warps on a multiprocessor where shared memory
// has room: shorter tiles of keys there, then warps of 16 rows.
// A few rows share tiles of 64 keys among four warps, 16 for each.
// CHECK-LABEL: shed.kernel @dense
// A100-SAME: mma_tiling<query_rows = 128, warps = 4, keys = 32, stages = 2, blocks = 2>
// H100-SAME: mma_tiling<query_rows = 128, warps = 4, keys = 64, stages = 2, blocks = 2, share_keys = true>
// SMALL-SAME: mma_tiling<query_rows = 128, warps = 8, keys = 64, stages = 2, keep_queries = true>
shed.kernel @dense attention element(bf16) head_dim(128) {
  %q = shed.load_queries : !shed.tile<queries, channels, bf16>
  %s = shed.softmax_init : !shed.softmax
  %r = shed.for_keys over #shed.all init(%s) : !shed.softmax {
  ^bb0(%keys: !shed.keys, %c: !shed.softmax):
    %k = shed.load_keys %keys : !shed.tile<keys, channels, bf16>
    %v = shed.load_values %keys : !shed.tile<keys, channels, bf16>
    %l = shed.dot %q, %k : !shed.tile<queries, channels, bf16>, !shed.tile<keys, channels, bf16>
    %n = shed.softmax_update %c, %l, %v : !shed.tile<keys, channels, bf16>
    shed.yield %n : !shed.softmax
  }
  shed.store %r
}

// Queries stay in registers where they cost no block.
// CHECK-LABEL: shed.kernel @narrow
// H100-SAME: keep_queries = true
shed.kernel @narrow attention element(f16) head_dim(64) {
  %q = shed.load_queries : !shed.tile<queries, channels, f16>
  %s = shed.softmax_init : !shed.softmax
  %r = shed.for_keys over #shed.all init(%s) : !shed.softmax {
  ^bb0(%keys: !shed.keys, %c: !shed.softmax):
    %k = shed.load_keys %keys : !shed.tile<keys, channels, f16>
    %v = shed.load_values %keys : !shed.tile<keys, channels, f16>
    %l = shed.dot %q, %k : !shed.tile<queries, channels, f16>, !shed.tile<keys, channels, f16>
    %n = shed.softmax_update %c, %l, %v : !shed.tile<keys, channels, f16>
    shed.yield %n : !shed.softmax
  }
  shed.store %r
}

// Windows take registers for positions: shorter tiles of keys, where a thread
// would not hold all.
// CHECK-LABEL: shed.kernel @window
// A100-SAME: mma_tiling<query_rows = 128, warps = 4, keys = 32, stages = 2, blocks = 2>
// H100-SAME: mma_tiling<query_rows = 128, warps = 4, keys = 32, stages = 2, blocks = 2>
// SMALL-SAME: mma_tiling<query_rows = 128, warps = 8, keys = 64, stages = 2, keep_queries = true>
shed.kernel @window attention element(bf16) head_dim(128) {
  %q = shed.load_queries : !shed.tile<queries, channels, bf16>
  %s = shed.softmax_init : !shed.softmax
  %r = shed.for_keys over #shed.window<256> init(%s) : !shed.softmax {
  ^bb0(%keys: !shed.keys, %c: !shed.softmax):
    %k = shed.load_keys %keys : !shed.tile<keys, channels, bf16>
    %v = shed.load_values %keys : !shed.tile<keys, channels, bf16>
    %l = shed.dot %q, %k : !shed.tile<queries, channels, bf16>, !shed.tile<keys, channels, bf16>
    %m = shed.mask %l, %keys within #shed.window<256>
    %n = shed.softmax_update %c, %m, %v : !shed.tile<keys, channels, bf16>
    shed.yield %n : !shed.softmax
  }
  shed.store %r
}

// The rows of a block share the lists: a block has at most a group's rows.
// CHECK-LABEL: shed.kernel @groups_of_64
// CHECK-SAME: mma_tiling<query_rows = 64, warps = 4,
shed.kernel @groups_of_64 attention element(bf16) head_dim(128) encoding(bitmap) {
  %q = shed.load_queries : !shed.tile<queries, channels, bf16>
  %s = shed.softmax_init : !shed.softmax
  %r = shed.for_keys over #shed.list<0, group = 64> init(%s) : !shed.softmax {
  ^bb0(%keys: !shed.keys, %c: !shed.softmax):
    %k = shed.load_keys %keys : !shed.tile<keys, channels, bf16>
    %v = shed.load_values %keys : !shed.tile<keys, channels, bf16>
    %l = shed.dot %q, %k : !shed.tile<queries, channels, bf16>, !shed.tile<keys, channels, bf16>
    %n = shed.softmax_update %c, %l, %v : !shed.tile<keys, channels, bf16>
    shed.yield %n : !shed.softmax
  }
  shed.store %r
}

// Each position of a tile has a thread of its own.
// CHECK-LABEL: shed.kernel @groups_of_16
// CHECK-SAME: mma_tiling<query_rows = 16, warps = 1, keys = 32,
shed.kernel @groups_of_16 attention element(bf16) head_dim(128) encoding(bitmap) {
  %q = shed.load_queries : !shed.tile<queries, channels, bf16>
  %s = shed.softmax_init : !shed.softmax
  %r = shed.for_keys over #shed.list<0, group = 16> init(%s) : !shed.softmax {
  ^bb0(%keys: !shed.keys, %c: !shed.softmax):
    %k = shed.load_keys %keys : !shed.tile<keys, channels, bf16>
    %v = shed.load_values %keys : !shed.tile<keys, channels, bf16>
    %l = shed.dot %q, %k : !shed.tile<queries, channels, bf16>, !shed.tile<keys, channels, bf16>
    %n = shed.softmax_update %c, %l, %v : !shed.tile<keys, channels, bf16>
    shed.yield %n : !shed.softmax
  }
  shed.store %r
}

// CHECK-LABEL: shed.kernel @exact
// H100-SAME: mma_tiling<query_rows = 128, warps = 8, keys = 64, stages = 2>
shed.kernel @exact attention element(f32) head_dim(128) {
  %q = shed.load_queries : !shed.tile<queries, channels, f32>
  %s = shed.softmax_init : !shed.softmax
  %r = shed.for_keys over #shed.all init(%s) : !shed.softmax {
  ^bb0(%keys: !shed.keys, %c: !shed.softmax):
    %k = shed.load_keys %keys : !shed.tile<keys, channels, f32>
    %v = shed.load_values %keys : !shed.tile<keys, channels, f32>
    %l = shed.dot %q, %k : !shed.tile<queries, channels, f32>, !shed.tile<keys, channels, f32>
    %n = shed.softmax_update %c, %l, %v : !shed.tile<keys, channels, f32>
    shed.yield %n : !shed.softmax
  }
  shed.store %r
}

// A kernel that has a tiling keeps it.
// CHECK-LABEL: shed.kernel @given
// CHECK-SAME: mma_tiling<query_rows = 32, warps = 2, keys = 16, stages = 3>
shed.kernel @given attention element(bf16) head_dim(128)
    tiling(#shed.mma_tiling<query_rows = 32, warps = 2, keys = 16, stages = 3>) {
  %q = shed.load_queries : !shed.tile<queries, channels, bf16>
  %s = shed.softmax_init : !shed.softmax
  %r = shed.for_keys over #shed.all init(%s) : !shed.softmax {
  ^bb0(%keys: !shed.keys, %c: !shed.softmax):
    %k = shed.load_keys %keys : !shed.tile<keys, channels, bf16>
    %v = shed.load_values %keys : !shed.tile<keys, channels, bf16>
    %l = shed.dot %q, %k : !shed.tile<queries, channels, bf16>, !shed.tile<keys, channels, bf16>
    %n = shed.softmax_update %c, %l, %v : !shed.tile<keys, channels, bf16>
    shed.yield %n : !shed.softmax
  }
  shed.store %r
}

// By mean logits: blocks for 32 groups at a time, keys for 16.
// CHECK-LABEL: shed.kernel @mean_blocks
// CHECK-SAME: mma_tiling<query_rows = 256, warps = 8, keys = 128, stages = 2, blocks = 2>
shed.kernel @mean_blocks select element(bf16) head_dim(128) group(64) {
  %m = shed.mass_init : !shed.mass
  %r = shed.logit_mass %m
  shed.top_k %r blocks
}

// CHECK-LABEL: shed.kernel @mean_keys
// CHECK-SAME: mma_tiling<query_rows = 128, warps = 8, keys = 128, stages = 2
shed.kernel @mean_keys select element(bf16) head_dim(128) group(64) encoding(uint16) {
  %m = shed.mass_init : !shed.mass
  %r = shed.logit_mass %m
  shed.top_k %r
}
