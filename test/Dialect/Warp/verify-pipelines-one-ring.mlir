// REQUIRES: heddle-opt
// RUN: heddle-opt %s --warp-verify-pipelines --split-input-file --verify-diagnostics -o /dev/null

// Keys and values in one ring, in turns: right first, then with one mistake in
// each.
llvm.func @good(%keys: !llvm.ptr<1>, %queries: !llvm.ptr<1>, %n: i32, %stride: i64) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c2 = arith.constant 2 : i32
  %ring = warp.ring {barriers = 65536 : i64, loads = 2 : i64, offset = 16384 : i64, readers = 8 : i64, writers = 128 : i64} : !warp.ring<3, !warp.tile<64, 128, bf16>>
  warp.roles producer registers 40 {
    scf.for %t = %c0 to %n step %c1 : i32 {
      %first = arith.muli %t, %c2 : i32
      %number = arith.addi %first, %c0 : i32
      %next = arith.addi %first, %c1 : i32
      %k = warp.acquire %ring[%number] : !warp.ring<3, !warp.tile<64, 128, bf16>> -> !warp.tile<64, 128, bf16>
      warp.copy %keys[%t] stride(%stride) limit(%n) into %k : !llvm.ptr<1>, !warp.tile<64, 128, bf16>
      warp.publish %ring[%number] : !warp.ring<3, !warp.tile<64, 128, bf16>>
      %v = warp.acquire %ring[%next] : !warp.ring<3, !warp.tile<64, 128, bf16>> -> !warp.tile<64, 128, bf16>
      warp.copy %keys[%t] stride(%stride) limit(%n) into %v : !llvm.ptr<1>, !warp.tile<64, 128, bf16>
      warp.publish %ring[%next] : !warp.ring<3, !warp.tile<64, 128, bf16>>
    }
  } consumers 2 registers 232 {
  ^bb0(%group: i32):
    %q = warp.load %queries[%group] stride(%stride) limit(%n) {offset = 65600 : i64} : !llvm.ptr<1>, !warp.tile<64, 128, bf16>
    scf.for %t = %c0 to %n step %c1 : i32 {
      %first = arith.muli %t, %c2 : i32
      %number = arith.addi %first, %c0 : i32
      %next = arith.addi %first, %c1 : i32
      %k = warp.await %ring[%number] : !warp.ring<3, !warp.tile<64, 128, bf16>> -> !warp.tile<64, 128, bf16>
      %f = warp.multiply %q, %k transposed : !warp.tile<64, 128, bf16>, !warp.tile<64, 128, bf16> -> !warp.flying<64, held = 0>
      %s = warp.wait %f : !warp.flying<64, held = 0> -> !warp.fragment<64, f32>
      warp.release %ring[%number] : !warp.ring<3, !warp.tile<64, 128, bf16>>
      %v = warp.await %ring[%next] : !warp.ring<3, !warp.tile<64, 128, bf16>> -> !warp.tile<64, 128, bf16>
      %p = warp.round %s : !warp.fragment<64, f32> -> !warp.fragment<64, bf16>
      %g = warp.multiply %p, %v : !warp.fragment<64, bf16>, !warp.tile<64, 128, bf16> -> !warp.flying<128, held = 16>
      %o = warp.wait %g : !warp.flying<128, held = 16> -> !warp.fragment<128, f32>
      warp.release %ring[%next] : !warp.ring<3, !warp.tile<64, 128, bf16>>
    }
  }
  llvm.return
}

// -----

// A number that counts by ones is of no load.
llvm.func @by_ones(%keys: !llvm.ptr<1>, %queries: !llvm.ptr<1>, %n: i32, %stride: i64) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c2 = arith.constant 2 : i32
  %ring = warp.ring {barriers = 65536 : i64, loads = 2 : i64, offset = 16384 : i64, readers = 8 : i64, writers = 128 : i64} : !warp.ring<3, !warp.tile<64, 128, bf16>>
  warp.roles producer registers 40 {
    scf.for %t = %c0 to %n step %c1 : i32 {
      %first = arith.muli %t, %c2 : i32
      %number = arith.addi %first, %c0 : i32
      %next = arith.addi %first, %c1 : i32
      // expected-error @+1 {{does not say by its number which of the 2 tiles of a turn it has}}
      %k = warp.acquire %ring[%t] : !warp.ring<3, !warp.tile<64, 128, bf16>> -> !warp.tile<64, 128, bf16>
      warp.copy %keys[%t] stride(%stride) limit(%n) into %k : !llvm.ptr<1>, !warp.tile<64, 128, bf16>
      warp.publish %ring[%number] : !warp.ring<3, !warp.tile<64, 128, bf16>>
      %v = warp.acquire %ring[%next] : !warp.ring<3, !warp.tile<64, 128, bf16>> -> !warp.tile<64, 128, bf16>
      warp.copy %keys[%t] stride(%stride) limit(%n) into %v : !llvm.ptr<1>, !warp.tile<64, 128, bf16>
      warp.publish %ring[%next] : !warp.ring<3, !warp.tile<64, 128, bf16>>
    }
  } consumers 2 registers 232 {
  ^bb0(%group: i32):
    %q = warp.load %queries[%group] stride(%stride) limit(%n) {offset = 65600 : i64} : !llvm.ptr<1>, !warp.tile<64, 128, bf16>
    scf.for %t = %c0 to %n step %c1 : i32 {
      %first = arith.muli %t, %c2 : i32
      %number = arith.addi %first, %c0 : i32
      %next = arith.addi %first, %c1 : i32
      %k = warp.await %ring[%number] : !warp.ring<3, !warp.tile<64, 128, bf16>> -> !warp.tile<64, 128, bf16>
      %f = warp.multiply %q, %k transposed : !warp.tile<64, 128, bf16>, !warp.tile<64, 128, bf16> -> !warp.flying<64, held = 0>
      %s = warp.wait %f : !warp.flying<64, held = 0> -> !warp.fragment<64, f32>
      warp.release %ring[%number] : !warp.ring<3, !warp.tile<64, 128, bf16>>
      %v = warp.await %ring[%next] : !warp.ring<3, !warp.tile<64, 128, bf16>> -> !warp.tile<64, 128, bf16>
      %p = warp.round %s : !warp.fragment<64, f32> -> !warp.fragment<64, bf16>
      %g = warp.multiply %p, %v : !warp.fragment<64, bf16>, !warp.tile<64, 128, bf16> -> !warp.flying<128, held = 16>
      %o = warp.wait %g : !warp.flying<128, held = 16> -> !warp.fragment<128, f32>
      warp.release %ring[%next] : !warp.ring<3, !warp.tile<64, 128, bf16>>
    }
  }
  llvm.return
}

// -----

// Of two loads there is no third.
llvm.func @third(%keys: !llvm.ptr<1>, %queries: !llvm.ptr<1>, %n: i32, %stride: i64) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c2 = arith.constant 2 : i32
  %ring = warp.ring {barriers = 65536 : i64, loads = 2 : i64, offset = 16384 : i64, readers = 8 : i64, writers = 128 : i64} : !warp.ring<3, !warp.tile<64, 128, bf16>>
  warp.roles producer registers 40 {
    scf.for %t = %c0 to %n step %c1 : i32 {
      %first = arith.muli %t, %c2 : i32
      %number = arith.addi %first, %c0 : i32
      %next = arith.addi %first, %c1 : i32
      %k = warp.acquire %ring[%number] : !warp.ring<3, !warp.tile<64, 128, bf16>> -> !warp.tile<64, 128, bf16>
      warp.copy %keys[%t] stride(%stride) limit(%n) into %k : !llvm.ptr<1>, !warp.tile<64, 128, bf16>
      warp.publish %ring[%number] : !warp.ring<3, !warp.tile<64, 128, bf16>>
      %v = warp.acquire %ring[%next] : !warp.ring<3, !warp.tile<64, 128, bf16>> -> !warp.tile<64, 128, bf16>
      warp.copy %keys[%t] stride(%stride) limit(%n) into %v : !llvm.ptr<1>, !warp.tile<64, 128, bf16>
      warp.publish %ring[%next] : !warp.ring<3, !warp.tile<64, 128, bf16>>
    }
  } consumers 2 registers 232 {
  ^bb0(%group: i32):
    %q = warp.load %queries[%group] stride(%stride) limit(%n) {offset = 65600 : i64} : !llvm.ptr<1>, !warp.tile<64, 128, bf16>
    scf.for %t = %c0 to %n step %c1 : i32 {
      %first = arith.muli %t, %c2 : i32
      %number = arith.addi %first, %c0 : i32
      %next = arith.addi %first, %c2 : i32
      %k = warp.await %ring[%number] : !warp.ring<3, !warp.tile<64, 128, bf16>> -> !warp.tile<64, 128, bf16>
      %f = warp.multiply %q, %k transposed : !warp.tile<64, 128, bf16>, !warp.tile<64, 128, bf16> -> !warp.flying<64, held = 0>
      %s = warp.wait %f : !warp.flying<64, held = 0> -> !warp.fragment<64, f32>
      warp.release %ring[%number] : !warp.ring<3, !warp.tile<64, 128, bf16>>
      // expected-error @+1 {{does not say by its number which of the 2 tiles of a turn it has}}
      %v = warp.await %ring[%next] : !warp.ring<3, !warp.tile<64, 128, bf16>> -> !warp.tile<64, 128, bf16>
      %p = warp.round %s : !warp.fragment<64, f32> -> !warp.fragment<64, bf16>
      %g = warp.multiply %p, %v : !warp.fragment<64, bf16>, !warp.tile<64, 128, bf16> -> !warp.flying<128, held = 16>
      %o = warp.wait %g : !warp.flying<128, held = 16> -> !warp.fragment<128, f32>
      warp.release %ring[%next] : !warp.ring<3, !warp.tile<64, 128, bf16>>
    }
  }
  llvm.return
}

// -----

// Whoever fills waits for stages in the order of their numbers, or for ever.
llvm.func @other_order(%keys: !llvm.ptr<1>, %queries: !llvm.ptr<1>, %n: i32, %stride: i64) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c2 = arith.constant 2 : i32
  %ring = warp.ring {barriers = 65536 : i64, loads = 2 : i64, offset = 16384 : i64, readers = 8 : i64, writers = 128 : i64} : !warp.ring<3, !warp.tile<64, 128, bf16>>
  warp.roles producer registers 40 {
    scf.for %t = %c0 to %n step %c1 : i32 {
      %first = arith.muli %t, %c2 : i32
      %number = arith.addi %first, %c0 : i32
      %next = arith.addi %first, %c1 : i32
      // expected-error @+1 {{does not come after warp.acquire in its block}}
      %v = warp.acquire %ring[%next] : !warp.ring<3, !warp.tile<64, 128, bf16>> -> !warp.tile<64, 128, bf16>
      warp.copy %keys[%t] stride(%stride) limit(%n) into %v : !llvm.ptr<1>, !warp.tile<64, 128, bf16>
      warp.publish %ring[%next] : !warp.ring<3, !warp.tile<64, 128, bf16>>
      %k = warp.acquire %ring[%number] : !warp.ring<3, !warp.tile<64, 128, bf16>> -> !warp.tile<64, 128, bf16>
      warp.copy %keys[%t] stride(%stride) limit(%n) into %k : !llvm.ptr<1>, !warp.tile<64, 128, bf16>
      warp.publish %ring[%number] : !warp.ring<3, !warp.tile<64, 128, bf16>>
    }
  } consumers 2 registers 232 {
  ^bb0(%group: i32):
    %q = warp.load %queries[%group] stride(%stride) limit(%n) {offset = 65600 : i64} : !llvm.ptr<1>, !warp.tile<64, 128, bf16>
    scf.for %t = %c0 to %n step %c1 : i32 {
      %first = arith.muli %t, %c2 : i32
      %number = arith.addi %first, %c0 : i32
      %next = arith.addi %first, %c1 : i32
      %k = warp.await %ring[%number] : !warp.ring<3, !warp.tile<64, 128, bf16>> -> !warp.tile<64, 128, bf16>
      %f = warp.multiply %q, %k transposed : !warp.tile<64, 128, bf16>, !warp.tile<64, 128, bf16> -> !warp.flying<64, held = 0>
      %s = warp.wait %f : !warp.flying<64, held = 0> -> !warp.fragment<64, f32>
      warp.release %ring[%number] : !warp.ring<3, !warp.tile<64, 128, bf16>>
      %v = warp.await %ring[%next] : !warp.ring<3, !warp.tile<64, 128, bf16>> -> !warp.tile<64, 128, bf16>
      %p = warp.round %s : !warp.fragment<64, f32> -> !warp.fragment<64, bf16>
      %g = warp.multiply %p, %v : !warp.fragment<64, bf16>, !warp.tile<64, 128, bf16> -> !warp.flying<128, held = 16>
      %o = warp.wait %g : !warp.flying<128, held = 16> -> !warp.fragment<128, f32>
      warp.release %ring[%next] : !warp.ring<3, !warp.tile<64, 128, bf16>>
    }
  }
  llvm.return
}

// -----

// A turn has both of its tiles at once.
llvm.func @one_stage(%keys: !llvm.ptr<1>, %queries: !llvm.ptr<1>, %n: i32, %stride: i64) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c2 = arith.constant 2 : i32
  // expected-error @+1 {{has fewer stages (1) than loads (2), whose tiles are held at once}}
  %ring = warp.ring {barriers = 65536 : i64, loads = 2 : i64, offset = 16384 : i64, readers = 8 : i64, writers = 128 : i64} : !warp.ring<1, !warp.tile<64, 128, bf16>>
  warp.roles producer registers 40 {
    scf.for %t = %c0 to %n step %c1 : i32 {
      %first = arith.muli %t, %c2 : i32
      %number = arith.addi %first, %c0 : i32
      %next = arith.addi %first, %c1 : i32
      %k = warp.acquire %ring[%number] : !warp.ring<1, !warp.tile<64, 128, bf16>> -> !warp.tile<64, 128, bf16>
      warp.copy %keys[%t] stride(%stride) limit(%n) into %k : !llvm.ptr<1>, !warp.tile<64, 128, bf16>
      warp.publish %ring[%number] : !warp.ring<1, !warp.tile<64, 128, bf16>>
      %v = warp.acquire %ring[%next] : !warp.ring<1, !warp.tile<64, 128, bf16>> -> !warp.tile<64, 128, bf16>
      warp.copy %keys[%t] stride(%stride) limit(%n) into %v : !llvm.ptr<1>, !warp.tile<64, 128, bf16>
      warp.publish %ring[%next] : !warp.ring<1, !warp.tile<64, 128, bf16>>
    }
  } consumers 2 registers 232 {
  ^bb0(%group: i32):
    %q = warp.load %queries[%group] stride(%stride) limit(%n) {offset = 65600 : i64} : !llvm.ptr<1>, !warp.tile<64, 128, bf16>
    scf.for %t = %c0 to %n step %c1 : i32 {
      %first = arith.muli %t, %c2 : i32
      %number = arith.addi %first, %c0 : i32
      %next = arith.addi %first, %c1 : i32
      %k = warp.await %ring[%number] : !warp.ring<1, !warp.tile<64, 128, bf16>> -> !warp.tile<64, 128, bf16>
      %f = warp.multiply %q, %k transposed : !warp.tile<64, 128, bf16>, !warp.tile<64, 128, bf16> -> !warp.flying<64, held = 0>
      %s = warp.wait %f : !warp.flying<64, held = 0> -> !warp.fragment<64, f32>
      warp.release %ring[%number] : !warp.ring<1, !warp.tile<64, 128, bf16>>
      %v = warp.await %ring[%next] : !warp.ring<1, !warp.tile<64, 128, bf16>> -> !warp.tile<64, 128, bf16>
      %p = warp.round %s : !warp.fragment<64, f32> -> !warp.fragment<64, bf16>
      %g = warp.multiply %p, %v : !warp.fragment<64, bf16>, !warp.tile<64, 128, bf16> -> !warp.flying<128, held = 16>
      %o = warp.wait %g : !warp.flying<128, held = 16> -> !warp.fragment<128, f32>
      warp.release %ring[%next] : !warp.ring<1, !warp.tile<64, 128, bf16>>
    }
  }
  llvm.return
}

// -----

// Values are released, too.
llvm.func @never(%keys: !llvm.ptr<1>, %queries: !llvm.ptr<1>, %n: i32, %stride: i64) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c2 = arith.constant 2 : i32
  // expected-error @+1 {{has no warp.release}}
  %ring = warp.ring {barriers = 65536 : i64, loads = 2 : i64, offset = 16384 : i64, readers = 8 : i64, writers = 128 : i64} : !warp.ring<3, !warp.tile<64, 128, bf16>>
  warp.roles producer registers 40 {
    scf.for %t = %c0 to %n step %c1 : i32 {
      %first = arith.muli %t, %c2 : i32
      %number = arith.addi %first, %c0 : i32
      %next = arith.addi %first, %c1 : i32
      %k = warp.acquire %ring[%number] : !warp.ring<3, !warp.tile<64, 128, bf16>> -> !warp.tile<64, 128, bf16>
      warp.copy %keys[%t] stride(%stride) limit(%n) into %k : !llvm.ptr<1>, !warp.tile<64, 128, bf16>
      warp.publish %ring[%number] : !warp.ring<3, !warp.tile<64, 128, bf16>>
      %v = warp.acquire %ring[%next] : !warp.ring<3, !warp.tile<64, 128, bf16>> -> !warp.tile<64, 128, bf16>
      warp.copy %keys[%t] stride(%stride) limit(%n) into %v : !llvm.ptr<1>, !warp.tile<64, 128, bf16>
      warp.publish %ring[%next] : !warp.ring<3, !warp.tile<64, 128, bf16>>
    }
  } consumers 2 registers 232 {
  ^bb0(%group: i32):
    %q = warp.load %queries[%group] stride(%stride) limit(%n) {offset = 65600 : i64} : !llvm.ptr<1>, !warp.tile<64, 128, bf16>
    scf.for %t = %c0 to %n step %c1 : i32 {
      %first = arith.muli %t, %c2 : i32
      %number = arith.addi %first, %c0 : i32
      %next = arith.addi %first, %c1 : i32
      %k = warp.await %ring[%number] : !warp.ring<3, !warp.tile<64, 128, bf16>> -> !warp.tile<64, 128, bf16>
      %f = warp.multiply %q, %k transposed : !warp.tile<64, 128, bf16>, !warp.tile<64, 128, bf16> -> !warp.flying<64, held = 0>
      %s = warp.wait %f : !warp.flying<64, held = 0> -> !warp.fragment<64, f32>
      warp.release %ring[%number] : !warp.ring<3, !warp.tile<64, 128, bf16>>
      %v = warp.await %ring[%next] : !warp.ring<3, !warp.tile<64, 128, bf16>> -> !warp.tile<64, 128, bf16>
      %p = warp.round %s : !warp.fragment<64, f32> -> !warp.fragment<64, bf16>
      %g = warp.multiply %p, %v : !warp.fragment<64, bf16>, !warp.tile<64, 128, bf16> -> !warp.flying<128, held = 16>
      %o = warp.wait %g : !warp.flying<128, held = 16> -> !warp.fragment<128, f32>
    }
  }
  llvm.return
}

// -----

// All keys before the first values: the third tile of keys would wait for the
// first values' stage for ever.
llvm.func @apart(%keys: !llvm.ptr<1>, %queries: !llvm.ptr<1>, %n: i32, %stride: i64) {
  %c0 = arith.constant 0 : i32
  %zero = arith.constant 0.0 : f32
  %c1 = arith.constant 1 : i32
  %c2 = arith.constant 2 : i32
  %ring = warp.ring {barriers = 65536 : i64, loads = 2 : i64, offset = 16384 : i64, readers = 8 : i64, writers = 128 : i64} : !warp.ring<3, !warp.tile<64, 128, bf16>>
  warp.roles producer registers 40 {
    scf.for %t = %c0 to %n step %c1 : i32 {
      %first = arith.muli %t, %c2 : i32
      %number = arith.addi %first, %c0 : i32
      %next = arith.addi %first, %c1 : i32
      %k = warp.acquire %ring[%number] : !warp.ring<3, !warp.tile<64, 128, bf16>> -> !warp.tile<64, 128, bf16>
      warp.copy %keys[%t] stride(%stride) limit(%n) into %k : !llvm.ptr<1>, !warp.tile<64, 128, bf16>
      warp.publish %ring[%number] : !warp.ring<3, !warp.tile<64, 128, bf16>>
      %v = warp.acquire %ring[%next] : !warp.ring<3, !warp.tile<64, 128, bf16>> -> !warp.tile<64, 128, bf16>
      warp.copy %keys[%t] stride(%stride) limit(%n) into %v : !llvm.ptr<1>, !warp.tile<64, 128, bf16>
      warp.publish %ring[%next] : !warp.ring<3, !warp.tile<64, 128, bf16>>
    }
  } consumers 2 registers 232 {
  ^bb0(%group: i32):
    %q = warp.load %queries[%group] stride(%stride) limit(%n) {offset = 65600 : i64} : !llvm.ptr<1>, !warp.tile<64, 128, bf16>
    scf.for %t = %c0 to %n step %c1 : i32 {
      %first = arith.muli %t, %c2 : i32
      %number = arith.addi %first, %c0 : i32
      %next = arith.addi %first, %c1 : i32
      %k = warp.await %ring[%number] : !warp.ring<3, !warp.tile<64, 128, bf16>> -> !warp.tile<64, 128, bf16>
      %f = warp.multiply %q, %k transposed : !warp.tile<64, 128, bf16>, !warp.tile<64, 128, bf16> -> !warp.flying<64, held = 0>
      %s = warp.wait %f : !warp.flying<64, held = 0> -> !warp.fragment<64, f32>
      warp.release %ring[%number] : !warp.ring<3, !warp.tile<64, 128, bf16>>
    }
    scf.for %t = %c0 to %n step %c1 : i32 {
      %first = arith.muli %t, %c2 : i32
      %next = arith.addi %first, %c1 : i32
      // expected-error @+1 {{is in another loop than what reads the turn's tile before it}}
      %v = warp.await %ring[%next] : !warp.ring<3, !warp.tile<64, 128, bf16>> -> !warp.tile<64, 128, bf16>
      %s = warp.splat %zero : !warp.fragment<64, f32>
      %p = warp.round %s : !warp.fragment<64, f32> -> !warp.fragment<64, bf16>
      %g = warp.multiply %p, %v : !warp.fragment<64, bf16>, !warp.tile<64, 128, bf16> -> !warp.flying<128, held = 16>
      %o = warp.wait %g : !warp.flying<128, held = 16> -> !warp.fragment<128, f32>
      warp.release %ring[%next] : !warp.ring<3, !warp.tile<64, 128, bf16>>
    }
  }
  llvm.return
}

// -----

// A number of the first load without its addition of 0, as canonicalisation leaves
// it, is the same.
llvm.func @folded(%keys: !llvm.ptr<1>, %queries: !llvm.ptr<1>, %n: i32, %stride: i64) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c2 = arith.constant 2 : i32
  %ring = warp.ring {barriers = 65536 : i64, loads = 2 : i64, offset = 16384 : i64, readers = 8 : i64, writers = 128 : i64} : !warp.ring<3, !warp.tile<64, 128, bf16>>
  warp.roles producer registers 40 {
    scf.for %t = %c0 to %n step %c1 : i32 {
      %first = arith.muli %t, %c2 : i32
      %next = arith.addi %first, %c1 : i32
      %k = warp.acquire %ring[%first] : !warp.ring<3, !warp.tile<64, 128, bf16>> -> !warp.tile<64, 128, bf16>
      warp.copy %keys[%t] stride(%stride) limit(%n) into %k : !llvm.ptr<1>, !warp.tile<64, 128, bf16>
      warp.publish %ring[%first] : !warp.ring<3, !warp.tile<64, 128, bf16>>
      %v = warp.acquire %ring[%next] : !warp.ring<3, !warp.tile<64, 128, bf16>> -> !warp.tile<64, 128, bf16>
      warp.copy %keys[%t] stride(%stride) limit(%n) into %v : !llvm.ptr<1>, !warp.tile<64, 128, bf16>
      warp.publish %ring[%next] : !warp.ring<3, !warp.tile<64, 128, bf16>>
    }
  } consumers 2 registers 232 {
  ^bb0(%group: i32):
    %q = warp.load %queries[%group] stride(%stride) limit(%n) {offset = 65600 : i64} : !llvm.ptr<1>, !warp.tile<64, 128, bf16>
    scf.for %t = %c0 to %n step %c1 : i32 {
      %first = arith.muli %t, %c2 : i32
      %next = arith.addi %first, %c1 : i32
      %k = warp.await %ring[%first] : !warp.ring<3, !warp.tile<64, 128, bf16>> -> !warp.tile<64, 128, bf16>
      %f = warp.multiply %q, %k transposed : !warp.tile<64, 128, bf16>, !warp.tile<64, 128, bf16> -> !warp.flying<64, held = 0>
      %s = warp.wait %f : !warp.flying<64, held = 0> -> !warp.fragment<64, f32>
      warp.release %ring[%first] : !warp.ring<3, !warp.tile<64, 128, bf16>>
      %v = warp.await %ring[%next] : !warp.ring<3, !warp.tile<64, 128, bf16>> -> !warp.tile<64, 128, bf16>
      %p = warp.round %s : !warp.fragment<64, f32> -> !warp.fragment<64, bf16>
      %g = warp.multiply %p, %v : !warp.fragment<64, bf16>, !warp.tile<64, 128, bf16> -> !warp.flying<128, held = 16>
      %o = warp.wait %g : !warp.flying<128, held = 16> -> !warp.fragment<128, f32>
      warp.release %ring[%next] : !warp.ring<3, !warp.tile<64, 128, bf16>>
    }
  }
  llvm.return
}
