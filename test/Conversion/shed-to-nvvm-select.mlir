// REQUIRES: heddle-opt
// RUN: heddle-opt %s --shed-pipeline-copies --convert-shed-to-nvvm | FileCheck %s
// RUN: heddle-opt %s --shed-pipeline-copies --convert-shed-to-nvvm --heddle-verify-machine=dialects=arith,builtin,llvm,nvvm,scf,vector -o /dev/null

// Four groups of 32 rows are scored together: as many rows of scores in
// scratch, each padded to 16 bytes.
// CHECK: llvm.mlir.global external @heddle_shared() {addr_space = 3 : i32, alignment = 1024
// CHECK-LABEL: llvm.func @together(
// CHECK-SAME: !llvm.ptr<1>, %{{.+}}: !llvm.ptr<1>, %{{.+}}: i64)
// CHECK-SAME: heddle.query_rows = 32 : i64, heddle.scratch_bytes = 64 : i64, heddle.scratch_bytes_per_key = 16 : i64, heddle.shared_bytes = 66176 : i64, heddle.threads = 128 : i64
// CHECK-SAME: nvvm.maxntid = array<i32: 128>
// Blocks share out the tasks: no more of them than scratch has rows.
// CHECK: nvvm.read.ptx.sreg.nctaid.x
// CHECK: scf.for
// CHECK: nvvm.cp.async.shared.global
// CHECK: nvvm.mma.sync
// CHECK-SAME: bf16
// CHECK: nvvm.ex2.approx.ftz.f32
// CHECK: nvvm.shfl.sync bfly
// Histograms of the 11 highest bits of scores, of the next 10 and of the last 10,
// each summed up across lanes; then a walk in ascending order.
// CHECK: arith.constant 2047 : i32
// CHECK: llvm.atomicrmw add
// CHECK: nvvm.shfl.sync up
// CHECK: arith.constant 1023 : i32
// CHECK: llvm.atomicrmw add
// CHECK: nvvm.shfl.sync up
// CHECK: arith.constant 1023 : i32
// CHECK: llvm.atomicrmw add
// CHECK: nvvm.shfl.sync up
// CHECK: nvvm.vote.sync ballot
// CHECK: llvm.store {{.*}} : i16, !llvm.ptr<1>
// CHECK: llvm.return
shed.kernel @together select element(bf16) head_dim(128) group(32) encoding(uint16) tiling(#shed.mma_tiling<query_rows = 128, warps = 4, keys = 128, stages = 2, blocks = 3>) {
  %m = shed.mass_init : !shed.mass
  %r = shed.for_queries init(%m) : !shed.mass {
  ^bb0(%o: !shed.mass):
    %q = shed.load_queries : !shed.tile<queries, channels, bf16>
    %l = shed.load_lse
    %s = shed.for_keys over #shed.all init(%o) : !shed.mass {
    ^bb0(%keys: !shed.keys, %c: !shed.mass):
      %k = shed.load_keys %keys : !shed.tile<keys, channels, bf16>
      %x = shed.dot %q, %k : !shed.tile<queries, channels, bf16>, !shed.tile<keys, channels, bf16>
      %n = shed.column_mass %c, %x, %l, %keys
      shed.yield %n : !shed.mass
    }
    shed.yield %s : !shed.mass
  }
  shed.top_k %r
}

// By logits: the rows of 16 groups are summed, 8 loads at a time and two rows
// in a warp; their means, in two parts, meet a warp's 32 keys. No exponentials,
// and nothing of the log-sum-exp. The least score is taken away from all.
// CHECK-LABEL: llvm.func @logits(
// CHECK-SAME: heddle.query_rows = 32 : i64, heddle.scratch_bytes = 256 : i64, heddle.scratch_bytes_per_key = 64 : i64
// CHECK-NOT: nvvm.mma.sync
// CHECK-NOT: nvvm.ex2
// CHECK-COUNT-8: llvm.load {{.*}} invariant {{.*}} : !llvm.ptr<1> -> vector<4xi32>
// CHECK-NOT: nvvm.mma.sync
// CHECK: nvvm.shfl.sync bfly
// CHECK: llvm.call_intrinsic "llvm.nvvm.ff2bf16x2.rn"
// CHECK-COUNT-64: nvvm.mma.sync
// CHECK-NOT: nvvm.mma.sync
// CHECK: arith.minnumf
// CHECK: nvvm.shfl.sync bfly
// CHECK: arith.subf
// CHECK-COUNT-3: nvvm.shfl.sync up
// CHECK: llvm.return
shed.kernel @logits select element(bf16) head_dim(128) group(32) encoding(uint16) tiling(#shed.mma_tiling<query_rows = 128, warps = 4, keys = 128, stages = 2, blocks = 3>) {
  %m = shed.mass_init : !shed.mass
  %r = shed.logit_mass %m
  shed.top_k %r
}

// Blocks: means of 16 groups meet means of four blocks of keys, four channels
// at a time. Scores are of blocks: 18 rows of n / 64 and two.
// CHECK-LABEL: llvm.func @logit_blocks(
// CHECK-SAME: heddle.query_rows = 64 : i64, heddle.scratch_bytes = 576 : i64, heddle.scratch_bytes_per_key = 2 : i64
// CHECK-NOT: nvvm.mma.sync
// CHECK-COUNT-16: llvm.intr.fma
// CHECK-NOT: llvm.intr.fma
// CHECK: llvm.store {{.*}} : vector<4xf32>, !llvm.ptr<1>
// CHECK: arith.minnumf
// CHECK-COUNT-3: nvvm.shfl.sync up
// CHECK: llvm.return
shed.kernel @logit_blocks select element(bf16) head_dim(128) group(64) tiling(#shed.mma_tiling<query_rows = 128, warps = 4, keys = 128, stages = 2>) {
  %m = shed.mass_init : !shed.mass
  %r = shed.logit_mass %m
  shed.top_k %r blocks
}

// A group of 256 rows is scored in two passes; a bitmap is written in words.
// fp32 has no matrix products.
// CHECK-LABEL: llvm.func @passes(
// CHECK-SAME: heddle.query_rows = 256 : i64, heddle.scratch_bytes = 16 : i64, heddle.scratch_bytes_per_key = 4 : i64
// CHECK-NOT: nvvm.mma.sync
// CHECK: llvm.intr.fma
// CHECK: nvvm.vote.sync ballot
// CHECK: llvm.store {{.*}} : i32, !llvm.ptr<1>
// CHECK-NOT: shed.
shed.kernel @passes select element(f32) head_dim(64) group(256) encoding(bitmap) tiling(#shed.mma_tiling<query_rows = 128, warps = 4, keys = 64, stages = 2>) {
  %m = shed.mass_init : !shed.mass
  %r = shed.for_queries init(%m) : !shed.mass {
  ^bb0(%o: !shed.mass):
    %q = shed.load_queries : !shed.tile<queries, channels, f32>
    %l = shed.load_lse
    %s = shed.for_keys over #shed.all init(%o) : !shed.mass {
    ^bb0(%keys: !shed.keys, %c: !shed.mass):
      %k = shed.load_keys %keys : !shed.tile<keys, channels, f32>
      %x = shed.dot %q, %k : !shed.tile<queries, channels, f32>, !shed.tile<keys, channels, f32>
      %n = shed.column_mass %c, %x, %l, %keys
      shed.yield %n : !shed.mass
    }
    shed.yield %s : !shed.mass
  }
  shed.top_k %r
}

// Blocks: beside the rows of keys' scores as many for those of the second span,
// and two for the means over blocks; a list for each span, behind -1s.
// CHECK-LABEL: llvm.func @blocks(
// CHECK-SAME: heddle.query_rows = 64 : i64, heddle.scratch_bytes = 64 : i64, heddle.scratch_bytes_per_key = 16 : i64
// CHECK: nvvm.mma.sync
// CHECK: scf.if
// CHECK: nvvm.mma.sync
// CHECK: arith.divf
// CHECK: llvm.store %c-1{{.*}} : i32, !llvm.ptr<1>
// CHECK: nvvm.vote.sync ballot
// CHECK: nvvm.vote.sync ballot
// CHECK: llvm.return
shed.kernel @blocks select element(bf16) head_dim(64) group(64) tiling(#shed.mma_tiling<query_rows = 64, warps = 4, keys = 128, stages = 2>) {
  %m = shed.mass_init : !shed.mass
  %r = shed.for_queries init(%m) : !shed.mass {
  ^bb0(%o: !shed.mass):
    %q = shed.load_queries : !shed.tile<queries, channels, bf16>
    %l = shed.load_lse
    %s = shed.for_keys over #shed.all init(%o) : !shed.mass {
    ^bb0(%keys: !shed.keys, %c: !shed.mass):
      %k = shed.load_keys %keys : !shed.tile<keys, channels, bf16>
      %x = shed.dot %q, %k : !shed.tile<queries, channels, bf16>, !shed.tile<keys, channels, bf16>
      %n = shed.column_mass %c, %x, %l, %keys
      shed.yield %n : !shed.mass
    }
    shed.yield %s : !shed.mass
  }
  %e = shed.mass_init : !shed.mass
  %t = shed.for_queries span init(%e) : !shed.mass {
  ^bb0(%o: !shed.mass):
    %q = shed.load_queries : !shed.tile<queries, channels, bf16>
    %l = shed.load_lse span
    %s = shed.for_keys over #shed.span init(%o) : !shed.mass {
    ^bb0(%keys: !shed.keys, %c: !shed.mass):
      %k = shed.load_keys %keys : !shed.tile<keys, channels, bf16>
      %x = shed.dot %q, %k : !shed.tile<queries, channels, bf16>, !shed.tile<keys, channels, bf16>
      %n = shed.column_mass %c, %x, %l, %keys
      shed.yield %n : !shed.mass
    }
    shed.yield %s : !shed.mass
  }
  shed.top_k %r span %t blocks
}

// All rows: those of a range, told by the arguments; one more row of scores for
// the best of neighbors.
// CHECK-LABEL: llvm.func @all(
// CHECK-SAME: heddle.query_rows = 1024 : i64, heddle.scratch_bytes = 32 : i64, heddle.scratch_bytes_per_key = 8 : i64
// CHECK: nvvm.mma.sync
// CHECK: arith.constant 0x7F800000 : f32
// CHECK: nvvm.barrier
// CHECK: arith.maxsi
// CHECK: arith.minsi
// CHECK: scf.for
// CHECK: arith.maxsi
// CHECK: nvvm.vote.sync ballot
// CHECK: llvm.return
shed.kernel @all select element(bf16) head_dim(128) group(1073741824) shared_lists per_layer encoding(uint16) tiling(#shed.mma_tiling<query_rows = 128, warps = 8, keys = 128, stages = 2>) {
  %m = shed.mass_init : !shed.mass
  %r = shed.for_queries init(%m) : !shed.mass {
  ^bb0(%o: !shed.mass):
    %q = shed.load_queries : !shed.tile<queries, channels, bf16>
    %l = shed.load_lse
    %s = shed.for_keys over #shed.all init(%o) : !shed.mass {
    ^bb0(%keys: !shed.keys, %c: !shed.mass):
      %k = shed.load_keys %keys : !shed.tile<keys, channels, bf16>
      %x = shed.dot %q, %k : !shed.tile<queries, channels, bf16>, !shed.tile<keys, channels, bf16>
      %n = shed.column_mass %c, %x, %l, %keys
      shed.yield %n : !shed.mass
    }
    shed.yield %s : !shed.mass
  }
  shed.top_k %r pooled(3)
}

// Within a list: the keys that a search does not find in it score nothing, the
// others something. No row of scores more.
// CHECK-LABEL: llvm.func @inside(
// CHECK-SAME: heddle.query_rows = 64 : i64, heddle.scratch_bytes = 32 : i64, heddle.scratch_bytes_per_key = 8 : i64
// CHECK: nvvm.mma.sync
// CHECK: arith.divui
// CHECK: scf.for
// CHECK: arith.maxsi
// CHECK: scf.while
// CHECK: arith.ori
// CHECK: arith.select
// CHECK: llvm.store
// CHECK: nvvm.barrier
// CHECK: nvvm.vote.sync ballot
// CHECK: llvm.return
shed.kernel @inside select element(bf16) head_dim(128) group(64) encoding(uint16) tiling(#shed.mma_tiling<query_rows = 128, warps = 8, keys = 128, stages = 2>) {
  %m = shed.mass_init : !shed.mass
  %r = shed.for_queries init(%m) : !shed.mass {
  ^bb0(%o: !shed.mass):
    %q = shed.load_queries : !shed.tile<queries, channels, bf16>
    %l = shed.load_lse
    %s = shed.for_keys over #shed.all init(%o) : !shed.mass {
    ^bb0(%keys: !shed.keys, %c: !shed.mass):
      %k = shed.load_keys %keys : !shed.tile<keys, channels, bf16>
      %x = shed.dot %q, %k : !shed.tile<queries, channels, bf16>, !shed.tile<keys, channels, bf16>
      %n = shed.column_mass %c, %x, %l, %keys
      shed.yield %n : !shed.mass
    }
    shed.yield %s : !shed.mass
  }
  shed.top_k %r within #shed.list<0, group = 128>
}
