// REQUIRES: heddle-opt
// RUN: heddle-opt %s --shed-pipeline-copies --convert-shed-to-nvvm --canonicalize --cse | FileCheck %s

// Attention the portable way, from sm_80 on: products of a warp, tiles copied
// while those before are multiplied.

// CHECK: llvm.mlir.global external @heddle_shared() {addr_space = 3 : i32, alignment = 1024 : i64} : !llvm.array<0 x i8>

// Three parameters; 32 KiB of queries and twice 2 * 16 KiB of keys and values.
// CHECK-LABEL: llvm.func @dense(
// CHECK-SAME: !llvm.ptr<1>, %{{.+}}: !llvm.ptr<1>, %{{.+}}: i64)
// CHECK-SAME: heddle.query_rows = 128 : i64
// CHECK-SAME: heddle.shared_bytes = 98304 : i64
// CHECK-SAME: heddle.threads = 128 : i64
// CHECK-SAME: nvvm.kernel, nvvm.maxntid = array<i32: 128>, nvvm.minctasm = 2 : i32

// Tiles are cut by rows: without lists and windows nobody asks where they are.
// CHECK-NOT: llvm.icmp "eq" {{.*}} : !llvm.ptr<1>

// At most 64 rows, which two warps hold: then warps share rows, and each takes
// 16 keys of a tile at a time. What they found is merged in two rounds.
// CHECK: %[[FEW:.+]] = arith.cmpi sle
// CHECK-NEXT: scf.if %[[FEW]] {
// CHECK: scf.for
// CHECK-NEXT: nvvm.cp.async.wait.group 0
// CHECK-NEXT: nvvm.barrier0
// CHECK: scf.for
// CHECK: nvvm.mma.sync
// CHECK: scf.yield
// CHECK: scf.for
// CHECK-NEXT: nvvm.cp.async.wait.group 0
// CHECK: scf.for
// CHECK: nvvm.mma.sync
// CHECK: scf.yield
// CHECK: nvvm.cp.async.wait.group 0
// CHECK-NEXT: nvvm.barrier0
// CHECK: arith.cmpi sle
// CHECK-NEXT: scf.if
// CHECK: arith.cmpi eq
// CHECK-NEXT: scf.if
// CHECK: llvm.store {{.*}} : vector<4xf32>, !llvm.ptr<3>
// CHECK: nvvm.barrier0
// CHECK: llvm.load {{.*}} -> vector<4xf32>
// CHECK: nvvm.barrier0
// CHECK: llvm.store {{.*}} : vector<4xf32>, !llvm.ptr<3>
// CHECK: nvvm.barrier0
// CHECK: llvm.load {{.*}} -> vector<4xf32>
// CHECK-NOT: nvvm.barrier0

// More rows.
// CHECK: %[[MANY:.+]] = arith.cmpi sgt
// CHECK-NEXT: scf.if %[[MANY]] {

// Whole tiles: all waiting is for the tile at hand, the next one is then on its
// way, and products follow: with keys, the softmax, with values.
// CHECK: scf.for
// CHECK: nvvm.cp.async.wait.group 0
// CHECK-NEXT: nvvm.barrier0
// CHECK: nvvm.cp.async.shared.global
// CHECK: nvvm.cp.async.commit.group
// CHECK: nvvm.mma.sync
// CHECK: nvvm.vote.sync any
// CHECK: scf.if
// CHECK: llvm.nvvm.ex2.approx.ftz
// CHECK: nvvm.mma.sync
// CHECK: scf.yield

// The last tile copies nothing, and masks what lies behind the end.
// CHECK: scf.for
// CHECK-NEXT: nvvm.cp.async.wait.group 0
// CHECK-NOT: nvvm.cp.async.shared.global
// CHECK: arith.select {{.*}} : f32
// CHECK: nvvm.mma.sync
// CHECK: llvm.return
shed.kernel @dense attention element(bf16) head_dim(128) writes_lse
    tiling(#shed.mma_tiling<query_rows = 128, warps = 4, keys = 64, stages = 2, blocks = 2, share_keys = true>) {
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

// f32 multiplies and adds.
// CHECK-LABEL: llvm.func @exact(
// CHECK-NOT: nvvm.mma.sync
// CHECK: llvm.intr.fma
// CHECK: llvm.return
shed.kernel @exact attention element(f32) head_dim(64)
    tiling(#shed.mma_tiling<query_rows = 64, warps = 4, keys = 32, stages = 2>) {
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

// Positions pass through shared memory, decoded by a warp; gathers copy whole
// rows, and nothing is filled with zeros.
// A tile's rows are those whose places have the same lists: the caller says
// which, unless all rows are there.
// CHECK-LABEL: llvm.func @columns(
// CHECK: %[[ALL:.+]] = llvm.icmp "eq" %{{.+}}, %{{.+}} : !llvm.ptr<1>
// CHECK-NEXT: scf.if %[[ALL]] -> (i32, i32) {
// CHECK: else
// CHECK: llvm.load {{.*}} invariant {{.*}} -> i32
// CHECK: llvm.load {{.*}} invariant {{.*}} -> i32
// CHECK: llvm.intr.ctpop
// CHECK: nvvm.cp.async.shared.global {{.*}}, 16, cache = cg : !llvm.ptr<3>, !llvm.ptr<1>{{$}}
// CHECK: nvvm.mma.sync
// Nothing is merged: with lists every warp has rows of its own.
// CHECK-NOT: vector<4xf32>
// CHECK: llvm.return
shed.kernel @columns attention element(f16) head_dim(64) encoding(bitmap)
    tiling(#shed.mma_tiling<query_rows = 64, warps = 4, keys = 64, stages = 2>) {
  %q = shed.load_queries : !shed.tile<queries, channels, f16>
  %s = shed.softmax_init : !shed.softmax
  %r = shed.for_keys over #shed.list<0, group = 64> init(%s) : !shed.softmax {
  ^bb0(%keys: !shed.keys, %c: !shed.softmax):
    %k = shed.load_keys %keys : !shed.tile<keys, channels, f16>
    %v = shed.load_values %keys : !shed.tile<keys, channels, f16>
    %l = shed.dot %q, %k : !shed.tile<queries, channels, f16>, !shed.tile<keys, channels, f16>
    %n = shed.softmax_update %c, %l, %v : !shed.tile<keys, channels, f16>
    shed.yield %n : !shed.softmax
  }
  shed.store %r
}

// A window is as many tiles as the block's rows touch, each masked by the places
// of the rows, which wait in shared memory: 256 bytes beside the 8 KiB of
// queries and twice 2 * 8 KiB of keys and values.
// CHECK-LABEL: llvm.func @window(
// CHECK-SAME: heddle.shared_bytes = 41216 : i64
// CHECK: %[[SAME:.+]] = llvm.icmp "eq" %{{.+}}, %{{.+}} : !llvm.ptr<1>
// CHECK: scf.if %[[SAME]] -> (i32)
// CHECK: llvm.store %{{.+}}, %{{.+}} : i32, !llvm.ptr<3>
// CHECK: nvvm.mma.sync
// CHECK: llvm.load {{.*}} : !llvm.ptr<3> -> i32
// CHECK: arith.cmpi ule
// CHECK: llvm.return
shed.kernel @window attention element(bf16) head_dim(64)
    tiling(#shed.mma_tiling<query_rows = 64, warps = 4, keys = 64, stages = 2>) {
  %q = shed.load_queries : !shed.tile<queries, channels, bf16>
  %s = shed.softmax_init : !shed.softmax
  %r = shed.for_keys over #shed.window<64> init(%s) : !shed.softmax {
  ^bb0(%keys: !shed.keys, %c: !shed.softmax):
    %k = shed.load_keys %keys : !shed.tile<keys, channels, bf16>
    %v = shed.load_values %keys : !shed.tile<keys, channels, bf16>
    %l = shed.dot %q, %k : !shed.tile<queries, channels, bf16>, !shed.tile<keys, channels, bf16>
    %m = shed.mask %l, %keys within #shed.window<64>
    %n = shed.softmax_update %c, %m, %v : !shed.tile<keys, channels, bf16>
    shed.yield %n : !shed.softmax
  }
  shed.store %r
}

// Of a list of blocks each thread finds the key of a rank and leaves -1 where a
// block has none: gaps, which are marked as what a filter leaves out is. Query
// heads share lists: the list's row is the head's by `headsPerList`.
// CHECK-LABEL: llvm.func @blocks(
// CHECK: arith.divui
// CHECK: arith.divui
// CHECK: arith.select %{{.+}}, %c-1_i32, %{{.+}} : i32
// CHECK: nvvm.vote.sync ballot
// CHECK: nvvm.mma.sync
// CHECK: llvm.return
shed.kernel @blocks attention element(bf16) head_dim(64) shared_lists
    tiling(#shed.mma_tiling<query_rows = 32, warps = 2, keys = 64, stages = 2>) {
  %q = shed.load_queries : !shed.tile<queries, channels, bf16>
  %s = shed.softmax_init : !shed.softmax
  %r = shed.for_keys over #shed.blocks<0, size = 32> init(%s) : !shed.softmax {
  ^bb0(%keys: !shed.keys, %c: !shed.softmax):
    %k = shed.load_keys %keys : !shed.tile<keys, channels, bf16>
    %v = shed.load_values %keys : !shed.tile<keys, channels, bf16>
    %l = shed.dot %q, %k : !shed.tile<queries, channels, bf16>, !shed.tile<keys, channels, bf16>
    %n = shed.softmax_update %c, %l, %v : !shed.tile<keys, channels, bf16>
    shed.yield %n : !shed.softmax
  }
  shed.store %r
}

// Sinks of the run time: the arguments' last field says how many, and as they
// may be many, whole tiles are not masked.
// CHECK-LABEL: llvm.func @told(
// CHECK: %[[AT:.+]] = llvm.getelementptr %{{.+}}[320] : (!llvm.ptr<1>) -> !llvm.ptr<1>, i8
// CHECK-NEXT: %[[TOLD:.+]] = llvm.load %[[AT]] invariant {{.*}} -> i64
// CHECK-NEXT: arith.trunci %[[TOLD]] : i64 to i32
// CHECK: %[[WHOLE:.+]]:40 = scf.for %{{.+}} = %c0_i32 to %[[TILES:.+]] step
// CHECK: nvvm.mma.sync
// CHECK: scf.for %{{.+}} = %[[TILES]] to %{{.+}} step %{{.+}} iter_args(%{{.+}} = %[[WHOLE]]#0,
// CHECK: nvvm.mma.sync
// CHECK: llvm.return
shed.kernel @told attention element(bf16) head_dim(64)
    tiling(#shed.mma_tiling<query_rows = 64, warps = 4, keys = 64, stages = 2>) {
  %q = shed.load_queries : !shed.tile<queries, channels, bf16>
  %s = shed.softmax_init : !shed.softmax
  %r = shed.for_keys over #shed.sinks<?> init(%s) : !shed.softmax {
  ^bb0(%keys: !shed.keys, %c: !shed.softmax):
    %k = shed.load_keys %keys : !shed.tile<keys, channels, bf16>
    %v = shed.load_values %keys : !shed.tile<keys, channels, bf16>
    %l = shed.dot %q, %k : !shed.tile<queries, channels, bf16>, !shed.tile<keys, channels, bf16>
    %n = shed.softmax_update %c, %l, %v : !shed.tile<keys, channels, bf16>
    shed.yield %n : !shed.softmax
  }
  shed.store %r
}
