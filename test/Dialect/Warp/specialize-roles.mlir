// REQUIRES: heddle-opt
// RUN: heddle-opt %s --warp-specialize-roles --warp-verify-pipelines | FileCheck %s
// RUN: split-file %S/Inputs/active.mlir %t && not heddle-opt %t/late.mlir --warp-specialize-roles 2>&1 | FileCheck %s --check-prefix=LATE
// RUN: not heddle-opt %t/meets.mlir --warp-specialize-roles 2>&1 | FileCheck %s --check-prefix=MEETS
// RUN: not heddle-opt %t/idle.mlir --warp-specialize-roles 2>&1 | FileCheck %s --check-prefix=PLACE
// RUN: not heddle-opt %t/idle-meets.mlir --warp-specialize-roles 2>&1 | FileCheck %s --check-prefix=ALONE
// RUN: not heddle-opt %t/more-rows.mlir --warp-specialize-roles 2>&1 | FileCheck %s --check-prefix=ROOM
// RUN: not heddle-opt %t/unread.mlir --warp-specialize-roles 2>&1 | FileCheck %s --check-prefix=UNREAD
// RUN: heddle-opt %s --warp-specialize-roles --canonicalize --warp-verify-pipelines -o /dev/null
// RUN: not heddle-opt %t/other-fetch.mlir --warp-specialize-roles 2>&1 | FileCheck %s --check-prefix=ROOM
// RUN: not heddle-opt %s --warp-specialize-roles --warp-verify-pipelines=shared-of-block=100000 2>&1 | FileCheck %s --check-prefix=SMALL

// LATE: 'warp.active' op does not come before all other ops of its level
// MEETS: 'warp.meet' op waits for all warpgroups, of which only some have work
// ALONE: 'scf.for' op has warpgroups meet in it, of which some are idle
// PLACE: 'warp.idle' op is not in a loop of turns, in front of its loops over tiles
// UNREAD: 'warp.load' op brings a tile that nothing reads
// ROOM: 'warp.load' op has no load of such a tile, or of one of more rows that threads copy, in its place of the first loop; the loops of a kernel share rings
// SMALL: 'warp.roles' op needs 131120 bytes of shared memory; there are 100000 (scores)

// One stream of control becomes two: a warpgroup that only brings tiles, and
// consumers that only compute. The stage of a tile is released right after the
// wait for the products that read it, so it fills again under the softmax.
// CHECK-LABEL: llvm.func @scores
// CHECK-SAME: heddle.shared_bytes = 131120 : i64
// CHECK-SAME: heddle.threads = 384 : i64
// CHECK-SAME: nvvm.maxntid = array<i32: 384>
// CHECK: %[[RING:.*]] = warp.ring {barriers = 131072 : i64, offset = 32768 : i64, readers = 8 : i64, writers = 128 : i64} : <3, <128, 128, bf16>>
// CHECK: warp.roles producer registers 40 {
// CHECK:   scf.for %[[T:[a-z0-9]+]] =
// CHECK:     %[[FIRST:.*]] = arith.shli %[[T]]
// CHECK:     %[[INTO:.*]] = warp.acquire %[[RING]][%[[T]]]
// CHECK:     warp.copy %arg0[%[[FIRST]]] {{.*}} into %[[INTO]]
// CHECK:     warp.publish %[[RING]][%[[T]]]
// CHECK: } consumers 2 registers 232 {
// CHECK: ^bb0(%[[GROUP:.*]]: i32):
// CHECK:   %[[Q:.*]] = warp.load {{.*}}offset = 0
// CHECK:   scf.for %[[T:[a-z0-9]+]] =
// CHECK:     %[[K:.*]] = warp.await %[[RING]][%[[T]]]
// CHECK:     warp.multiply %[[Q]], %[[K]] transposed
// CHECK:     warp.wait
// CHECK-NEXT: warp.release %[[RING]][%[[T]]]
// CHECK:     warp.map
llvm.func @scores(%keys: !llvm.ptr<1>, %queries: !llvm.ptr<1>, %n: i32, %stride: i64)
    attributes {nvvm.kernel, warp.pipeline = #warp.pipeline<consumers = 2, stages = 3, producer_registers = 40, consumer_registers = 232>} {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c7 = arith.constant 7 : i32
  %zero = arith.constant 0.0 : f32
  %group = warp.warpgroup
  %row = arith.shli %group, %c7 : i32
  %q = warp.load %queries[%row] stride(%stride) limit(%n) : !llvm.ptr<1>, !warp.tile<64, 128, bf16>
  %sum = warp.splat %zero : !warp.fragment<1, f32>
  %tiles = arith.shrui %n, %c7 : i32
  %r = scf.for %t = %c0 to %tiles step %c1 iter_args(%c = %sum) -> (!warp.fragment<1, f32>) : i32 {
    %first = arith.shli %t, %c7 : i32
    %k = warp.load %keys[%first] stride(%stride) limit(%n) : !llvm.ptr<1>, !warp.tile<128, 128, bf16>
    %q2 = arith.addi %first, %row : i32
    %f = warp.multiply %q, %k transposed : !warp.tile<64, 128, bf16>, !warp.tile<128, 128, bf16> -> !warp.flying<128, held = 0>
    %s = warp.wait %f : !warp.flying<128, held = 0> -> !warp.fragment<128, f32>
    %w = warp.map(%s) {
    ^bb0(%x: f32, %i: i32, %j: i32):
      %y = math.exp2 %x : f32
      warp.yield %y : f32
    } : (!warp.fragment<128, f32>) -> !warp.fragment<128, f32>
    %m = warp.reduce add %w into %c : !warp.fragment<1, f32> : !warp.fragment<128, f32> -> !warp.fragment<1, f32>
    scf.yield %m : !warp.fragment<1, f32>
  }
  warp.store_column %r, %queries[%row] limit(%n) : !warp.fragment<1, f32>, !llvm.ptr<1>
  llvm.return
}

// With a tensor map, one thread has the tiles fetched, here for both blocks of a
// cluster: their consumers release a stage together.
// CHECK-LABEL: llvm.func @fetched
// CHECK-SAME: heddle.cluster = 2 : i64
// CHECK-SAME: nvvm.cluster_dim = array<i32: 2, 1, 1>
// CHECK: %[[RING:.*]] = warp.ring {{.*}}readers = 8 : i64, writers = 1 : i64} : <2, <128, 128, bf16>, cluster = 2>
// CHECK: warp.roles producer registers 40 {
// CHECK:   warp.acquire_map %[[MAP:.*]] :
// CHECK:   scf.for %[[T:[a-z0-9]+]] =
// CHECK:     %[[FIRST:.*]] = arith.shli %[[T]]
// CHECK-NOT: warp.acquire
// CHECK:     warp.fetch %[[RING]][%[[T]]] from %[[MAP]][%[[FIRST]], %{{.*}}]
// CHECK:   warp.drain %[[RING]]
// CHECK: } consumers 1 registers 232 {
// CHECK:     warp.await %[[RING]]
// CHECK:     warp.release %[[RING]]
// CHECK: } {cluster = 2 : i64}
llvm.func @fetched(%keys: !llvm.ptr<1>, %map: !llvm.ptr<1>, %n: i32, %stride: i64)
    attributes {nvvm.kernel, warp.pipeline = #warp.pipeline<consumers = 1, stages = 2, producer_registers = 40, consumer_registers = 232, cluster = 2>} {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c7 = arith.constant 7 : i32
  %q = warp.load %keys[%c0] stride(%stride) limit(%n) : !llvm.ptr<1>, !warp.tile<64, 128, bf16>
  %tiles = arith.shrui %n, %c7 : i32
  scf.for %t = %c0 to %tiles step %c1 : i32 {
    %first = arith.shli %t, %c7 : i32
    %k = warp.load %keys[%first] stride(%stride) limit(%n) map(%map[%c0] : !llvm.ptr<1>) : !llvm.ptr<1>, !warp.tile<128, 128, bf16>
    %f = warp.multiply %q, %k transposed : !warp.tile<64, 128, bf16>, !warp.tile<128, 128, bf16> -> !warp.flying<128, held = 0>
    %s = warp.wait %f : !warp.flying<128, held = 0> -> !warp.fragment<128, f32>
  }
  llvm.return
}

// Loops one after the other share rings, and tile numbers go on counting, on both
// sides.
// CHECK-LABEL: llvm.func @loops
// CHECK: %[[RING:.*]] = warp.ring
// CHECK-NOT: warp.ring
// CHECK: warp.roles producer
// CHECK:   scf.for %[[T:[a-z0-9]+]] = %{{.*}} to %[[TILES:.*]] step
// CHECK:     warp.acquire %[[RING]][%[[T]]]
// CHECK:   %[[BEFORE:.*]] = arith.maxsi %[[TILES]], %{{.*}}
// CHECK:   scf.for %[[T:[a-z0-9]+]] =
// CHECK:     %[[NUMBER:.*]] = arith.addi %[[T]], %[[BEFORE]]
// CHECK:     warp.acquire %[[RING]][%[[NUMBER]]]
// CHECK:     warp.publish %[[RING]][%[[NUMBER]]]
// CHECK: } consumers 1
// CHECK:   scf.for %[[T:[a-z0-9]+]] = %{{.*}} to %[[TILES]] step
// CHECK:     warp.await %[[RING]][%[[T]]]
// CHECK:   %[[BEFORE:.*]] = arith.maxsi %[[TILES]], %{{.*}}
// CHECK:   scf.for %[[T:[a-z0-9]+]] =
// CHECK:     %[[NUMBER:.*]] = arith.addi %[[T]], %[[BEFORE]]
// CHECK:     warp.await %[[RING]][%[[NUMBER]]]
// CHECK:     warp.release %[[RING]][%[[NUMBER]]]
llvm.func @loops(%keys: !llvm.ptr<1>, %n: i32, %stride: i64)
    attributes {nvvm.kernel, warp.pipeline = #warp.pipeline<consumers = 1, stages = 2, producer_registers = 40, consumer_registers = 232>} {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c7 = arith.constant 7 : i32
  %q = warp.load %keys[%c0] stride(%stride) limit(%n) : !llvm.ptr<1>, !warp.tile<64, 128, bf16>
  scf.for %t = %c0 to %n step %c1 : i32 {
    %k = warp.load %keys[%t] stride(%stride) limit(%n) : !llvm.ptr<1>, !warp.tile<128, 128, bf16>
    %f = warp.multiply %q, %k transposed : !warp.tile<64, 128, bf16>, !warp.tile<128, 128, bf16> -> !warp.flying<128, held = 0>
    %s = warp.wait %f : !warp.flying<128, held = 0> -> !warp.fragment<128, f32>
  }
  %more = arith.shrui %n, %c7 : i32
  scf.for %t = %c0 to %more step %c1 : i32 {
    %first = arith.shli %t, %c7 : i32
    %k = warp.load %keys[%first] stride(%stride) limit(%n) : !llvm.ptr<1>, !warp.tile<128, 128, bf16>
    %f = warp.multiply %q, %k transposed : !warp.tile<64, 128, bf16>, !warp.tile<128, 128, bf16> -> !warp.flying<128, held = 0>
    %s = warp.wait %f : !warp.flying<128, held = 0> -> !warp.fragment<128, f32>
  }
  llvm.return
}

// With one ring the loads of a loop have its stages in turns: the tile of keys of
// turn t is number 2 t, that of values 2 t + 1, and a stage is free for the next
// values as soon as products have read the keys.
// CHECK-LABEL: llvm.func @one_ring
// CHECK: %[[RING:.*]] = warp.ring {{.*}}loads = 2 : i64{{.*}} : <3, <64, 128, bf16>>
// CHECK-NOT: warp.ring
// CHECK: warp.roles producer
// CHECK:   scf.for %[[T:[a-z0-9]+]] =
// CHECK:     %[[FIRST:.*]] = arith.muli %[[T]], %c2
// CHECK:     %[[K:.*]] = arith.addi %[[FIRST]], %c0
// CHECK:     warp.acquire %[[RING]][%[[K]]]
// CHECK:     warp.publish %[[RING]][%[[K]]]
// CHECK:     %[[AGAIN:.*]] = arith.muli %[[T]], %c2
// CHECK:     %[[V:.*]] = arith.addi %[[AGAIN]], %c1
// CHECK:     warp.acquire %[[RING]][%[[V]]]
// CHECK:     warp.publish %[[RING]][%[[V]]]
// CHECK: } consumers 2
// CHECK:     warp.await %[[RING]]
// CHECK:     warp.wait
// CHECK-NEXT: warp.release %[[RING]]
// CHECK:     warp.await %[[RING]]
// CHECK:     warp.wait
// CHECK-NEXT: warp.release %[[RING]]
llvm.func @one_ring(%keys: !llvm.ptr<1>, %n: i32, %stride: i64)
    attributes {nvvm.kernel, warp.pipeline = #warp.pipeline<consumers = 2, stages = 3, producer_registers = 40, consumer_registers = 232, one_ring = true>} {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %zero = arith.constant 0.0 : f32
  %none = warp.splat %zero : !warp.fragment<128, f32>
  %q = warp.load %keys[%c0] stride(%stride) limit(%n) : !llvm.ptr<1>, !warp.tile<64, 128, bf16>
  %sums = scf.for %t = %c0 to %n step %c1 iter_args(%sum = %none) -> (!warp.fragment<128, f32>) : i32 {
    %k = warp.load %keys[%t] stride(%stride) limit(%n) : !llvm.ptr<1>, !warp.tile<64, 128, bf16>
    %v = warp.load %keys[%t] stride(%stride) limit(%n) : !llvm.ptr<1>, !warp.tile<64, 128, bf16>
    %f = warp.multiply %q, %k transposed : !warp.tile<64, 128, bf16>, !warp.tile<64, 128, bf16> -> !warp.flying<64, held = 0>
    %s = warp.wait %f : !warp.flying<64, held = 0> -> !warp.fragment<64, f32>
    %p = warp.round %s : !warp.fragment<64, f32> -> !warp.fragment<64, bf16>
    %g = warp.multiply %p, %v plus %sum : !warp.fragment<128, f32> : !warp.fragment<64, bf16>, !warp.tile<64, 128, bf16> -> !warp.flying<128, held = 16>
    %o = warp.wait %g : !warp.flying<128, held = 16> -> !warp.fragment<128, f32>
    scf.yield %o : !warp.fragment<128, f32>
  }
  llvm.return
}

// A loop over tiles in a loop of turns: both roles take the turns, and carry how
// many tiles there were. Memory that consumers share lies behind their tiles.
// CHECK-LABEL: llvm.func @turns
// CHECK-SAME: heddle.shared_bytes = 74784 : i64
// CHECK: %[[TILES:.*]] = arith.shrui %arg3
// CHECK: %[[RING:.*]] = warp.ring {barriers = 74752 : i64, offset = 41984 : i64,
// CHECK: warp.roles producer registers 40 {
// CHECK:   scf.for %[[TURN:[a-z0-9]+]] = %{{.*}} to %arg2 {{.*}} iter_args(%[[BEFORE:[a-z0-9]+]] = %{{.*}}) -> (i32)
// CHECK:     %[[ROW:.*]] = arith.shli %[[TURN]]
// CHECK:     scf.for %[[T:[a-z0-9]+]] = %{{.*}} to %[[TILES]]
// CHECK:       %[[NUMBER:.*]] = arith.addi %[[T]], %[[BEFORE]]
// CHECK:       warp.acquire %[[RING]][%[[NUMBER]]]
// CHECK:     %[[MOST:.*]] = arith.maxsi %[[TILES]], %{{.*}}
// CHECK:     %[[ALL:.*]] = arith.addi %[[BEFORE]], %[[MOST]]
// CHECK:     scf.yield %[[ALL]]
// CHECK: } consumers 2 registers 232 {
// CHECK:   scf.for %[[TURN:[a-z0-9]+]] = %{{.*}} to %arg2 {{.*}} iter_args(%[[BEFORE:[a-z0-9]+]] = %{{.*}}) -> (i32)
// CHECK:     warp.load {{.*}}offset = 0
// CHECK:     scf.for %[[T:[a-z0-9]+]] = %{{.*}} to %[[TILES]]
// CHECK:       %[[NUMBER:.*]] = arith.addi %[[T]], %[[BEFORE]]
// CHECK:       warp.await %[[RING]][%[[NUMBER]]]
// CHECK:     warp.meet
// CHECK:     warp.space 8464 {offset = 32768 : i64}
llvm.func @turns(%keys: !llvm.ptr<1>, %queries: !llvm.ptr<1>, %many: i32, %n: i32, %stride: i64)
    attributes {nvvm.kernel, warp.pipeline = #warp.pipeline<consumers = 2, stages = 2, producer_registers = 40, consumer_registers = 232>} {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c6 = arith.constant 6 : i32
  %tiles = arith.shrui %n, %c6 : i32
  scf.for %turn = %c0 to %many step %c1 : i32 {
    %group = warp.warpgroup
    %q = warp.load %queries[%group] stride(%stride) limit(%n) : !llvm.ptr<1>, !warp.tile<64, 128, bf16>
    %row = arith.shli %turn, %c6 : i32
    scf.for %t = %c0 to %tiles step %c1 : i32 {
      %first = arith.addi %row, %t : i32
      %k = warp.load %keys[%first] stride(%stride) limit(%n) : !llvm.ptr<1>, !warp.tile<64, 128, bf16>
      %f = warp.multiply %k, %q transposed : !warp.tile<64, 128, bf16>, !warp.tile<64, 128, bf16> -> !warp.flying<64, held = 0>
      %s = warp.wait %f : !warp.flying<64, held = 0> -> !warp.fragment<64, f32>
    }
    warp.meet
    %at = warp.space 8464
  }
  llvm.return
}

// Of the warpgroups that compute only some have work, here as many as the
// argument says: a stage is empty when these have released it, and the others
// end at once. Rows are of two matrices of a batch, 32 of each.
// CHECK-LABEL: llvm.func @some_have_work
// CHECK-SAME: %[[COUNT:[a-z0-9]+]]: i32
// CHECK: %[[RING:.*]] = warp.ring active(%[[COUNT]]) {{.*}}readers = 12 : i64
// CHECK-NOT: warp.active
// CHECK: warp.roles producer registers 32 {
// CHECK: } consumers 3 active(%[[COUNT]]) registers 160 {
// CHECK:   warp.load {{.*}} batch(%{{.*}}, %{{.*}}) of 32
// CHECK:   warp.store_column {{.*}} batch(%{{.*}}, %{{.*}}) of 32
llvm.func @some_have_work(%keys: !llvm.ptr<1>, %count: i32, %n: i32, %stride: i64)
    attributes {nvvm.kernel, warp.pipeline = #warp.pipeline<consumers = 3, stages = 2, producer_registers = 32, consumer_registers = 160>} {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c7 = arith.constant 7 : i32
  %zero = arith.constant 0.0 : f32
  warp.active %count
  %q = warp.load %keys[%c0] stride(%stride) limit(%n) batch(%n, %stride) of 32 : !llvm.ptr<1>, !warp.tile<64, 128, bf16>
  %sum = warp.splat %zero : !warp.fragment<1, f32>
  %r = scf.for %t = %c0 to %n step %c1 iter_args(%c = %sum) -> (!warp.fragment<1, f32>) : i32 {
    %first = arith.shli %t, %c7 : i32
    %k = warp.load %keys[%first] stride(%stride) limit(%n) : !llvm.ptr<1>, !warp.tile<128, 128, bf16>
    %f = warp.multiply %q, %k transposed : !warp.tile<64, 128, bf16>, !warp.tile<128, 128, bf16> -> !warp.flying<128, held = 0>
    %s = warp.wait %f : !warp.flying<128, held = 0> -> !warp.fragment<128, f32>
    %m = warp.reduce add %s into %c : !warp.fragment<1, f32> : !warp.fragment<128, f32> -> !warp.fragment<1, f32>
    scf.yield %m : !warp.fragment<1, f32>
  }
  warp.store_column %r, %keys[%c0] limit(%n) batch(%n, %stride) of 32 : !warp.fragment<1, f32>, !llvm.ptr<1>
  llvm.return
}

// In a turn a warpgroup may have no rows: it computes none of the turn's tiles, but
// waits for each and releases it in a loop behind the one that computes, so that
// the ring goes on for the others. Its lanes meet before one of them releases.
// CHECK-LABEL: llvm.func @idle
// CHECK: %[[RING:.*]] = warp.ring
// CHECK: } consumers 3 registers 160 {
// CHECK: ^bb0(%[[GROUP:.*]]: i32):
// CHECK:   scf.for %{{.*}} iter_args(%[[BEFORE:.*]] = %{{.*}})
// CHECK:     %[[IDLE:.*]] = arith.cmpi sge, %[[GROUP]], %[[ROWS:[a-z0-9]+]]
// CHECK-NOT: warp.idle
// CHECK:     %[[OWN:.*]] = arith.select %[[IDLE]], %{{.*}}, %[[N:[a-z0-9]+]]
// CHECK:     scf.for %{{[a-z0-9]+}} = %{{.*}} to %[[OWN]]
// CHECK:       warp.multiply
// CHECK:     scf.for %[[T:[a-z0-9]+]] = %[[OWN]] to %[[N]]
// CHECK:       %[[TILE:.*]] = arith.addi %[[T]], %[[BEFORE]]
// CHECK:       warp.await %[[RING]][%[[TILE]]]
// CHECK:       nvvm.bar.warp.sync
// CHECK-NEXT:  warp.release %[[RING]][%[[TILE]]]
// CHECK:     warp.store_column
llvm.func @idle(%keys: !llvm.ptr<1>, %rows: i32, %n: i32, %turns: i32, %stride: i64)
    attributes {nvvm.kernel, warp.pipeline = #warp.pipeline<consumers = 3, stages = 2, producer_registers = 32, consumer_registers = 160>} {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c7 = arith.constant 7 : i32
  %zero = arith.constant 0.0 : f32
  scf.for %turn = %c0 to %turns step %c1 : i32 {
    %group = warp.warpgroup
    %none = arith.cmpi sge, %group, %rows : i32
    warp.idle %none
    %q = warp.load %keys[%group] stride(%stride) limit(%n) : !llvm.ptr<1>, !warp.tile<64, 128, bf16>
    %sum = warp.splat %zero : !warp.fragment<1, f32>
    %r = scf.for %t = %c0 to %n step %c1 iter_args(%c = %sum) -> (!warp.fragment<1, f32>) : i32 {
      %first = arith.shli %t, %c7 : i32
      %k = warp.load %keys[%first] stride(%stride) limit(%n) : !llvm.ptr<1>, !warp.tile<128, 128, bf16>
      %f = warp.multiply %q, %k transposed : !warp.tile<64, 128, bf16>, !warp.tile<128, 128, bf16> -> !warp.flying<128, held = 0>
      %s = warp.wait %f : !warp.flying<128, held = 0> -> !warp.fragment<128, f32>
      %m = warp.reduce add %s into %c : !warp.fragment<1, f32> : !warp.fragment<128, f32> -> !warp.fragment<1, f32>
      scf.yield %m : !warp.fragment<1, f32>
    }
    warp.store_column %r, %keys[%group] limit(%n) : !warp.fragment<1, f32>, !llvm.ptr<1>
  }
  llvm.return
}

// What is loaded once a turn has a ring of its own where the pipeline has stages
// for it: queries of the next turn come while those of this one are multiplied.
// Turns have tiles in different numbers. Each warpgroup reads its part.
// CHECK-LABEL: llvm.func @queries
// CHECK: %[[QUERIES:.*]] = warp.ring {barriers = 98304 : i64, offset = 0 : i64, {{.*}}} : <2, <128, 128, bf16>>
// CHECK: %[[RING:.*]] = warp.ring {barriers = 98336 : i64, offset = 65536 : i64, {{.*}}} : <2, <64, 128, bf16>>
// CHECK: warp.roles producer registers 40 {
// CHECK:   scf.for %[[TURN:[a-z0-9]+]] =
// CHECK:     %[[Q:.*]] = warp.acquire %[[QUERIES]][%[[TURN]]]
// CHECK:     warp.copy {{.*}} into %[[Q]]
// CHECK:     warp.publish %[[QUERIES]][%[[TURN]]]
// CHECK:     scf.for
// CHECK:       warp.acquire %[[RING]]
// CHECK: } consumers 2 registers 232 {
// CHECK: ^bb0(%[[GROUP:.*]]: i32):
// CHECK:   scf.for %[[TURN:[a-z0-9]+]] =
// CHECK:     %[[FROM:.*]] = arith.shli %[[GROUP]]
// CHECK:     %[[Q:.*]] = warp.await %[[QUERIES]][%[[TURN]]]
// CHECK:     scf.for
// CHECK:       %[[K:.*]] = warp.await %[[RING]]
// CHECK:       warp.multiply %[[Q]] from %[[FROM]], %[[K]] transposed
// CHECK:     }
// CHECK:     nvvm.bar.warp.sync
// CHECK-NEXT: warp.release %[[QUERIES]][%[[TURN]]]
llvm.func @queries(%keys: !llvm.ptr<1>, %queries: !llvm.ptr<1>, %many: i32, %n: i32, %stride: i64)
    attributes {nvvm.kernel, warp.pipeline = #warp.pipeline<consumers = 2, stages = 2, producer_registers = 40, consumer_registers = 232, turn_stages = 2>} {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c6 = arith.constant 6 : i32
  scf.for %turn = %c0 to %many step %c1 : i32 {
    %group = warp.warpgroup
    %from = arith.shli %group, %c6 : i32
    %row = arith.shli %turn, %c6 : i32
    %q = warp.load %queries[%row] stride(%stride) limit(%n) : !llvm.ptr<1>, !warp.tile<128, 128, bf16>
    %tiles = arith.addi %turn, %n : i32
    scf.for %t = %c0 to %tiles step %c1 : i32 {
      %k = warp.load %keys[%t] stride(%stride) limit(%n) : !llvm.ptr<1>, !warp.tile<64, 128, bf16>
      %f = warp.multiply %q from %from, %k transposed : !warp.tile<128, 128, bf16>, !warp.tile<64, 128, bf16> -> !warp.flying<64, held = 0>
      %s = warp.wait %f : !warp.flying<64, held = 0> -> !warp.fragment<64, f32>
    }
  }
  llvm.return
}
