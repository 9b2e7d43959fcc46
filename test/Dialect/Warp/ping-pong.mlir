// REQUIRES: heddle-opt
// RUN: split-file %s %t && heddle-opt %t/good.mlir --warp-ping-pong --warp-verify-pipelines | FileCheck %s
// RUN: not heddle-opt %t/branch.mlir --warp-ping-pong 2>&1 | FileCheck %s --check-prefix=BRANCH

// A warpgroup starts products when it is next, those that it waits for together
// in one go, and lets the other one start its own before it waits.
// CHECK-LABEL: llvm.func @attention
// CHECK: consumers 2 registers 232 {
// CHECK: warp.order_begin
// CHECK-NEXT: scf.for
// CHECK: warp.await
// CHECK-NEXT: warp.order_wait
// CHECK-NEXT: warp.multiply
// CHECK-NEXT: warp.order_arrive
// CHECK-NEXT: warp.wait
// CHECK-NEXT: warp.round
// CHECK-NEXT: warp.order_wait
// CHECK-NEXT: warp.multiply
// CHECK-NEXT: warp.multiply
// CHECK-NEXT: warp.order_arrive
// CHECK-NEXT: warp.wait
// CHECK-NEXT: warp.release
// CHECK-NEXT: }
// CHECK-NEXT: warp.order_end

// RUN: not heddle-opt %t/top.mlir --warp-ping-pong 2>&1 | FileCheck %s --check-prefix=TOP
// TOP: 'warp.multiply' op is in no loop; products in order (ping_pong) are of loops over tiles

// BRANCH: 'warp.multiply' op is in scf.if, which not all warpgroups need come to; they start products in order (ping_pong)

//--- good.mlir
llvm.func @attention(%keys: !llvm.ptr<1>, %n: i32, %some: i1, %stride: i64) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %ring = warp.ring {barriers = 65536 : i64, offset = 32768 : i64, readers = 8 : i64, writers = 128 : i64} : !warp.ring<2, !warp.tile<64, 128, bf16>>
  warp.roles producer registers 40 {
    scf.for %t = %c0 to %n step %c1 : i32 {
      %into = warp.acquire %ring[%t] : !warp.ring<2, !warp.tile<64, 128, bf16>> -> !warp.tile<64, 128, bf16>
      warp.copy %keys[%t] stride(%stride) limit(%n) into %into : !llvm.ptr<1>, !warp.tile<64, 128, bf16>
      warp.publish %ring[%t] : !warp.ring<2, !warp.tile<64, 128, bf16>>
    }
  } consumers 2 ping_pong registers 232 {
  ^bb0(%group: i32):
    %q = warp.load %keys[%group] stride(%stride) limit(%n) {offset = 0 : i64} : !llvm.ptr<1>, !warp.tile<64, 128, bf16>
    scf.for %t = %c0 to %n step %c1 : i32 {
      %k = warp.await %ring[%t] : !warp.ring<2, !warp.tile<64, 128, bf16>> -> !warp.tile<64, 128, bf16>
      %f = warp.multiply %q, %k transposed : !warp.tile<64, 128, bf16>, !warp.tile<64, 128, bf16> -> !warp.flying<64, held = 0>
      %s = warp.wait %f : !warp.flying<64, held = 0> -> !warp.fragment<64, f32>
      %w = warp.round %s : !warp.fragment<64, f32> -> !warp.fragment<64, bf16>
      %f0 = warp.multiply %w, %k : !warp.fragment<64, bf16>, !warp.tile<64, 128, bf16> -> !warp.flying<128, held = 16>
      %f1 = warp.multiply %w, %k plus %f0 : !warp.flying<128, held = 16> : !warp.fragment<64, bf16>, !warp.tile<64, 128, bf16> -> !warp.flying<128, held = 32>
      %c = warp.wait %f1 : !warp.flying<128, held = 32> -> !warp.fragment<128, f32>
      warp.release %ring[%t] : !warp.ring<2, !warp.tile<64, 128, bf16>>
    }
  }
  llvm.return
}

//--- branch.mlir
llvm.func @branches(%keys: !llvm.ptr<1>, %n: i32, %some: i1, %stride: i64) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %ring = warp.ring {barriers = 65536 : i64, offset = 32768 : i64, readers = 8 : i64, writers = 128 : i64} : !warp.ring<2, !warp.tile<64, 128, bf16>>
  warp.roles producer registers 40 {
    scf.for %t = %c0 to %n step %c1 : i32 {
      %into = warp.acquire %ring[%t] : !warp.ring<2, !warp.tile<64, 128, bf16>> -> !warp.tile<64, 128, bf16>
      warp.copy %keys[%t] stride(%stride) limit(%n) into %into : !llvm.ptr<1>, !warp.tile<64, 128, bf16>
      warp.publish %ring[%t] : !warp.ring<2, !warp.tile<64, 128, bf16>>
    }
  } consumers 2 ping_pong registers 232 {
  ^bb0(%group: i32):
    %q = warp.load %keys[%group] stride(%stride) limit(%n) {offset = 0 : i64} : !llvm.ptr<1>, !warp.tile<64, 128, bf16>
    scf.for %t = %c0 to %n step %c1 : i32 {
      %k = warp.await %ring[%t] : !warp.ring<2, !warp.tile<64, 128, bf16>> -> !warp.tile<64, 128, bf16>
      scf.if %some {
        %f = warp.multiply %q, %k transposed : !warp.tile<64, 128, bf16>, !warp.tile<64, 128, bf16> -> !warp.flying<64, held = 0>
        %s = warp.wait %f : !warp.flying<64, held = 0> -> !warp.fragment<64, f32>
      }
      warp.release %ring[%t] : !warp.ring<2, !warp.tile<64, 128, bf16>>
    }
  }
  llvm.return
}

//--- top.mlir
llvm.func @top(%keys: !llvm.ptr<1>, %n: i32, %stride: i64) {
  warp.roles producer registers 40 {
    %none = arith.constant 0 : i32
  } consumers 2 ping_pong registers 232 {
  ^bb0(%group: i32):
    %q = warp.load %keys[%group] stride(%stride) limit(%n) {offset = 0 : i64} : !llvm.ptr<1>, !warp.tile<64, 128, bf16>
    %f = warp.multiply %q, %q transposed : !warp.tile<64, 128, bf16>, !warp.tile<64, 128, bf16> -> !warp.flying<64, held = 0>
  }
  llvm.return
}
