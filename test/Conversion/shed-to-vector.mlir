// REQUIRES: heddle-opt
// RUN: heddle-opt %s --shed-choose-tiles="vector-bytes=64 vector-registers=32" --convert-shed-to-vector | FileCheck %s --check-prefixes=CHECK,FMA
// RUN: heddle-opt %s --shed-choose-tiles="vector-bytes=64 vector-registers=32 bf16-dot=true" --convert-shed-to-vector | FileCheck %s --check-prefixes=CHECK,PAIRS
// RUN: heddle-opt %s --shed-choose-tiles="vector-bytes=64 vector-registers=32 bf16-dot=true fetches-late=true" --convert-shed-to-vector | FileCheck %s --check-prefixes=CHECK,LATE
// RUN: heddle-opt %s --shed-choose-tiles="vector-bytes=64 vector-registers=32 bf16-dot=true bf16-tiles=true" --convert-shed-to-vector | FileCheck %s --check-prefixes=CHECK,TILES
// RUN: not heddle-opt %s --convert-shed-to-vector 2>&1 | FileCheck %s --check-prefix=UNTILED

// UNTILED: has no tiling for a vector machine; run shed-choose-tiles first

// Only upstream dialects are left; the bundle's facts are attributes.
// CHECK-LABEL: func.func @full(
// CHECK-SAME: !llvm.ptr, %{{.+}}: i64, %{{.+}}: i64, %{{.+}}: !llvm.ptr) attributes {heddle.query_rows = 128 : i64, heddle.scratch_bytes = {{[0-9]+}} : i64, heddle.scratch_bytes_per_key = 0 : i64}
// CHECK: vector.shuffle
// LATE-NOT: llvm.intr.prefetch
// CHECK: vector.fma
// LATE-NOT: llvm.intr.prefetch
// CHECK-NOT: shed.
shed.kernel @full attention element(f32) head_dim(64) {
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

// CHECK-LABEL: func.func @half(
// CHECK-SAME: heddle.query_rows = 256
// FMA-NOT: llvm.x86
// FMA: vector.fma
// PAIRS: llvm.x86.avx512bf16.dpbf16ps.512
// TILES-NOT: llvm.intr.prefetch
// TILES: llvm.x86.tileloadd64.internal
// TILES: llvm.x86.tdpbf16ps.internal
// TILES: llvm.x86.tilestored64.internal
// CHECK-NOT: shed.
shed.kernel @half attention element(bf16) head_dim(64) {
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

// Gathered rows are fetched ahead: with matrix tiles two tiles, else one where
// that helps. With matrix tiles K is copied and V interleaved a pair of keys at
// a time. The weights are transposed.
// CHECK-LABEL: func.func @listed(
// CHECK-SAME: heddle.query_rows = 32
// TILES: vector.shuffle {{.*}}[0, 32, 1, 33, 2, 34, 3, 35, 8, 40,
// TILES: "llvm.intr.prefetch"({{.*}}hint = 2 : i32
// TILES: llvm.x86.tdpbf16ps.internal
// TILES: llvm.x86.avx512bf16.cvtne2ps2bf16.512
// TILES: "llvm.intr.prefetch"({{.*}}hint = 2 : i32
// TILES: llvm.x86.tdpbf16ps.internal
// PAIRS-NOT: llvm.intr.prefetch
// LATE: "llvm.intr.prefetch"({{.*}}hint = 3 : i32
// LATE: llvm.x86.avx512bf16.dpbf16ps.512
// LATE: "llvm.intr.prefetch"({{.*}}hint = 3 : i32
// LATE: llvm.x86.avx512bf16.dpbf16ps.512
// CHECK-NOT: shed.
shed.kernel @listed attention element(bf16) head_dim(64) {
  %q = shed.load_queries : !shed.tile<queries, channels, bf16>
  %s = shed.softmax_init : !shed.softmax
  %r = shed.for_keys over #shed.list<0, group = 32> init(%s) : !shed.softmax {
  ^bb0(%keys: !shed.keys, %c: !shed.softmax):
    %k = shed.load_keys %keys : !shed.tile<keys, channels, bf16>
    %v = shed.load_values %keys : !shed.tile<keys, channels, bf16>
    %l = shed.dot %q, %k : !shed.tile<queries, channels, bf16>, !shed.tile<keys, channels, bf16>
    %n = shed.softmax_update %c, %l, %v : !shed.tile<keys, channels, bf16>
    shed.yield %n : !shed.softmax
  }
  shed.store %r
}

// Blocks become a list of keys in scratch, 4 bytes a key; what a later pass
// leaves out takes another 4.
// CHECK-LABEL: func.func @blocks(
// CHECK-SAME: heddle.query_rows = 64
// CHECK-SAME: heddle.scratch_bytes_per_key = 8
// CHECK-NOT: shed.
shed.kernel @blocks attention element(f32) head_dim(64) {
  %q = shed.load_queries : !shed.tile<queries, channels, f32>
  %s = shed.softmax_init : !shed.softmax
  %r = shed.for_keys over #shed.blocks<0, size = 64> init(%s) : !shed.softmax {
  ^bb0(%keys: !shed.keys, %c: !shed.softmax):
    %k = shed.load_keys %keys : !shed.tile<keys, channels, f32>
    %v = shed.load_values %keys : !shed.tile<keys, channels, f32>
    %l = shed.dot %q, %k : !shed.tile<queries, channels, f32>, !shed.tile<keys, channels, f32>
    %n = shed.softmax_update %c, %l, %v : !shed.tile<keys, channels, f32>
    shed.yield %n : !shed.softmax
  }
  %t = shed.for_keys over #shed.sinks<4> skip [#shed.blocks<0, size = 64>] init(%r) : !shed.softmax {
  ^bb0(%keys: !shed.keys, %c: !shed.softmax):
    %k = shed.load_keys %keys : !shed.tile<keys, channels, f32>
    %v = shed.load_values %keys : !shed.tile<keys, channels, f32>
    %l = shed.dot %q, %k : !shed.tile<queries, channels, f32>, !shed.tile<keys, channels, f32>
    %n = shed.softmax_update %c, %l, %v : !shed.tile<keys, channels, f32>
    shed.yield %n : !shed.softmax
  }
  shed.store %t
}

// Sinks of the run time: the bound is the last field of the arguments, and what
// a later pass takes begins behind them.
// CHECK-LABEL: func.func @told(
// CHECK: llvm.getelementptr %arg0[320] {{.*}}i8
// CHECK-NEXT: llvm.load {{.*}} -> i64
// CHECK: llvm.getelementptr %arg0[320] {{.*}}i8
// CHECK-NEXT: llvm.load {{.*}} -> i64
// CHECK-NOT: shed.
shed.kernel @told attention element(f32) head_dim(64) {
  %q = shed.load_queries : !shed.tile<queries, channels, f32>
  %s = shed.softmax_init : !shed.softmax
  %r = shed.for_keys over #shed.sinks<?> init(%s) : !shed.softmax {
  ^bb0(%keys: !shed.keys, %c: !shed.softmax):
    %k = shed.load_keys %keys : !shed.tile<keys, channels, f32>
    %v = shed.load_values %keys : !shed.tile<keys, channels, f32>
    %l = shed.dot %q, %k : !shed.tile<queries, channels, f32>, !shed.tile<keys, channels, f32>
    %n = shed.softmax_update %c, %l, %v : !shed.tile<keys, channels, f32>
    shed.yield %n : !shed.softmax
  }
  %t = shed.for_keys over #shed.window<64> skip [#shed.sinks<?>] init(%r) : !shed.softmax {
  ^bb0(%keys: !shed.keys, %c: !shed.softmax):
    %k = shed.load_keys %keys : !shed.tile<keys, channels, f32>
    %v = shed.load_values %keys : !shed.tile<keys, channels, f32>
    %l = shed.dot %q, %k : !shed.tile<queries, channels, f32>, !shed.tile<keys, channels, f32>
    %m = shed.mask %l, %keys within #shed.window<64>
    %n = shed.softmax_update %c, %m, %v : !shed.tile<keys, channels, f32>
    shed.yield %n : !shed.softmax
  }
  shed.store %t
}
