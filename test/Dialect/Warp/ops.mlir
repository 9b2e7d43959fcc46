// REQUIRES: heddle-opt
// RUN: heddle-opt %s | heddle-opt | FileCheck %s
// RUN: heddle-opt %s --mlir-print-op-generic | heddle-opt | FileCheck %s

// Fragments: a map is written once for all elements; an operand of one column
// gives the value of the row.
// CHECK-LABEL: func.func @softmax
func.func @softmax(%logits: !warp.fragment<64, f32>, %sum: !warp.fragment<1, f32>)
    -> (!warp.fragment<64, bf16>, !warp.fragment<1, f32>) {
  // CHECK: warp.reduce max %{{.*}} : <64, f32> -> <1, f32>
  %part = warp.reduce max %logits : !warp.fragment<64, f32> -> !warp.fragment<1, f32>
  // CHECK: warp.combine max
  %most = warp.combine max %part : !warp.fragment<1, f32>
  // CHECK: warp.map(%{{.*}}, %{{.*}}) {
  // CHECK-NEXT: ^bb0(%{{.*}}: f32, %{{.*}}: f32, %{{.*}}: i32, %{{.*}}: i32):
  %weights = warp.map(%logits, %most) {
  ^bb0(%logit: f32, %top: f32, %row: i32, %column: i32):
    %0 = arith.subf %logit, %top : f32
    %1 = math.exp2 %0 : f32
    warp.yield %1 : f32
  } : (!warp.fragment<64, f32>, !warp.fragment<1, f32>) -> !warp.fragment<64, f32>
  // CHECK: warp.reduce add %{{.*}} into %{{.*}} : !warp.fragment<1, f32> : <64, f32> -> <1, f32>
  %all = warp.reduce add %weights into %sum : !warp.fragment<1, f32> : !warp.fragment<64, f32> -> !warp.fragment<1, f32>
  // CHECK: warp.round
  %rounded = warp.round %weights : !warp.fragment<64, f32> -> !warp.fragment<64, bf16>
  return %rounded, %all : !warp.fragment<64, bf16>, !warp.fragment<1, f32>
}

// Products fly until the wait; those that add to others carry what these read.
// CHECK-LABEL: func.func @products
func.func @products(%q: !warp.tile<64, 128, bf16>, %k: !warp.tile<128, 128, bf16>,
                    %p: !warp.fragment<64, bf16>) -> (!warp.fragment<128, f32>, !warp.fragment<128, f32>) {
  // CHECK: warp.multiply %{{.*}}, %{{.*}} transposed : {{.*}} -> <128, held = 0>
  %s = warp.multiply %q, %k transposed : !warp.tile<64, 128, bf16>, !warp.tile<128, 128, bf16> -> !warp.flying<128, held = 0>
  %logits = warp.wait %s : !warp.flying<128, held = 0> -> !warp.fragment<128, f32>
  %f0 = warp.multiply %p, %k : !warp.fragment<64, bf16>, !warp.tile<128, 128, bf16> -> !warp.flying<128, held = 16>
  // CHECK: warp.multiply %{{.*}}, %{{.*}} from 64 plus %{{.*}} : !warp.flying<128, held = 16> : {{.*}} -> <128, held = 32>
  %f1 = warp.multiply %p, %k from 64 plus %f0 : !warp.flying<128, held = 16> : !warp.fragment<64, bf16>, !warp.tile<128, 128, bf16> -> !warp.flying<128, held = 32>
  %context = warp.wait %f1 : !warp.flying<128, held = 32> -> !warp.fragment<128, f32>
  return %logits, %context : !warp.fragment<128, f32>, !warp.fragment<128, f32>
}

// Where one branch waits for products and changes their sums, both give products.
// CHECK-LABEL: func.func @scaled_on_the_way
func.func @scaled_on_the_way(%far: i1, %v: !warp.tile<128, 128, bf16>,
                             %p: !warp.fragment<64, bf16>, %ratio: !warp.fragment<1, f32>)
    -> !warp.fragment<128, f32> {
  %f0 = warp.multiply %p, %v : !warp.fragment<64, bf16>, !warp.tile<128, 128, bf16> -> !warp.flying<128, held = 16>
  %f1 = scf.if %far -> !warp.flying<128, held = 16> {
    %s = warp.wait %f0 : !warp.flying<128, held = 16> -> !warp.fragment<128, f32>
    %scaled = warp.map(%s, %ratio) {
    ^bb0(%sum: f32, %by: f32, %row: i32, %column: i32):
      %0 = arith.mulf %sum, %by : f32
      warp.yield %0 : f32
    } : (!warp.fragment<128, f32>, !warp.fragment<1, f32>) -> !warp.fragment<128, f32>
    // CHECK: warp.resume %{{.*}} with %{{.*}} : <128, held = 16>, <128, f32>
    %r = warp.resume %f0 with %scaled : !warp.flying<128, held = 16>, !warp.fragment<128, f32>
    scf.yield %r : !warp.flying<128, held = 16>
  } else {
    scf.yield %f0 : !warp.flying<128, held = 16>
  }
  %sums = warp.wait %f1 : !warp.flying<128, held = 16> -> !warp.fragment<128, f32>
  return %sums : !warp.fragment<128, f32>
}

// Numbers that lists in memory have, and how many of them are below others.
// CHECK-LABEL: func.func @lists
func.func @lists(%list: !llvm.ptr<1>, %n: i32, %indices: !warp.fragment<64, i32>,
                 %bounds: !warp.fragment<1, i32>) {
  // CHECK: warp.read %{{.*}}[%{{.*}}] of i16 : <1>, <64, i32>
  %0 = warp.read %list[%indices] of i16 : !llvm.ptr<1>, !warp.fragment<64, i32>
  // CHECK: warp.count_below %{{.*}} count(%{{.*}}) %{{.*}} : <1>, <1, i32>
  %1 = warp.count_below %list count(%n) %bounds : !llvm.ptr<1>, !warp.fragment<1, i32>
  return
}

// Sums of products can be taken along either side: here each row is a key, the
// columns are query rows with a log-sum-exp each. A tile of 128 keys is two left
// operands.
// CHECK-LABEL: func.func @columns
func.func @columns(%k: !warp.tile<128, 128, bf16>, %q: !warp.tile<64, 128, bf16>,
                   %lse: !llvm.ptr<1>, %row: i32, %n: i32, %fill: f32, %less: i1) {
  // CHECK: warp.read_columns %{{.*}}[%{{.*}}] limit(%{{.*}}) fill(%{{.*}}) : <1>, <64, f32>
  %0 = warp.read_columns %lse[%row] limit(%n) fill(%fill) : !llvm.ptr<1>, !warp.fragment<64, f32>
  // CHECK: warp.negate %{{.*}} from %[[FROM:.*]] if %{{.*}} : <128, 128, bf16>
  %from = arith.constant 64 : i32
  warp.negate %k from %from if %less : !warp.tile<128, 128, bf16>
  // CHECK: warp.multiply %{{.*}} from %[[FROM]], %{{.*}} transposed : {{.*}} -> <64, held = 0>
  %1 = warp.multiply %k from %from, %q transposed : !warp.tile<128, 128, bf16>, !warp.tile<64, 128, bf16> -> !warp.flying<64, held = 0>
  return
}

// What the warpgroups that compute share: memory, and a place to meet.
// CHECK-LABEL: func.func @together
func.func @together() -> i32 {
  // CHECK: %[[AT:.*]] = warp.space 8464
  %at = warp.space 8464
  // CHECK: warp.order_begin
  // CHECK-NEXT: warp.order_wait
  // CHECK-NEXT: warp.order_arrive
  // CHECK-NEXT: warp.order_end
  warp.order_begin
  warp.order_wait
  warp.order_arrive
  warp.order_end
  // CHECK: warp.meet
  warp.meet
  return %at : i32
}

// What the blocks of a cluster add up: each puts its sums where its tiles lay,
// and reads some columns of the others'.
// CHECK-LABEL: func.func @divided
func.func @divided(%sums: !warp.fragment<128, f32>, %block: i32, %column: i32) -> !warp.fragment<32, f32> {
  // CHECK: %[[AT:.*]] = warp.space 32768 over_tiles
  %at = warp.space 32768 over_tiles
  // CHECK: warp.put %{{.*}}, %[[AT]] : <128, f32>
  warp.put %sums, %at : !warp.fragment<128, f32>
  // CHECK: warp.meet_cluster
  warp.meet_cluster
  // CHECK: warp.get %[[AT]] of %{{.*}} from %{{.*}} : <32, f32>
  %other = warp.get %at of %block from %column : !warp.fragment<32, f32>
  warp.meet_cluster
  return %other : !warp.fragment<32, f32>
}

// A ring whose tiles are brought in bulk, for two blocks at once. The tensor map
// tells of the same rows as the base, as columns of a matrix of all heads.
// CHECK-LABEL: func.func @fetched
func.func @fetched(%map: !llvm.ptr<1>, %keys: !llvm.ptr<1>, %row: i32, %column: i32, %stride: i64) {
  // CHECK: warp.load %{{.*}} batch(%{{.*}}, %{{.*}}) in_turns : <1>, <64, 128, bf16>
  %q = warp.load %keys[%row] stride(%stride) limit(%row) batch(%row, %stride) in_turns : !llvm.ptr<1>, !warp.tile<64, 128, bf16>
  // CHECK: warp.load %{{.*}} map(%{{.*}}[%{{.*}}] : !llvm.ptr<1>) : <1>, <128, 128, bf16>
  %k = warp.load %keys[%row] stride(%stride) limit(%row) map(%map[%column] : !llvm.ptr<1>) : !llvm.ptr<1>, !warp.tile<128, 128, bf16>
  // CHECK: warp.ring {{.*}} : <2, <128, 128, bf16>, cluster = 2>
  %ring = warp.ring {barriers = 65536 : i64, offset = 0 : i64, readers = 8 : i64, writers = 1 : i64} : !warp.ring<2, !warp.tile<128, 128, bf16>, cluster = 2>
  // CHECK: warp.acquire_map
  warp.acquire_map %map : !llvm.ptr<1>
  // CHECK: warp.fetch %{{.*}}[%{{.*}}] from %{{.*}}[%{{.*}}, %{{.*}}]
  warp.fetch %ring[%row] from %map[%row, %column] : !warp.ring<2, !warp.tile<128, 128, bf16>, cluster = 2>, !llvm.ptr<1>
  return
}
