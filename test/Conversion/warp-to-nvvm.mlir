// REQUIRES: heddle-opt
// RUN: heddle-opt %s --convert-warp-to-nvvm --cse | FileCheck %s
// RUN: not heddle-opt %S/Inputs/undivided.mlir --convert-warp-to-nvvm 2>&1 | FileCheck %s --check-prefix=UNDIVIDED

// UNDIVIDED: 'warp.load' op belongs to no role; run warp-specialize-roles first

// What a pipeline is in nvvm ops and inline PTX, op by op.

// Barriers: 128 threads fill a stage, 4 warps empty it.
// CHECK-LABEL: llvm.func @pipeline
// CHECK: nvvm.mbarrier.init
// CHECK: nvvm.fence.mbarrier.init
// CHECK: nvvm.barrier0
// CHECK: scf.if
// CHECK: nvvm.setmaxregister decrease 40
// The producer waits for the phase before the first: stages are empty at first.
// CHECK: mbarrier.try_wait.parity.shared::cta.b64
// CHECK: nvvm.cp.async.shared.global
// CHECK: cp.async.mbarrier.arrive.noinc.shared::cta.b64
// CHECK: else
// CHECK: nvvm.setmaxregister increase 232
// CHECK: llvm.inline_asm {{.*}}"bar.sync $0, 128;"
// CHECK: mbarrier.try_wait.parity.shared::cta.b64
// CHECK: nvvm.fence.proxy {kind = #nvvm.proxy_kind<async.shared>
// 64 columns of depth are four steps: 32 bytes of a row each.
// CHECK: wgmma.fence.sync.aligned
// CHECK-SAME: add.s64 a, $32, 0;
// CHECK-SAME: setp.ne.b32 p, 0, 0;
// CHECK-SAME: wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16
// CHECK-SAME: add.s64 a, $32, 6;
// CHECK-SAME: wgmma.commit_group.sync.aligned
// CHECK: "wgmma.wait_group.sync.aligned 0;"
// CHECK: @p mbarrier.arrive.shared::cta.b64
// A map is written out for each element that a thread holds.
// CHECK: nvvm.ex2.approx.ftz.f32
// The fragment is a left operand as it is, in registers.
// CHECK: wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {{.*}}, {$32, $33, $34, $35}, b, p, 1, 1, 1;
llvm.func @pipeline(%keys: !llvm.ptr<1>, %n: i32, %stride: i64) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %ring = warp.ring {barriers = 24576 : i64, offset = 8192 : i64, readers = 4 : i64, writers = 128 : i64} : !warp.ring<2, !warp.tile<64, 64, bf16>>
  warp.roles producer registers 40 {
    scf.for %t = %c0 to %n step %c1 : i32 {
      %into = warp.acquire %ring[%t] : !warp.ring<2, !warp.tile<64, 64, bf16>> -> !warp.tile<64, 64, bf16>
      warp.copy %keys[%t] stride(%stride) limit(%n) into %into : !llvm.ptr<1>, !warp.tile<64, 64, bf16>
      warp.publish %ring[%t] : !warp.ring<2, !warp.tile<64, 64, bf16>>
    }
  } consumers 1 registers 232 {
  ^bb0(%group: i32):
    %q = warp.load %keys[%group] stride(%stride) limit(%n) {offset = 0 : i64} : !llvm.ptr<1>, !warp.tile<64, 64, bf16>
    scf.for %t = %c0 to %n step %c1 : i32 {
      %k = warp.await %ring[%t] : !warp.ring<2, !warp.tile<64, 64, bf16>> -> !warp.tile<64, 64, bf16>
      %f = warp.multiply %q, %k transposed : !warp.tile<64, 64, bf16>, !warp.tile<64, 64, bf16> -> !warp.flying<64, held = 0>
      %s = warp.wait %f : !warp.flying<64, held = 0> -> !warp.fragment<64, f32>
      warp.release %ring[%t] : !warp.ring<2, !warp.tile<64, 64, bf16>>
      %e = warp.map(%s) {
      ^bb0(%x: f32, %row: i32, %column: i32):
        %y = math.exp2 %x : f32
        warp.yield %y : f32
      } : (!warp.fragment<64, f32>) -> !warp.fragment<64, f32>
      %p = warp.round %e : !warp.fragment<64, f32> -> !warp.fragment<64, bf16>
      %g = warp.multiply %p, %q : !warp.fragment<64, bf16>, !warp.tile<64, 64, bf16> -> !warp.flying<64, held = 16>
      %o = warp.wait %g : !warp.flying<64, held = 16> -> !warp.fragment<64, f32>
    }
  }
  llvm.return
}

// Sums that were changed behind a wait take the place of those that products left,
// and the words that these read stay theirs: both branches give the same number of
// registers, 32 sums and 4 words, to the next wait.
// CHECK-LABEL: llvm.func @resumed
// CHECK: %[[FLYING:.*]] = llvm.inline_asm {{.*}}wgmma.mma_async.sync.aligned.m64n64k16
// CHECK: %[[NEXT:.*]]:36 = scf.if
// CHECK: %[[THERE:.*]] = llvm.inline_asm {{.*}}wgmma.wait_group.sync.aligned 0;
// CHECK: %[[FIRST:.*]] = llvm.extractvalue %[[THERE]][0]
// CHECK: %[[SCALED:.*]] = arith.mulf %[[FIRST]], %{{.*}} : f32
// CHECK: scf.yield %[[SCALED]],
// CHECK: else
// CHECK: scf.yield
// CHECK: llvm.inline_asm {{.*}}wgmma.wait_group.sync.aligned 0;{{.*}} %[[NEXT]]#0, {{.*}} %[[NEXT]]#35 :
llvm.func @resumed(%keys: !llvm.ptr<1>, %n: i32, %stride: i64, %far: i1, %ratio: f32) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %zero = arith.constant 0.0 : f32
  %ring = warp.ring {barriers = 24576 : i64, offset = 8192 : i64, readers = 4 : i64, writers = 128 : i64} : !warp.ring<2, !warp.tile<64, 64, bf16>>
  warp.roles producer registers 40 {
    scf.for %t = %c0 to %n step %c1 : i32 {
      %into = warp.acquire %ring[%t] : !warp.ring<2, !warp.tile<64, 64, bf16>> -> !warp.tile<64, 64, bf16>
      warp.copy %keys[%t] stride(%stride) limit(%n) into %into : !llvm.ptr<1>, !warp.tile<64, 64, bf16>
      warp.publish %ring[%t] : !warp.ring<2, !warp.tile<64, 64, bf16>>
    }
  } consumers 1 registers 232 {
  ^bb0(%group: i32):
    %none = warp.splat %zero : !warp.fragment<16, f32>
    %p = warp.round %none : !warp.fragment<16, f32> -> !warp.fragment<16, bf16>
    scf.for %t = %c0 to %n step %c1 : i32 {
      %k = warp.await %ring[%t] : !warp.ring<2, !warp.tile<64, 64, bf16>> -> !warp.tile<64, 64, bf16>
      %f0 = warp.multiply %p, %k : !warp.fragment<16, bf16>, !warp.tile<64, 64, bf16> -> !warp.flying<64, held = 4>
      %f1 = scf.if %far -> !warp.flying<64, held = 4> {
        %there = warp.wait %f0 : !warp.flying<64, held = 4> -> !warp.fragment<64, f32>
        %scaled = warp.map(%there) {
        ^bb0(%x: f32, %row: i32, %column: i32):
          %y = arith.mulf %x, %ratio : f32
          warp.yield %y : f32
        } : (!warp.fragment<64, f32>) -> !warp.fragment<64, f32>
        %r = warp.resume %f0 with %scaled : !warp.flying<64, held = 4>, !warp.fragment<64, f32>
        scf.yield %r : !warp.flying<64, held = 4>
      } else {
        scf.yield %f0 : !warp.flying<64, held = 4>
      }
      %sums = warp.wait %f1 : !warp.flying<64, held = 4> -> !warp.fragment<64, f32>
      warp.release %ring[%t] : !warp.ring<2, !warp.tile<64, 64, bf16>>
    }
  }
  llvm.return
}

// One thread has tiles brought in bulk: it says how many bytes are to come, then
// asks for the panel that its block brings to both of the cluster. What was
// brought so needs no fence before products; a stage is released in both. A
// block ends when its two stages, those of the next tiles, are empty, as the other
// one releases them, too.
// CHECK-LABEL: llvm.func @fetched
// CHECK: "barrier.cluster.arrive.relaxed.aligned;
// CHECK: nvvm.setmaxregister decrease 40
// CHECK-NEXT: scf.if
// CHECK: "fence.proxy.tensormap::generic.acquire.sys [$0], 128;
// CHECK: scf.for {{.*}} to %[[N:.+]] step
// CHECK: mbarrier.try_wait.parity.shared::cta.b64
// CHECK: "mbarrier.arrive.expect_tx.shared::cta.b64 _, [$0], 16384;"
// CHECK: "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster [$0], [$1, {$2, $3}], [$4], $5;"
// CHECK-NOT: cp.async.bulk
// CHECK: arith.shrui %[[N]], %
// CHECK: mbarrier.try_wait.parity.shared::cta.b64
// CHECK: %[[NEXT:.+]] = arith.addi %[[N]], %
// CHECK: arith.shrui %[[NEXT]], %
// CHECK: mbarrier.try_wait.parity.shared::cta.b64
// CHECK: nvvm.setmaxregister increase 232
// CHECK: bar.sync
// CHECK: mbarrier.try_wait.parity.shared::cta.b64
// CHECK-NOT: nvvm.fence.proxy
// CHECK: @p mbarrier.arrive.shared::cluster.b64
llvm.func @fetched(%keys: !llvm.ptr<1>, %map: !llvm.ptr<1>, %n: i32, %stride: i64) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %ring = warp.ring {barriers = 49152 : i64, offset = 16384 : i64, readers = 8 : i64, writers = 1 : i64} : !warp.ring<2, !warp.tile<64, 128, bf16>, cluster = 2>
  warp.roles producer registers 40 {
    warp.acquire_map %map : !llvm.ptr<1>
    scf.for %t = %c0 to %n step %c1 : i32 {
      warp.fetch %ring[%t] from %map[%t, %c0] : !warp.ring<2, !warp.tile<64, 128, bf16>, cluster = 2>, !llvm.ptr<1>
    }
    warp.drain %ring[%n] : !warp.ring<2, !warp.tile<64, 128, bf16>, cluster = 2>
  } consumers 1 registers 232 {
  ^bb0(%group: i32):
    %q = warp.load %keys[%group] stride(%stride) limit(%n) {offset = 0 : i64} : !llvm.ptr<1>, !warp.tile<64, 128, bf16>
    scf.for %t = %c0 to %n step %c1 : i32 {
      %k = warp.await %ring[%t] : !warp.ring<2, !warp.tile<64, 128, bf16>, cluster = 2> -> !warp.tile<64, 128, bf16>
      %f = warp.multiply %q, %k transposed : !warp.tile<64, 128, bf16>, !warp.tile<64, 128, bf16> -> !warp.flying<64, held = 0>
      %s = warp.wait %f : !warp.flying<64, held = 0> -> !warp.fragment<64, f32>
      warp.release %ring[%t] : !warp.ring<2, !warp.tile<64, 128, bf16>, cluster = 2>
    }
  } {cluster = 2 : i64}
  llvm.return
}

// A square of four elements is 16 bytes; threads of the warpgroup lie beside each
// other, so columns from 8 on are 2,048 bytes further on, in any block.
// CHECK-LABEL: llvm.func @divided
// CHECK: bar.sync 2, 128;
// CHECK: llvm.store {{.*}} : vector<4xf32>, !llvm.ptr<3>
// CHECK: barrier.cluster.arrive.release.aligned;
// CHECK-SAME: barrier.cluster.wait.acquire.aligned;
// CHECK: mapa.shared::cluster.u32
// CHECK: ld.shared::cluster.v4.f32
llvm.func @divided(%out: !llvm.ptr<1>, %block: i32, %column: i32, %stride: i64) attributes {nvvm.maxntid = array<i32: 256>} {
  %c0 = arith.constant 0 : i32
  %c64 = arith.constant 64 : i32
  %zero = arith.constant 0.0 : f32
  %ring = warp.ring {barriers = 65536 : i64, offset = 0 : i64, readers = 4 : i64, writers = 128 : i64} : !warp.ring<2, !warp.tile<64, 128, bf16>>
  warp.roles producer registers 40 {
    %most = arith.addi %c0, %c64 : i32
  } consumers 1 registers 232 {
  ^bb0(%group: i32):
    %sums = warp.splat %zero : !warp.fragment<128, f32>
    %at = warp.space 32768 over_tiles {offset = 0 : i64}
    warp.put %sums, %at : !warp.fragment<128, f32>
    warp.meet_cluster
    %other = warp.get %at of %block from %column : !warp.fragment<64, f32>
    %rounded = warp.round %other : !warp.fragment<64, f32> -> !warp.fragment<64, bf16>
    warp.store %rounded, %out[%c0] stride(%stride) limit(%c64) : !warp.fragment<64, bf16>, !llvm.ptr<1>
    warp.meet_cluster
  }
  llvm.return
}

// Of an order each warpgroup has a barrier behind that of all, here 4 and 5:
// warpgroup 1 of 2 lets 0 go on at the beginning, which takes it back at the end.
// CHECK-LABEL: llvm.func @order
// CHECK: scf.if
// CHECK: %[[FIRST:.*]] = arith.constant 4 : i32
// CHECK: llvm.inline_asm {{.*}}"bar.arrive $0, 256;", "r,~{memory}" %[[FIRST]]
// CHECK: %[[FIRST:.*]] = arith.constant 4 : i32
// CHECK: %[[OWN:.*]] = arith.addi %{{.*}}, %[[FIRST]]
// CHECK: llvm.inline_asm {{.*}}"bar.sync $0, 256;", "r,~{memory}" %[[OWN]]
// CHECK: %[[AFTER:.*]] = arith.addi %{{.*}}, %c5_i32
// CHECK: %[[NEXT:.*]] = arith.select %{{.*}}, %[[FIRST]], %[[AFTER]]
// CHECK: llvm.inline_asm {{.*}}"bar.arrive $0, 256;", "r,~{memory}" %[[NEXT]]
// CHECK: scf.if
// CHECK: llvm.inline_asm {{.*}}"bar.sync $0, 256;", "r,~{memory}" %[[FIRST]]
llvm.func @order() attributes {nvvm.maxntid = array<i32: 384>} {
  warp.roles producer registers 40 {
    %none = arith.constant 0 : i32
  } consumers 2 registers 232 {
  ^bb0(%group: i32):
    warp.order_begin
    warp.order_wait
    warp.order_arrive
    warp.order_end
  }
  llvm.return
}

// What one row of a warpgroup asks for: its four warps vote at their barrier. Those
// of a warp alone vote without one.
// CHECK-LABEL: llvm.func @votes
// CHECK: nvvm.vote.sync any
// CHECK: llvm.inline_asm {{.*}}bar.red.or.pred p, $2, 128, p;
llvm.func @votes(%one: i1, %to: !llvm.ptr<1>) attributes {nvvm.maxntid = array<i32: 256>} {
  warp.roles producer registers 40 {
    %none = arith.constant 0 : i32
  } consumers 1 registers 232 {
  ^bb0(%group: i32):
    %large = warp.map() {
    ^bb0(%row: i32, %column: i32):
      warp.yield %one : i1
    } : () -> !warp.fragment<1, i1>
    %of_warp = warp.any %large : <1, i1>
    %of_group = warp.any %large of warpgroup : <1, i1>
    %both = arith.andi %of_warp, %of_group : i1
    llvm.store %both, %to : i1, !llvm.ptr<1>
  }
  llvm.return
}
