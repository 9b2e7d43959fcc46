// REQUIRES: heddle-opt
// RUN: heddle-opt %s --convert-shed-rows-to-nvvm --split-input-file | FileCheck %s
// RUN: heddle-opt --shed-add-row-kernels=dtypes=f32,bf16,f16 --convert-shed-rows-to-nvvm %S/Inputs/empty.mlir | FileCheck %s --check-prefix=ALL

// Everything that is in a bundle lowers, to upstream dialects.
// ALL-NOT: shed.
// ALL: llvm.func @row_embed_f32(
// ALL-NOT: math.
// ALL: llvm.func @row_commit_f16(
// ALL-NOT: shed.

// The parameters are the fields of the argument block; a group of 8 columns is
// one load, its products are rounded in pairs.
// CHECK-LABEL: llvm.func @swiglu(
// CHECK-SAME: %{{.+}}: !llvm.ptr<1>, %{{.+}}: !llvm.ptr<1>, %{{.+}}: i64)
// CHECK-SAME: heddle.shared_bytes = 0 : i64, heddle.threads = 256 : i64, nvvm.kernel, nvvm.maxntid = array<i32: 256>
// CHECK: nvvm.read.ptx.sreg.tid.x
// CHECK: nvvm.read.ptx.sreg.ctaid.x
// CHECK: scf.for
// CHECK: llvm.load %{{.+}} {alignment = 16 : i64} : !llvm.ptr<1> -> vector<4xi32>
// CHECK-NOT: llvm.load
// CHECK: llvm.nvvm.ex2.approx.ftz
// CHECK: llvm.nvvm.ff2bf16x2.rn
// CHECK: llvm.store %{{.+}}, %{{.+}} {alignment = 16 : i64} : vector<4xi32>, !llvm.ptr<1>
// CHECK: llvm.return
shed.row_kernel @swiglu swiglu element(bf16) tiling(<threads = 256>) {
^bb0(%x: !shed.array<bf16>, %y: !shed.array<bf16>, %width: i64):
  %r = shed.row
  %offset = arith.muli %r, %width : i64
  %row = shed.advance %x by %offset : !shed.array<bf16>
  shed.for_columns %width {
  ^bb0(%j: !shed.column):
    %v = shed.read_column %row[%j] : !shed.array<bf16>
    %e = math.exp %v : f32
    shed.write_column %e, %y[%j] : !shed.array<bf16>
  }
}

// -----

// Groups that are kept are words in registers, handed from one pass to the
// next; the loops take the rest of a wide row. Sums go through the warp, then
// through shared memory.
// CHECK-LABEL: llvm.func @norm(
// CHECK: %[[FIRST:.+]]:5 = scf.if %{{.+}} -> (f32, i32, i32, i32, i32) {
// CHECK: scf.if %{{.+}} -> (f32, i32, i32, i32, i32) {
// CHECK: scf.for {{.*}} iter_args(
// CHECK: nvvm.shfl.sync bfly
// CHECK: llvm.mlir.addressof @norm_partials
// CHECK: nvvm.barrier
// CHECK: nvvm.shfl.sync bfly
// CHECK: scf.if
// CHECK-NOT: llvm.load
// CHECK: llvm.bitcast %[[FIRST]]#1
// CHECK: llvm.mlir.global internal @norm_partials() {addr_space = 3 : i32, alignment = 8 : i64} : !llvm.array<2 x i64>
shed.row_kernel @norm rms_norm element(f16) tiling(<threads = 64, kept = 2>) {
^bb0(%x: !shed.array<f16>, %delta: !shed.array<f16>, %weight: !shed.array<f16>,
     %y: !shed.array<f16>, %index: !shed.array<i32>, %shift: i64, %width: i64, %eps: f64):
  %sum, %kept = shed.for_columns %width reduce(add) keep(%y : !shed.array<f16>)
      -> f32, !shed.kept<f16> {
  ^bb0(%j: !shed.column):
    %v = shed.read_column %x[%j] : !shed.array<f16>
    shed.contribute %v, %v : f32, f32
  }
  shed.for_columns %width {
  ^bb0(%j: !shed.column):
    %v = shed.recall %kept[%j] : !shed.kept<f16>
    %w = arith.mulf %v, %sum : f32
    shed.write_column %w, %y[%j] : !shed.array<f16>
  }
}

// -----

// A column at a time, a tie to the lower column, one writer outside of passes.
// CHECK-LABEL: llvm.func @count(
// CHECK: arith.cmpi eq, %{{.+}}, %{{.+}} : i32
// CHECK: arith.addi
// CHECK: arith.cmpi eq, %{{.+}}, %c0
// CHECK: scf.if
// CHECK: llvm.store %{{.+}} {alignment = 4 : i64} : i32, !llvm.ptr<1>
shed.row_kernel @count masked_count element(f32) tiling(<threads = 32, columns = 1>) {
^bb0(%tokens: !shed.array<i32>, %first: !shed.array<i64>, %end: !shed.array<i64>,
     %count: !shed.array<i32>, %mask: i64):
  %c0 = arith.constant 0 : i64
  %wanted = arith.trunci %mask : i64 to i32
  %n = shed.for_columns %mask reduce(add) -> i32 {
  ^bb0(%j: !shed.column):
    %token = shed.read_column %tokens[%j] : !shed.array<i32>
    %hit = arith.cmpi eq, %token, %wanted : i32
    %one = arith.extui %hit : i1 to i32
    shed.contribute %one : i32
  }
  shed.write %n, %count[%c0] : !shed.array<i32>
}

// -----

// Chosen columns are counted by the warp's ballot.
// CHECK-LABEL: llvm.func @list(
// CHECK: nvvm.vote.sync ballot
// CHECK: llvm.intr.ctpop
// CHECK: nvvm.barrier
// CHECK: nvvm.barrier
// CHECK: scf.if
shed.row_kernel @list candidates element(f32) tiling(<threads = 128, columns = 1>) {
^bb0(%tokens: !shed.array<i32>, %first: !shed.array<i64>, %end: !shed.array<i64>,
     %rows: !shed.array<i32>, %sequence_of: !shed.array<i32>, %offsets: !shed.array<i32>,
     %count: !shed.array<i32>, %sequences: i64, %capacity: i64, %mask: i64):
  %c0 = arith.constant 0 : i64
  %wanted = arith.trunci %mask : i64 to i32
  %after = shed.number_columns %sequences from %c0 where {
  ^bb0(%j: !shed.column):
    %token = shed.read_column %tokens[%j] : !shed.array<i32>
    %hit = arith.cmpi eq, %token, %wanted : i32
    shed.contribute %hit : i1
  } do {
  ^bb0(%j: !shed.column, %number: i64):
    shed.write %wanted, %rows[%number] : !shed.array<i32>
  }
}

// -----

// Three reductions in one pass over a ragged row; random numbers are ten rounds
// of two products, and the same ten give those of two columns: four times for a
// group of eight, once for each column that is left.
// CHECK-LABEL: llvm.func @draw(
// CHECK: scf.for
// CHECK-COUNT-80: llvm.nvvm.mulhi.ui
// CHECK-NOT: llvm.nvvm.mulhi.ui
// CHECK: scf.if
// CHECK-COUNT-20: llvm.nvvm.mulhi.ui
// CHECK-NOT: llvm.nvvm.mulhi.ui
// CHECK: arith.cmpf ogt
// CHECK: llvm.mlir.global internal @draw_partials() {{.*}} : !llvm.array<8 x i64>
shed.row_kernel @draw draw element(bf16) tiling(<threads = 64>) {
^bb0(%logits: !shed.array<bf16>, %unconditional: !shed.array<bf16>, %vocab: i64,
     %stride: i64, %first: i64, %rows: !shed.array<i32>,
     %sequence_of: !shed.array<i32>, %sequence_start: !shed.array<i64>,
     %clock: !shed.array<i64>, %temperature: f64, %cfg_scale: f64, %seed: i64,
     %flags: i64, %eos: i32, %eot: i32, %token: !shed.array<i32>,
     %confidence: !shed.array<f64>, %status: !shed.array<i32>):
  %c0 = arith.constant 0 : i64
  %most, %where, %sum, %top = shed.for_columns ragged %vocab reduce(argmax, add, max)
      -> f32, i64, f64, f32 {
  ^bb0(%j: !shed.column):
    %l = shed.read_column %logits[%j] : !shed.array<bf16>
    %n = shed.column_number %j
    %bits = shed.random stream(0) seed %seed step %c0 position %c0 index %n
    %u = arith.uitofp %bits : i64 to f64
    %g = math.log %u : f64
    shed.contribute %l, %g, %l : f32, f64, f32
  }
  %token32 = arith.trunci %where : i64 to i32
  shed.write %token32, %token[%c0] : !shed.array<i32>
  shed.raise %token32, %status[%c0] : !shed.array<i32>
}

// -----

// Sums of one pass go through shared memory together, and a group's loads come
// before its stores: a row may be replaced by what it is read for. The root is
// that of fp64.
// CHECK-LABEL: llvm.func @alike(
// CHECK: scf.for {{.*}} iter_args(%{{.+}} = %{{.+}}, %{{.+}} = %{{.+}}, %{{.+}} = %{{.+}}) -> (f32, f32, f32)
// CHECK: llvm.load %{{.+}} {alignment = 16 : i64} : !llvm.ptr<1> -> vector<4xi32>
// CHECK: llvm.load %{{.+}} {alignment = 16 : i64} : !llvm.ptr<1> -> vector<4xi32>
// CHECK: scf.if
// CHECK: llvm.store %{{.+}} {alignment = 16 : i64} : vector<4xi32>, !llvm.ptr<1>
// CHECK-NOT: llvm.load
// CHECK: nvvm.barrier
// CHECK: llvm.intr.sqrt(%{{.+}}) : (f64) -> f64
// CHECK: llvm.mlir.global internal @alike_partials() {{.*}} : !llvm.array<6 x i64>
shed.row_kernel @alike compare element(bf16) tiling(<threads = 64>) {
^bb0(%x: !shed.array<bf16>, %from: !shed.array<i32>, %x_stride: i64,
     %cache: !shed.array<bf16>, %at: !shed.array<i32>, %y: !shed.array<bf16>,
     %to: !shed.array<i32>, %y_stride: i64, %similarity: !shed.array<f32>,
     %width: i64, %flags: i64):
  %c0 = arith.constant 0 : i64
  %stores = arith.cmpi ne, %flags, %c0 : i64
  %ab, %aa, %bb = shed.for_columns %width reduce(add, add, add)
      -> f32, f32, f32 {
  ^bb0(%j: !shed.column):
    %a = shed.read_column %x[%j] : !shed.array<bf16>
    %b = shed.read_column %cache[%j] : !shed.array<bf16>
    scf.if %stores {
      shed.write_column %a, %cache[%j] : !shed.array<bf16>
    }
    %product = arith.mulf %a, %b : f32
    shed.contribute %product, %a, %b : f32, f32, f32
  }
  %aa64 = arith.extf %aa : f32 to f64
  %root = math.sqrt %aa64 : f64
  %root32 = arith.truncf %root : f64 to f32
  shed.write %root32, %similarity[%c0] : !shed.array<f32>
}
