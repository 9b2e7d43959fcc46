// REQUIRES: heddle-opt
// RUN: heddle-opt %s --warp-verify-pipelines --split-input-file --verify-diagnostics -o /dev/null

// A whole pipeline: a producer that brings tiles and consumers that read them,
// right first, then with one mistake in each, by the rule that it breaks. This
// is what is right.
llvm.func @good(%keys: !llvm.ptr<1>, %queries: !llvm.ptr<1>, %n: i32, %stride: i64) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c7 = arith.constant 7 : i32
  %ring = warp.ring {barriers = 131072 : i64, offset = 32768 : i64, readers = 8 : i64, writers = 128 : i64} : !warp.ring<3, !warp.tile<128, 128, bf16>>
  warp.roles producer registers 40 {
    scf.for %t = %c0 to %n step %c1 : i32 {
      %into = warp.acquire %ring[%t] : !warp.ring<3, !warp.tile<128, 128, bf16>> -> !warp.tile<128, 128, bf16>
      warp.copy %keys[%t] stride(%stride) limit(%n) into %into : !llvm.ptr<1>, !warp.tile<128, 128, bf16>
      warp.publish %ring[%t] : !warp.ring<3, !warp.tile<128, 128, bf16>>
    }
  } consumers 2 registers 232 {
  ^bb0(%group: i32):
    %q = warp.load %queries[%group] stride(%stride) limit(%n) {offset = 0 : i64} : !llvm.ptr<1>, !warp.tile<64, 128, bf16>
    scf.for %t = %c0 to %n step %c1 : i32 {
      %k = warp.await %ring[%t] : !warp.ring<3, !warp.tile<128, 128, bf16>> -> !warp.tile<128, 128, bf16>
      %f = warp.multiply %q, %k transposed : !warp.tile<64, 128, bf16>, !warp.tile<128, 128, bf16> -> !warp.flying<128, held = 0>
      %s = warp.wait %f : !warp.flying<128, held = 0> -> !warp.fragment<128, f32>
      warp.release %ring[%t] : !warp.ring<3, !warp.tile<128, 128, bf16>>
    }
  }
  llvm.return
}

// -----

// The wait for the product that reads a stage comes before its release.
llvm.func @early(%keys: !llvm.ptr<1>, %queries: !llvm.ptr<1>, %n: i32, %stride: i64) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c7 = arith.constant 7 : i32
  %ring = warp.ring {barriers = 131072 : i64, offset = 32768 : i64, readers = 8 : i64, writers = 128 : i64} : !warp.ring<3, !warp.tile<128, 128, bf16>>
  warp.roles producer registers 40 {
    scf.for %t = %c0 to %n step %c1 : i32 {
      %into = warp.acquire %ring[%t] : !warp.ring<3, !warp.tile<128, 128, bf16>> -> !warp.tile<128, 128, bf16>
      warp.copy %keys[%t] stride(%stride) limit(%n) into %into : !llvm.ptr<1>, !warp.tile<128, 128, bf16>
      warp.publish %ring[%t] : !warp.ring<3, !warp.tile<128, 128, bf16>>
    }
  } consumers 2 registers 232 {
  ^bb0(%group: i32):
    %q = warp.load %queries[%group] stride(%stride) limit(%n) {offset = 0 : i64} : !llvm.ptr<1>, !warp.tile<64, 128, bf16>
    scf.for %t = %c0 to %n step %c1 : i32 {
      %k = warp.await %ring[%t] : !warp.ring<3, !warp.tile<128, 128, bf16>> -> !warp.tile<128, 128, bf16>
      %f = warp.multiply %q, %k transposed : !warp.tile<64, 128, bf16>, !warp.tile<128, 128, bf16> -> !warp.flying<128, held = 0>
      // expected-error @+1 {{comes before the wait for a product that reads the stage}}
      warp.release %ring[%t] : !warp.ring<3, !warp.tile<128, 128, bf16>>
      %s = warp.wait %f : !warp.flying<128, held = 0> -> !warp.fragment<128, f32>
    }
  }
  llvm.return
}

// -----

// A stage is full when its copies are on their way, not before.
llvm.func @empty(%keys: !llvm.ptr<1>, %queries: !llvm.ptr<1>, %n: i32, %stride: i64) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c7 = arith.constant 7 : i32
  %ring = warp.ring {barriers = 131072 : i64, offset = 32768 : i64, readers = 8 : i64, writers = 128 : i64} : !warp.ring<3, !warp.tile<128, 128, bf16>>
  warp.roles producer registers 40 {
    scf.for %t = %c0 to %n step %c1 : i32 {
      %into = warp.acquire %ring[%t] : !warp.ring<3, !warp.tile<128, 128, bf16>> -> !warp.tile<128, 128, bf16>
      // expected-error @+1 {{does not come after warp.copy in its block}}
      warp.publish %ring[%t] : !warp.ring<3, !warp.tile<128, 128, bf16>>
      warp.copy %keys[%t] stride(%stride) limit(%n) into %into : !llvm.ptr<1>, !warp.tile<128, 128, bf16>
    }
  } consumers 2 registers 232 {
  ^bb0(%group: i32):
    %q = warp.load %queries[%group] stride(%stride) limit(%n) {offset = 0 : i64} : !llvm.ptr<1>, !warp.tile<64, 128, bf16>
    scf.for %t = %c0 to %n step %c1 : i32 {
      %k = warp.await %ring[%t] : !warp.ring<3, !warp.tile<128, 128, bf16>> -> !warp.tile<128, 128, bf16>
      %f = warp.multiply %q, %k transposed : !warp.tile<64, 128, bf16>, !warp.tile<128, 128, bf16> -> !warp.flying<128, held = 0>
      %s = warp.wait %f : !warp.flying<128, held = 0> -> !warp.fragment<128, f32>
      warp.release %ring[%t] : !warp.ring<3, !warp.tile<128, 128, bf16>>
    }
  }
  llvm.return
}

// -----

// A stage that nobody releases is never filled again.
llvm.func @kept(%keys: !llvm.ptr<1>, %queries: !llvm.ptr<1>, %n: i32, %stride: i64) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c7 = arith.constant 7 : i32
  // expected-error @+1 {{has no warp.release}}
  %ring = warp.ring {barriers = 131072 : i64, offset = 32768 : i64, readers = 8 : i64, writers = 128 : i64} : !warp.ring<3, !warp.tile<128, 128, bf16>>
  warp.roles producer registers 40 {
    scf.for %t = %c0 to %n step %c1 : i32 {
      %into = warp.acquire %ring[%t] : !warp.ring<3, !warp.tile<128, 128, bf16>> -> !warp.tile<128, 128, bf16>
      warp.copy %keys[%t] stride(%stride) limit(%n) into %into : !llvm.ptr<1>, !warp.tile<128, 128, bf16>
      warp.publish %ring[%t] : !warp.ring<3, !warp.tile<128, 128, bf16>>
    }
  } consumers 2 registers 232 {
  ^bb0(%group: i32):
    %q = warp.load %queries[%group] stride(%stride) limit(%n) {offset = 0 : i64} : !llvm.ptr<1>, !warp.tile<64, 128, bf16>
    scf.for %t = %c0 to %n step %c1 : i32 {
      %k = warp.await %ring[%t] : !warp.ring<3, !warp.tile<128, 128, bf16>> -> !warp.tile<128, 128, bf16>
      %f = warp.multiply %q, %k transposed : !warp.tile<64, 128, bf16>, !warp.tile<128, 128, bf16> -> !warp.flying<128, held = 0>
      %s = warp.wait %f : !warp.flying<128, held = 0> -> !warp.fragment<128, f32>
    }
  }
  llvm.return
}

// -----

// Both sides count the same tiles from 0 on, or phases part.
llvm.func @late(%keys: !llvm.ptr<1>, %queries: !llvm.ptr<1>, %n: i32, %stride: i64) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c7 = arith.constant 7 : i32
  %ring = warp.ring {barriers = 131072 : i64, offset = 32768 : i64, readers = 8 : i64, writers = 128 : i64} : !warp.ring<3, !warp.tile<128, 128, bf16>>
  warp.roles producer registers 40 {
    scf.for %t = %c0 to %n step %c1 : i32 {
      %into = warp.acquire %ring[%t] : !warp.ring<3, !warp.tile<128, 128, bf16>> -> !warp.tile<128, 128, bf16>
      warp.copy %keys[%t] stride(%stride) limit(%n) into %into : !llvm.ptr<1>, !warp.tile<128, 128, bf16>
      warp.publish %ring[%t] : !warp.ring<3, !warp.tile<128, 128, bf16>>
    }
  } consumers 2 registers 232 {
  ^bb0(%group: i32):
    %q = warp.load %queries[%group] stride(%stride) limit(%n) {offset = 0 : i64} : !llvm.ptr<1>, !warp.tile<64, 128, bf16>
    scf.for %t = %c1 to %n step %c1 : i32 {
      // expected-error @+1 {{does not count tiles from 0 by 1, so its barriers would be out of phase}}
      %k = warp.await %ring[%t] : !warp.ring<3, !warp.tile<128, 128, bf16>> -> !warp.tile<128, 128, bf16>
      %f = warp.multiply %q, %k transposed : !warp.tile<64, 128, bf16>, !warp.tile<128, 128, bf16> -> !warp.flying<128, held = 0>
      %s = warp.wait %f : !warp.flying<128, held = 0> -> !warp.fragment<128, f32>
      warp.release %ring[%t] : !warp.ring<3, !warp.tile<128, 128, bf16>>
    }
  }
  llvm.return
}

// -----

llvm.func @longer(%keys: !llvm.ptr<1>, %queries: !llvm.ptr<1>, %n: i32, %stride: i64) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c7 = arith.constant 7 : i32
  %ring = warp.ring {barriers = 131072 : i64, offset = 32768 : i64, readers = 8 : i64, writers = 128 : i64} : !warp.ring<3, !warp.tile<128, 128, bf16>>
  warp.roles producer registers 40 {
    scf.for %t = %c0 to %n step %c1 : i32 {
      %into = warp.acquire %ring[%t] : !warp.ring<3, !warp.tile<128, 128, bf16>> -> !warp.tile<128, 128, bf16>
      warp.copy %keys[%t] stride(%stride) limit(%n) into %into : !llvm.ptr<1>, !warp.tile<128, 128, bf16>
      warp.publish %ring[%t] : !warp.ring<3, !warp.tile<128, 128, bf16>>
    }
  } consumers 2 registers 232 {
  ^bb0(%group: i32):
    %q = warp.load %queries[%group] stride(%stride) limit(%n) {offset = 0 : i64} : !llvm.ptr<1>, !warp.tile<64, 128, bf16>
    scf.for %t = %c0 to %c7 step %c1 : i32 {
      // expected-error @+1 {{is in a loop of other length than that which fills the ring}}
      %k = warp.await %ring[%t] : !warp.ring<3, !warp.tile<128, 128, bf16>> -> !warp.tile<128, 128, bf16>
      %f = warp.multiply %q, %k transposed : !warp.tile<64, 128, bf16>, !warp.tile<128, 128, bf16> -> !warp.flying<128, held = 0>
      %s = warp.wait %f : !warp.flying<128, held = 0> -> !warp.fragment<128, f32>
      warp.release %ring[%t] : !warp.ring<3, !warp.tile<128, 128, bf16>>
    }
  }
  llvm.return
}

// -----

// A warp too few: the barrier's phase would end before all have read.
llvm.func @readers(%keys: !llvm.ptr<1>, %queries: !llvm.ptr<1>, %n: i32, %stride: i64) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c7 = arith.constant 7 : i32
  // expected-error @+1 {{expects other numbers of writers or readers than there are}}
  %ring = warp.ring {barriers = 131072 : i64, offset = 32768 : i64, readers = 4 : i64, writers = 128 : i64} : !warp.ring<3, !warp.tile<128, 128, bf16>>
  warp.roles producer registers 40 {
    scf.for %t = %c0 to %n step %c1 : i32 {
      %into = warp.acquire %ring[%t] : !warp.ring<3, !warp.tile<128, 128, bf16>> -> !warp.tile<128, 128, bf16>
      warp.copy %keys[%t] stride(%stride) limit(%n) into %into : !llvm.ptr<1>, !warp.tile<128, 128, bf16>
      warp.publish %ring[%t] : !warp.ring<3, !warp.tile<128, 128, bf16>>
    }
  } consumers 2 registers 232 {
  ^bb0(%group: i32):
    %q = warp.load %queries[%group] stride(%stride) limit(%n) {offset = 0 : i64} : !llvm.ptr<1>, !warp.tile<64, 128, bf16>
    scf.for %t = %c0 to %n step %c1 : i32 {
      %k = warp.await %ring[%t] : !warp.ring<3, !warp.tile<128, 128, bf16>> -> !warp.tile<128, 128, bf16>
      %f = warp.multiply %q, %k transposed : !warp.tile<64, 128, bf16>, !warp.tile<128, 128, bf16> -> !warp.flying<128, held = 0>
      %s = warp.wait %f : !warp.flying<128, held = 0> -> !warp.fragment<128, f32>
      warp.release %ring[%t] : !warp.ring<3, !warp.tile<128, 128, bf16>>
    }
  }
  llvm.return
}

// -----

llvm.func @twice(%keys: !llvm.ptr<1>, %queries: !llvm.ptr<1>, %n: i32, %stride: i64) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c7 = arith.constant 7 : i32
  %ring = warp.ring {barriers = 131072 : i64, offset = 32768 : i64, readers = 8 : i64, writers = 128 : i64} : !warp.ring<3, !warp.tile<128, 128, bf16>>
  warp.roles producer registers 40 {
    scf.for %t = %c0 to %n step %c1 : i32 {
      %into = warp.acquire %ring[%t] : !warp.ring<3, !warp.tile<128, 128, bf16>> -> !warp.tile<128, 128, bf16>
      warp.copy %keys[%t] stride(%stride) limit(%n) into %into : !llvm.ptr<1>, !warp.tile<128, 128, bf16>
      warp.publish %ring[%t] : !warp.ring<3, !warp.tile<128, 128, bf16>>
    }
  } consumers 2 registers 232 {
  ^bb0(%group: i32):
    %q = warp.load %queries[%group] stride(%stride) limit(%n) {offset = 0 : i64} : !llvm.ptr<1>, !warp.tile<64, 128, bf16>
    scf.for %t = %c0 to %n step %c1 : i32 {
      %k = warp.await %ring[%t] : !warp.ring<3, !warp.tile<128, 128, bf16>> -> !warp.tile<128, 128, bf16>
      %f = warp.multiply %q, %k transposed : !warp.tile<64, 128, bf16>, !warp.tile<128, 128, bf16> -> !warp.flying<128, held = 0>
      %s = warp.wait %f : !warp.flying<128, held = 0> -> !warp.fragment<128, f32>
      // expected-error @+1 {{is there twice for a ring: stages of a tile would count double}}
      warp.release %ring[%t] : !warp.ring<3, !warp.tile<128, 128, bf16>>
      warp.release %ring[%t] : !warp.ring<3, !warp.tile<128, 128, bf16>>
    }
  }
  llvm.return
}

// -----

// Two tiles in one place.
llvm.func @overlap(%keys: !llvm.ptr<1>, %queries: !llvm.ptr<1>, %n: i32, %stride: i64) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c7 = arith.constant 7 : i32
  // expected-error @+1 {{lies from 16384 in shared memory, where something else lies until 32768}}
  %ring = warp.ring {barriers = 131072 : i64, offset = 16384 : i64, readers = 8 : i64, writers = 128 : i64} : !warp.ring<3, !warp.tile<128, 128, bf16>>
  warp.roles producer registers 40 {
    scf.for %t = %c0 to %n step %c1 : i32 {
      %into = warp.acquire %ring[%t] : !warp.ring<3, !warp.tile<128, 128, bf16>> -> !warp.tile<128, 128, bf16>
      warp.copy %keys[%t] stride(%stride) limit(%n) into %into : !llvm.ptr<1>, !warp.tile<128, 128, bf16>
      warp.publish %ring[%t] : !warp.ring<3, !warp.tile<128, 128, bf16>>
    }
  } consumers 2 registers 232 {
  ^bb0(%group: i32):
    %q = warp.load %queries[%group] stride(%stride) limit(%n) {offset = 0 : i64} : !llvm.ptr<1>, !warp.tile<64, 128, bf16>
    scf.for %t = %c0 to %n step %c1 : i32 {
      %k = warp.await %ring[%t] : !warp.ring<3, !warp.tile<128, 128, bf16>> -> !warp.tile<128, 128, bf16>
      %f = warp.multiply %q, %k transposed : !warp.tile<64, 128, bf16>, !warp.tile<128, 128, bf16> -> !warp.flying<128, held = 0>
      %s = warp.wait %f : !warp.flying<128, held = 0> -> !warp.fragment<128, f32>
      warp.release %ring[%t] : !warp.ring<3, !warp.tile<128, 128, bf16>>
    }
  }
  llvm.return
}

// -----

llvm.func @registers(%keys: !llvm.ptr<1>, %queries: !llvm.ptr<1>, %n: i32, %stride: i64) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c7 = arith.constant 7 : i32
  %ring = warp.ring {barriers = 131072 : i64, offset = 32768 : i64, readers = 8 : i64, writers = 128 : i64} : !warp.ring<3, !warp.tile<128, 128, bf16>>
  // expected-error @+1 {{gives 68608 registers to its threads; there are 64512}}
  warp.roles producer registers 56 {
    scf.for %t = %c0 to %n step %c1 : i32 {
      %into = warp.acquire %ring[%t] : !warp.ring<3, !warp.tile<128, 128, bf16>> -> !warp.tile<128, 128, bf16>
      warp.copy %keys[%t] stride(%stride) limit(%n) into %into : !llvm.ptr<1>, !warp.tile<128, 128, bf16>
      warp.publish %ring[%t] : !warp.ring<3, !warp.tile<128, 128, bf16>>
    }
  } consumers 2 registers 240 {
  ^bb0(%group: i32):
    %q = warp.load %queries[%group] stride(%stride) limit(%n) {offset = 0 : i64} : !llvm.ptr<1>, !warp.tile<64, 128, bf16>
    scf.for %t = %c0 to %n step %c1 : i32 {
      %k = warp.await %ring[%t] : !warp.ring<3, !warp.tile<128, 128, bf16>> -> !warp.tile<128, 128, bf16>
      %f = warp.multiply %q, %k transposed : !warp.tile<64, 128, bf16>, !warp.tile<128, 128, bf16> -> !warp.flying<128, held = 0>
      %s = warp.wait %f : !warp.flying<128, held = 0> -> !warp.fragment<128, f32>
      warp.release %ring[%t] : !warp.ring<3, !warp.tile<128, 128, bf16>>
    }
  }
  llvm.return
}

// -----

llvm.func @registers_of_launch(%keys: !llvm.ptr<1>, %queries: !llvm.ptr<1>, %n: i32, %stride: i64) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c7 = arith.constant 7 : i32
  %ring = warp.ring {barriers = 163840 : i64, offset = 65536 : i64, readers = 16 : i64, writers = 128 : i64} : !warp.ring<3, !warp.tile<128, 128, bf16>>
  // A block of 640 threads is launched with 96 registers for each.
  // expected-error @+1 {{gives 64512 registers to its threads; there are 61440}}
  warp.roles producer registers 24 {
    scf.for %t = %c0 to %n step %c1 : i32 {
      %into = warp.acquire %ring[%t] : !warp.ring<3, !warp.tile<128, 128, bf16>> -> !warp.tile<128, 128, bf16>
      warp.copy %keys[%t] stride(%stride) limit(%n) into %into : !llvm.ptr<1>, !warp.tile<128, 128, bf16>
      warp.publish %ring[%t] : !warp.ring<3, !warp.tile<128, 128, bf16>>
    }
  } consumers 4 registers 120 {
  ^bb0(%group: i32):
    %q = warp.load %queries[%group] stride(%stride) limit(%n) {offset = 0 : i64} : !llvm.ptr<1>, !warp.tile<64, 128, bf16>
    scf.for %t = %c0 to %n step %c1 : i32 {
      %k = warp.await %ring[%t] : !warp.ring<3, !warp.tile<128, 128, bf16>> -> !warp.tile<128, 128, bf16>
      %f = warp.multiply %q, %k transposed : !warp.tile<64, 128, bf16>, !warp.tile<128, 128, bf16> -> !warp.flying<128, held = 0>
      %s = warp.wait %f : !warp.flying<128, held = 0> -> !warp.fragment<128, f32>
      warp.release %ring[%t] : !warp.ring<3, !warp.tile<128, 128, bf16>>
    }
  }
  llvm.return
}

// -----

// What is right where two blocks share tiles: each has queries of its own.
llvm.func @shared(%keys: !llvm.ptr<1>, %map: !llvm.ptr<1>, %n: i32, %stride: i64) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %block = nvvm.read.ptx.sreg.ctaid.x : i32
  %ring = warp.ring {barriers = 131072 : i64, offset = 32768 : i64, readers = 8 : i64, writers = 1 : i64} : !warp.ring<3, !warp.tile<128, 128, bf16>, cluster = 2>
  warp.roles producer registers 40 {
    warp.acquire_map %map : !llvm.ptr<1>
    scf.for %t = %c0 to %n step %c1 : i32 {
      warp.fetch %ring[%t] from %map[%t, %c0] : !warp.ring<3, !warp.tile<128, 128, bf16>, cluster = 2>, !llvm.ptr<1>
    }
    %all = arith.maxsi %n, %c0 : i32
    warp.drain %ring[%all] : !warp.ring<3, !warp.tile<128, 128, bf16>, cluster = 2>
  } consumers 1 registers 232 {
  ^bb0(%group: i32):
    %q = warp.load %keys[%block] stride(%stride) limit(%n) {offset = 0 : i64} : !llvm.ptr<1>, !warp.tile<64, 128, bf16>
    scf.for %t = %c0 to %n step %c1 : i32 {
      %k = warp.await %ring[%t] : !warp.ring<3, !warp.tile<128, 128, bf16>, cluster = 2> -> !warp.tile<128, 128, bf16>
      %f = warp.multiply %q, %k transposed : !warp.tile<64, 128, bf16>, !warp.tile<128, 128, bf16> -> !warp.flying<128, held = 0>
      %s = warp.wait %f : !warp.flying<128, held = 0> -> !warp.fragment<128, f32>
      warp.release %ring[%t] : !warp.ring<3, !warp.tile<128, 128, bf16>, cluster = 2>
    }
  } {cluster = 2 : i64}
  llvm.return
}

// -----

// Blocks that share tiles ask for the same ones.
llvm.func @apart(%keys: !llvm.ptr<1>, %map: !llvm.ptr<1>, %n: i32, %stride: i64) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %block = nvvm.read.ptx.sreg.ctaid.x : i32
  %ring = warp.ring {barriers = 131072 : i64, offset = 32768 : i64, readers = 8 : i64, writers = 1 : i64} : !warp.ring<3, !warp.tile<128, 128, bf16>, cluster = 2>
  warp.roles producer registers 40 {
    warp.acquire_map %map : !llvm.ptr<1>
    scf.for %t = %c0 to %n step %c1 : i32 {
      // expected-error @+1 {{asks for tiles by the block's number in x, but blocks of a cluster share them}}
      warp.fetch %ring[%t] from %map[%block, %c0] : !warp.ring<3, !warp.tile<128, 128, bf16>, cluster = 2>, !llvm.ptr<1>
    }
    %all = arith.maxsi %n, %c0 : i32
    warp.drain %ring[%all] : !warp.ring<3, !warp.tile<128, 128, bf16>, cluster = 2>
  } consumers 1 registers 232 {
  ^bb0(%group: i32):
    %q = warp.load %keys[%block] stride(%stride) limit(%n) {offset = 0 : i64} : !llvm.ptr<1>, !warp.tile<64, 128, bf16>
    scf.for %t = %c0 to %n step %c1 : i32 {
      %k = warp.await %ring[%t] : !warp.ring<3, !warp.tile<128, 128, bf16>, cluster = 2> -> !warp.tile<128, 128, bf16>
      %f = warp.multiply %q, %k transposed : !warp.tile<64, 128, bf16>, !warp.tile<128, 128, bf16> -> !warp.flying<128, held = 0>
      %s = warp.wait %f : !warp.flying<128, held = 0> -> !warp.fragment<128, f32>
      warp.release %ring[%t] : !warp.ring<3, !warp.tile<128, 128, bf16>, cluster = 2>
    }
  } {cluster = 2 : i64}
  llvm.return
}

// -----

llvm.func @alone(%keys: !llvm.ptr<1>, %map: !llvm.ptr<1>, %n: i32, %stride: i64) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %block = nvvm.read.ptx.sreg.ctaid.x : i32
  // expected-error @+1 {{is shared by other blocks than the roles say}}
  %ring = warp.ring {barriers = 131072 : i64, offset = 32768 : i64, readers = 8 : i64, writers = 1 : i64} : !warp.ring<3, !warp.tile<128, 128, bf16>, cluster = 2>
  warp.roles producer registers 40 {
    warp.acquire_map %map : !llvm.ptr<1>
    scf.for %t = %c0 to %n step %c1 : i32 {
      warp.fetch %ring[%t] from %map[%t, %c0] : !warp.ring<3, !warp.tile<128, 128, bf16>, cluster = 2>, !llvm.ptr<1>
    }
    %all = arith.maxsi %n, %c0 : i32
    warp.drain %ring[%all] : !warp.ring<3, !warp.tile<128, 128, bf16>, cluster = 2>
  } consumers 1 registers 232 {
  ^bb0(%group: i32):
    %q = warp.load %keys[%block] stride(%stride) limit(%n) {offset = 0 : i64} : !llvm.ptr<1>, !warp.tile<64, 128, bf16>
    scf.for %t = %c0 to %n step %c1 : i32 {
      %k = warp.await %ring[%t] : !warp.ring<3, !warp.tile<128, 128, bf16>, cluster = 2> -> !warp.tile<128, 128, bf16>
      %f = warp.multiply %q, %k transposed : !warp.tile<64, 128, bf16>, !warp.tile<128, 128, bf16> -> !warp.flying<128, held = 0>
      %s = warp.wait %f : !warp.flying<128, held = 0> -> !warp.fragment<128, f32>
      warp.release %ring[%t] : !warp.ring<3, !warp.tile<128, 128, bf16>, cluster = 2>
    }
  } {cluster = 1 : i64}
  llvm.return
}

// -----

// A block whose stages others release waits for all of them before it ends.
llvm.func @ends(%keys: !llvm.ptr<1>, %map: !llvm.ptr<1>, %n: i32, %stride: i64) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %block = nvvm.read.ptx.sreg.ctaid.x : i32
  %ring = warp.ring {barriers = 131072 : i64, offset = 32768 : i64, readers = 8 : i64, writers = 1 : i64} : !warp.ring<3, !warp.tile<128, 128, bf16>, cluster = 2>
  warp.roles producer registers 40 {
    warp.acquire_map %map : !llvm.ptr<1>
    scf.for %t = %c0 to %n step %c1 : i32 {
      warp.fetch %ring[%t] from %map[%t, %c0] : !warp.ring<3, !warp.tile<128, 128, bf16>, cluster = 2>, !llvm.ptr<1>
    }
    // expected-error @+1 {{does not follow the last tile of its ring}}
    warp.drain %ring[%c1] : !warp.ring<3, !warp.tile<128, 128, bf16>, cluster = 2>
  } consumers 1 registers 232 {
  ^bb0(%group: i32):
    %q = warp.load %keys[%block] stride(%stride) limit(%n) {offset = 0 : i64} : !llvm.ptr<1>, !warp.tile<64, 128, bf16>
    scf.for %t = %c0 to %n step %c1 : i32 {
      %k = warp.await %ring[%t] : !warp.ring<3, !warp.tile<128, 128, bf16>, cluster = 2> -> !warp.tile<128, 128, bf16>
      %f = warp.multiply %q, %k transposed : !warp.tile<64, 128, bf16>, !warp.tile<128, 128, bf16> -> !warp.flying<128, held = 0>
      %s = warp.wait %f : !warp.flying<128, held = 0> -> !warp.fragment<128, f32>
      warp.release %ring[%t] : !warp.ring<3, !warp.tile<128, 128, bf16>, cluster = 2>
    }
  } {cluster = 2 : i64}
  llvm.return
}

// -----

// Loops one after the other, whose tiles are numbered on.
llvm.func @two_loops(%keys: !llvm.ptr<1>, %queries: !llvm.ptr<1>, %n: i32, %stride: i64) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c7 = arith.constant 7 : i32
  %ring = warp.ring {barriers = 131072 : i64, offset = 32768 : i64, readers = 8 : i64, writers = 128 : i64} : !warp.ring<3, !warp.tile<128, 128, bf16>>
  warp.roles producer registers 40 {
    scf.for %t = %c0 to %n step %c1 : i32 {
      %into = warp.acquire %ring[%t] : !warp.ring<3, !warp.tile<128, 128, bf16>> -> !warp.tile<128, 128, bf16>
      warp.copy %keys[%t] stride(%stride) limit(%n) into %into : !llvm.ptr<1>, !warp.tile<128, 128, bf16>
      warp.publish %ring[%t] : !warp.ring<3, !warp.tile<128, 128, bf16>>
    }
    %before = arith.maxsi %n, %c0 : i32
    scf.for %t = %c0 to %c7 step %c1 : i32 {
      %number = arith.addi %t, %before : i32
      %into = warp.acquire %ring[%number] : !warp.ring<3, !warp.tile<128, 128, bf16>> -> !warp.tile<128, 128, bf16>
      warp.copy %keys[%t] stride(%stride) limit(%n) into %into : !llvm.ptr<1>, !warp.tile<128, 128, bf16>
      warp.publish %ring[%number] : !warp.ring<3, !warp.tile<128, 128, bf16>>
    }
  } consumers 2 registers 232 {
  ^bb0(%group: i32):
    %q = warp.load %queries[%group] stride(%stride) limit(%n) {offset = 0 : i64} : !llvm.ptr<1>, !warp.tile<64, 128, bf16>
    scf.for %t = %c0 to %n step %c1 : i32 {
      %k = warp.await %ring[%t] : !warp.ring<3, !warp.tile<128, 128, bf16>> -> !warp.tile<128, 128, bf16>
      %f = warp.multiply %q, %k transposed : !warp.tile<64, 128, bf16>, !warp.tile<128, 128, bf16> -> !warp.flying<128, held = 0>
      %s = warp.wait %f : !warp.flying<128, held = 0> -> !warp.fragment<128, f32>
      warp.release %ring[%t] : !warp.ring<3, !warp.tile<128, 128, bf16>>
    }
    %before = arith.maxsi %n, %c0 : i32
    scf.for %t = %c0 to %c7 step %c1 : i32 {
      %number = arith.addi %t, %before : i32
      %k = warp.await %ring[%number] : !warp.ring<3, !warp.tile<128, 128, bf16>> -> !warp.tile<128, 128, bf16>
      %f = warp.multiply %q, %k transposed : !warp.tile<64, 128, bf16>, !warp.tile<128, 128, bf16> -> !warp.flying<128, held = 0>
      %s = warp.wait %f : !warp.flying<128, held = 0> -> !warp.fragment<128, f32>
      warp.release %ring[%number] : !warp.ring<3, !warp.tile<128, 128, bf16>>
    }
  }
  llvm.return
}

// -----

// A second loop that begins at 0 again meets phases that are over.
llvm.func @from_0_again(%keys: !llvm.ptr<1>, %queries: !llvm.ptr<1>, %n: i32, %stride: i64) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c7 = arith.constant 7 : i32
  %ring = warp.ring {barriers = 131072 : i64, offset = 32768 : i64, readers = 8 : i64, writers = 128 : i64} : !warp.ring<3, !warp.tile<128, 128, bf16>>
  warp.roles producer registers 40 {
    scf.for %t = %c0 to %n step %c1 : i32 {
      %into = warp.acquire %ring[%t] : !warp.ring<3, !warp.tile<128, 128, bf16>> -> !warp.tile<128, 128, bf16>
      warp.copy %keys[%t] stride(%stride) limit(%n) into %into : !llvm.ptr<1>, !warp.tile<128, 128, bf16>
      warp.publish %ring[%t] : !warp.ring<3, !warp.tile<128, 128, bf16>>
    }
    %before = arith.maxsi %n, %c0 : i32
    scf.for %t = %c0 to %c7 step %c1 : i32 {
      %number = arith.addi %t, %before : i32
      %into = warp.acquire %ring[%number] : !warp.ring<3, !warp.tile<128, 128, bf16>> -> !warp.tile<128, 128, bf16>
      warp.copy %keys[%t] stride(%stride) limit(%n) into %into : !llvm.ptr<1>, !warp.tile<128, 128, bf16>
      warp.publish %ring[%number] : !warp.ring<3, !warp.tile<128, 128, bf16>>
    }
  } consumers 2 registers 232 {
  ^bb0(%group: i32):
    %q = warp.load %queries[%group] stride(%stride) limit(%n) {offset = 0 : i64} : !llvm.ptr<1>, !warp.tile<64, 128, bf16>
    scf.for %t = %c0 to %n step %c1 : i32 {
      %k = warp.await %ring[%t] : !warp.ring<3, !warp.tile<128, 128, bf16>> -> !warp.tile<128, 128, bf16>
      %f = warp.multiply %q, %k transposed : !warp.tile<64, 128, bf16>, !warp.tile<128, 128, bf16> -> !warp.flying<128, held = 0>
      %s = warp.wait %f : !warp.flying<128, held = 0> -> !warp.fragment<128, f32>
      warp.release %ring[%t] : !warp.ring<3, !warp.tile<128, 128, bf16>>
    }
    scf.for %t = %c0 to %c7 step %c1 : i32 {
      // expected-error @+1 {{does not count tiles from 0 by 1, so its barriers would be out of phase}}
      %k = warp.await %ring[%t] : !warp.ring<3, !warp.tile<128, 128, bf16>> -> !warp.tile<128, 128, bf16>
      %f = warp.multiply %q, %k transposed : !warp.tile<64, 128, bf16>, !warp.tile<128, 128, bf16> -> !warp.flying<128, held = 0>
      %s = warp.wait %f : !warp.flying<128, held = 0> -> !warp.fragment<128, f32>
      warp.release %ring[%t] : !warp.ring<3, !warp.tile<128, 128, bf16>>
    }
  }
  llvm.return
}

// -----

// The tiles before it are those of the loop before it.
llvm.func @other_tiles(%keys: !llvm.ptr<1>, %queries: !llvm.ptr<1>, %n: i32, %stride: i64) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c7 = arith.constant 7 : i32
  %ring = warp.ring {barriers = 131072 : i64, offset = 32768 : i64, readers = 8 : i64, writers = 128 : i64} : !warp.ring<3, !warp.tile<128, 128, bf16>>
  warp.roles producer registers 40 {
    scf.for %t = %c0 to %n step %c1 : i32 {
      %into = warp.acquire %ring[%t] : !warp.ring<3, !warp.tile<128, 128, bf16>> -> !warp.tile<128, 128, bf16>
      warp.copy %keys[%t] stride(%stride) limit(%n) into %into : !llvm.ptr<1>, !warp.tile<128, 128, bf16>
      warp.publish %ring[%t] : !warp.ring<3, !warp.tile<128, 128, bf16>>
    }
    %before = arith.maxsi %n, %c0 : i32
    scf.for %t = %c0 to %c7 step %c1 : i32 {
      %number = arith.addi %t, %before : i32
      %into = warp.acquire %ring[%number] : !warp.ring<3, !warp.tile<128, 128, bf16>> -> !warp.tile<128, 128, bf16>
      warp.copy %keys[%t] stride(%stride) limit(%n) into %into : !llvm.ptr<1>, !warp.tile<128, 128, bf16>
      warp.publish %ring[%number] : !warp.ring<3, !warp.tile<128, 128, bf16>>
    }
  } consumers 2 registers 232 {
  ^bb0(%group: i32):
    %q = warp.load %queries[%group] stride(%stride) limit(%n) {offset = 0 : i64} : !llvm.ptr<1>, !warp.tile<64, 128, bf16>
    scf.for %t = %c0 to %n step %c1 : i32 {
      %k = warp.await %ring[%t] : !warp.ring<3, !warp.tile<128, 128, bf16>> -> !warp.tile<128, 128, bf16>
      %f = warp.multiply %q, %k transposed : !warp.tile<64, 128, bf16>, !warp.tile<128, 128, bf16> -> !warp.flying<128, held = 0>
      %s = warp.wait %f : !warp.flying<128, held = 0> -> !warp.fragment<128, f32>
      warp.release %ring[%t] : !warp.ring<3, !warp.tile<128, 128, bf16>>
    }
    %before = arith.maxsi %c7, %c0 : i32
    scf.for %t = %c0 to %c7 step %c1 : i32 {
      %number = arith.addi %t, %before : i32
      // expected-error @+1 {{does not count tiles from 0 by 1, so its barriers would be out of phase}}
      %k = warp.await %ring[%number] : !warp.ring<3, !warp.tile<128, 128, bf16>> -> !warp.tile<128, 128, bf16>
      %f = warp.multiply %q, %k transposed : !warp.tile<64, 128, bf16>, !warp.tile<128, 128, bf16> -> !warp.flying<128, held = 0>
      %s = warp.wait %f : !warp.flying<128, held = 0> -> !warp.fragment<128, f32>
      warp.release %ring[%number] : !warp.ring<3, !warp.tile<128, 128, bf16>>
    }
  }
  llvm.return
}

// -----

// Who fills two loops' tiles and reads one's waits forever.
llvm.func @one_of_two(%keys: !llvm.ptr<1>, %queries: !llvm.ptr<1>, %n: i32, %stride: i64) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c7 = arith.constant 7 : i32
  %ring = warp.ring {barriers = 131072 : i64, offset = 32768 : i64, readers = 8 : i64, writers = 128 : i64} : !warp.ring<3, !warp.tile<128, 128, bf16>>
  warp.roles producer registers 40 {
    scf.for %t = %c0 to %n step %c1 : i32 {
      %into = warp.acquire %ring[%t] : !warp.ring<3, !warp.tile<128, 128, bf16>> -> !warp.tile<128, 128, bf16>
      warp.copy %keys[%t] stride(%stride) limit(%n) into %into : !llvm.ptr<1>, !warp.tile<128, 128, bf16>
      warp.publish %ring[%t] : !warp.ring<3, !warp.tile<128, 128, bf16>>
    }
    %before = arith.maxsi %n, %c0 : i32
    scf.for %t = %c0 to %c7 step %c1 : i32 {
      %number = arith.addi %t, %before : i32
      // expected-error @+1 {{is in a loop more than what reads the ring}}
      %into = warp.acquire %ring[%number] : !warp.ring<3, !warp.tile<128, 128, bf16>> -> !warp.tile<128, 128, bf16>
      warp.copy %keys[%t] stride(%stride) limit(%n) into %into : !llvm.ptr<1>, !warp.tile<128, 128, bf16>
      warp.publish %ring[%number] : !warp.ring<3, !warp.tile<128, 128, bf16>>
    }
  } consumers 2 registers 232 {
  ^bb0(%group: i32):
    %q = warp.load %queries[%group] stride(%stride) limit(%n) {offset = 0 : i64} : !llvm.ptr<1>, !warp.tile<64, 128, bf16>
    scf.for %t = %c0 to %n step %c1 : i32 {
      %k = warp.await %ring[%t] : !warp.ring<3, !warp.tile<128, 128, bf16>> -> !warp.tile<128, 128, bf16>
      %f = warp.multiply %q, %k transposed : !warp.tile<64, 128, bf16>, !warp.tile<128, 128, bf16> -> !warp.flying<128, held = 0>
      %s = warp.wait %f : !warp.flying<128, held = 0> -> !warp.fragment<128, f32>
      warp.release %ring[%t] : !warp.ring<3, !warp.tile<128, 128, bf16>>
    }
  }
  llvm.return
}

// -----

// A space over tiles comes behind everything that reads them, and ends before
// the barriers.
llvm.func @over_tiles(%keys: !llvm.ptr<1>, %queries: !llvm.ptr<1>, %n: i32, %stride: i64) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %ring = warp.ring {barriers = 131072 : i64, offset = 32768 : i64, readers = 8 : i64, writers = 128 : i64} : !warp.ring<3, !warp.tile<128, 128, bf16>>
  warp.roles producer registers 40 {
    scf.for %t = %c0 to %n step %c1 : i32 {
      %into = warp.acquire %ring[%t] : !warp.ring<3, !warp.tile<128, 128, bf16>> -> !warp.tile<128, 128, bf16>
      warp.copy %keys[%t] stride(%stride) limit(%n) into %into : !llvm.ptr<1>, !warp.tile<128, 128, bf16>
      warp.publish %ring[%t] : !warp.ring<3, !warp.tile<128, 128, bf16>>
    }
  } consumers 2 registers 232 {
  ^bb0(%group: i32):
    %q = warp.load %queries[%group] stride(%stride) limit(%n) {offset = 0 : i64} : !llvm.ptr<1>, !warp.tile<64, 128, bf16>
    scf.for %t = %c0 to %n step %c1 : i32 {
      %k = warp.await %ring[%t] : !warp.ring<3, !warp.tile<128, 128, bf16>> -> !warp.tile<128, 128, bf16>
      %f = warp.multiply %q, %k transposed : !warp.tile<64, 128, bf16>, !warp.tile<128, 128, bf16> -> !warp.flying<128, held = 0>
      %s = warp.wait %f : !warp.flying<128, held = 0> -> !warp.fragment<128, f32>
      warp.release %ring[%t] : !warp.ring<3, !warp.tile<128, 128, bf16>>
    }
    %at = warp.space 131072 over_tiles {offset = 0 : i64}
  }
  llvm.return
}

// -----

llvm.func @over_needed_tiles(%keys: !llvm.ptr<1>, %queries: !llvm.ptr<1>, %n: i32, %stride: i64) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %ring = warp.ring {barriers = 131072 : i64, offset = 32768 : i64, readers = 8 : i64, writers = 128 : i64} : !warp.ring<3, !warp.tile<128, 128, bf16>>
  warp.roles producer registers 40 {
    scf.for %t = %c0 to %n step %c1 : i32 {
      %into = warp.acquire %ring[%t] : !warp.ring<3, !warp.tile<128, 128, bf16>> -> !warp.tile<128, 128, bf16>
      warp.copy %keys[%t] stride(%stride) limit(%n) into %into : !llvm.ptr<1>, !warp.tile<128, 128, bf16>
      warp.publish %ring[%t] : !warp.ring<3, !warp.tile<128, 128, bf16>>
    }
  } consumers 2 registers 232 {
  ^bb0(%group: i32):
    %q = warp.load %queries[%group] stride(%stride) limit(%n) {offset = 0 : i64} : !llvm.ptr<1>, !warp.tile<64, 128, bf16>
    %at = warp.space 32768 over_tiles {offset = 0 : i64}
    // expected-error @+1 {{reads tiles, where a space lies over them}}
    scf.for %t = %c0 to %n step %c1 : i32 {
      %k = warp.await %ring[%t] : !warp.ring<3, !warp.tile<128, 128, bf16>> -> !warp.tile<128, 128, bf16>
      %f = warp.multiply %q, %k transposed : !warp.tile<64, 128, bf16>, !warp.tile<128, 128, bf16> -> !warp.flying<128, held = 0>
      %s = warp.wait %f : !warp.flying<128, held = 0> -> !warp.fragment<128, f32>
      warp.release %ring[%t] : !warp.ring<3, !warp.tile<128, 128, bf16>>
    }
  }
  llvm.return
}

// -----

llvm.func @over_barriers(%keys: !llvm.ptr<1>, %queries: !llvm.ptr<1>, %n: i32, %stride: i64) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %ring = warp.ring {barriers = 131072 : i64, offset = 32768 : i64, readers = 8 : i64, writers = 128 : i64} : !warp.ring<3, !warp.tile<128, 128, bf16>>
  warp.roles producer registers 40 {
    scf.for %t = %c0 to %n step %c1 : i32 {
      %into = warp.acquire %ring[%t] : !warp.ring<3, !warp.tile<128, 128, bf16>> -> !warp.tile<128, 128, bf16>
      warp.copy %keys[%t] stride(%stride) limit(%n) into %into : !llvm.ptr<1>, !warp.tile<128, 128, bf16>
      warp.publish %ring[%t] : !warp.ring<3, !warp.tile<128, 128, bf16>>
    }
  } consumers 2 registers 232 {
  ^bb0(%group: i32):
    %q = warp.load %queries[%group] stride(%stride) limit(%n) {offset = 0 : i64} : !llvm.ptr<1>, !warp.tile<64, 128, bf16>
    scf.for %t = %c0 to %n step %c1 : i32 {
      %k = warp.await %ring[%t] : !warp.ring<3, !warp.tile<128, 128, bf16>> -> !warp.tile<128, 128, bf16>
      %f = warp.multiply %q, %k transposed : !warp.tile<64, 128, bf16>, !warp.tile<128, 128, bf16> -> !warp.flying<128, held = 0>
      %s = warp.wait %f : !warp.flying<128, held = 0> -> !warp.fragment<128, f32>
      warp.release %ring[%t] : !warp.ring<3, !warp.tile<128, 128, bf16>>
    }
    // expected-error @+1 {{lies until 131200 in shared memory, tiles until 131072}}
    %at = warp.space 131200 over_tiles {offset = 0 : i64}
  }
  llvm.return
}

// -----

llvm.func @over_tiles_in_a_loop(%keys: !llvm.ptr<1>, %queries: !llvm.ptr<1>, %n: i32, %stride: i64) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %ring = warp.ring {barriers = 131072 : i64, offset = 32768 : i64, readers = 8 : i64, writers = 128 : i64} : !warp.ring<3, !warp.tile<128, 128, bf16>>
  warp.roles producer registers 40 {
    scf.for %t = %c0 to %n step %c1 : i32 {
      %into = warp.acquire %ring[%t] : !warp.ring<3, !warp.tile<128, 128, bf16>> -> !warp.tile<128, 128, bf16>
      warp.copy %keys[%t] stride(%stride) limit(%n) into %into : !llvm.ptr<1>, !warp.tile<128, 128, bf16>
      warp.publish %ring[%t] : !warp.ring<3, !warp.tile<128, 128, bf16>>
    }
  } consumers 2 registers 232 {
  ^bb0(%group: i32):
    %q = warp.load %queries[%group] stride(%stride) limit(%n) {offset = 0 : i64} : !llvm.ptr<1>, !warp.tile<64, 128, bf16>
    scf.for %t = %c0 to %n step %c1 : i32 {
      %k = warp.await %ring[%t] : !warp.ring<3, !warp.tile<128, 128, bf16>> -> !warp.tile<128, 128, bf16>
      %f = warp.multiply %q, %k transposed : !warp.tile<64, 128, bf16>, !warp.tile<128, 128, bf16> -> !warp.flying<128, held = 0>
      %s = warp.wait %f : !warp.flying<128, held = 0> -> !warp.fragment<128, f32>
      warp.release %ring[%t] : !warp.ring<3, !warp.tile<128, 128, bf16>>
    }
    scf.for %t = %c0 to %n step %c1 : i32 {
      // expected-error @+1 {{is over tiles, but not behind all loops}}
      %at = warp.space 32768 over_tiles {offset = 0 : i64}
    }
  }
  llvm.return
}

// -----

// Some of the warpgroups that compute release a stage, those that compute.
llvm.func @some(%keys: !llvm.ptr<1>, %queries: !llvm.ptr<1>, %n: i32, %some: i32, %other: i32, %stride: i64) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c7 = arith.constant 7 : i32
  %ring = warp.ring active(%some) {barriers = 131072 : i64, offset = 32768 : i64, readers = 8 : i64, writers = 128 : i64} : !warp.ring<3, !warp.tile<128, 128, bf16>>
  warp.roles producer registers 40 {
    scf.for %t = %c0 to %n step %c1 : i32 {
      %into = warp.acquire %ring[%t] : !warp.ring<3, !warp.tile<128, 128, bf16>> -> !warp.tile<128, 128, bf16>
      warp.copy %keys[%t] stride(%stride) limit(%n) into %into : !llvm.ptr<1>, !warp.tile<128, 128, bf16>
      warp.publish %ring[%t] : !warp.ring<3, !warp.tile<128, 128, bf16>>
    }
  } consumers 2 active(%some) registers 232 {
  ^bb0(%group: i32):
    %q = warp.load %queries[%group] stride(%stride) limit(%n) {offset = 0 : i64} : !llvm.ptr<1>, !warp.tile<64, 128, bf16>
    scf.for %t = %c0 to %n step %c1 : i32 {
      %k = warp.await %ring[%t] : !warp.ring<3, !warp.tile<128, 128, bf16>> -> !warp.tile<128, 128, bf16>
      %f = warp.multiply %q, %k transposed : !warp.tile<64, 128, bf16>, !warp.tile<128, 128, bf16> -> !warp.flying<128, held = 0>
      %s = warp.wait %f : !warp.flying<128, held = 0> -> !warp.fragment<128, f32>
      warp.release %ring[%t] : !warp.ring<3, !warp.tile<128, 128, bf16>>
    }
  }
  llvm.return
}

// -----

llvm.func @others(%keys: !llvm.ptr<1>, %queries: !llvm.ptr<1>, %n: i32, %some: i32, %other: i32, %stride: i64) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c7 = arith.constant 7 : i32
  // expected-error @+1 {{expects other warpgroups to release its stages than those that compute}}
  %ring = warp.ring active(%other) {barriers = 131072 : i64, offset = 32768 : i64, readers = 8 : i64, writers = 128 : i64} : !warp.ring<3, !warp.tile<128, 128, bf16>>
  warp.roles producer registers 40 {
    scf.for %t = %c0 to %n step %c1 : i32 {
      %into = warp.acquire %ring[%t] : !warp.ring<3, !warp.tile<128, 128, bf16>> -> !warp.tile<128, 128, bf16>
      warp.copy %keys[%t] stride(%stride) limit(%n) into %into : !llvm.ptr<1>, !warp.tile<128, 128, bf16>
      warp.publish %ring[%t] : !warp.ring<3, !warp.tile<128, 128, bf16>>
    }
  } consumers 2 active(%some) registers 232 {
  ^bb0(%group: i32):
    %q = warp.load %queries[%group] stride(%stride) limit(%n) {offset = 0 : i64} : !llvm.ptr<1>, !warp.tile<64, 128, bf16>
    scf.for %t = %c0 to %n step %c1 : i32 {
      %k = warp.await %ring[%t] : !warp.ring<3, !warp.tile<128, 128, bf16>> -> !warp.tile<128, 128, bf16>
      %f = warp.multiply %q, %k transposed : !warp.tile<64, 128, bf16>, !warp.tile<128, 128, bf16> -> !warp.flying<128, held = 0>
      %s = warp.wait %f : !warp.flying<128, held = 0> -> !warp.fragment<128, f32>
      warp.release %ring[%t] : !warp.ring<3, !warp.tile<128, 128, bf16>>
    }
  }
  llvm.return
}

// -----

// The others would never come.
llvm.func @meet_some(%keys: !llvm.ptr<1>, %queries: !llvm.ptr<1>, %n: i32, %some: i32, %other: i32, %stride: i64) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c7 = arith.constant 7 : i32
  %ring = warp.ring active(%some) {barriers = 131072 : i64, offset = 32768 : i64, readers = 8 : i64, writers = 128 : i64} : !warp.ring<3, !warp.tile<128, 128, bf16>>
  warp.roles producer registers 40 {
    scf.for %t = %c0 to %n step %c1 : i32 {
      %into = warp.acquire %ring[%t] : !warp.ring<3, !warp.tile<128, 128, bf16>> -> !warp.tile<128, 128, bf16>
      warp.copy %keys[%t] stride(%stride) limit(%n) into %into : !llvm.ptr<1>, !warp.tile<128, 128, bf16>
      warp.publish %ring[%t] : !warp.ring<3, !warp.tile<128, 128, bf16>>
    }
  } consumers 2 active(%some) registers 232 {
  ^bb0(%group: i32):
    %q = warp.load %queries[%group] stride(%stride) limit(%n) {offset = 0 : i64} : !llvm.ptr<1>, !warp.tile<64, 128, bf16>
    scf.for %t = %c0 to %n step %c1 : i32 {
      %k = warp.await %ring[%t] : !warp.ring<3, !warp.tile<128, 128, bf16>> -> !warp.tile<128, 128, bf16>
      %f = warp.multiply %q, %k transposed : !warp.tile<64, 128, bf16>, !warp.tile<128, 128, bf16> -> !warp.flying<128, held = 0>
      %s = warp.wait %f : !warp.flying<128, held = 0> -> !warp.fragment<128, f32>
      warp.release %ring[%t] : !warp.ring<3, !warp.tile<128, 128, bf16>>
    }
    // expected-error @+1 {{waits for all warpgroups that compute, of which some do not}}
    warp.meet
  }
  llvm.return
}

// -----

// Tiles may have fewer rows than those of a ring, for both sides.
llvm.func @of_fewer_rows(%keys: !llvm.ptr<1>, %queries: !llvm.ptr<1>, %n: i32, %stride: i64) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c7 = arith.constant 7 : i32
  %ring = warp.ring {barriers = 131072 : i64, offset = 32768 : i64, readers = 8 : i64, writers = 128 : i64} : !warp.ring<3, !warp.tile<128, 128, bf16>>
  warp.roles producer registers 40 {
    scf.for %t = %c0 to %n step %c1 : i32 {
      %into = warp.acquire %ring[%t] : !warp.ring<3, !warp.tile<128, 128, bf16>> -> !warp.tile<64, 128, bf16>
      warp.copy %keys[%t] stride(%stride) limit(%n) into %into : !llvm.ptr<1>, !warp.tile<64, 128, bf16>
      warp.publish %ring[%t] : !warp.ring<3, !warp.tile<128, 128, bf16>>
    }
  } consumers 2 registers 232 {
  ^bb0(%group: i32):
    %q = warp.load %queries[%group] stride(%stride) limit(%n) {offset = 0 : i64} : !llvm.ptr<1>, !warp.tile<64, 128, bf16>
    scf.for %t = %c0 to %n step %c1 : i32 {
      // expected-error @+1 {{reads '!warp.tile<128, 128, bf16>' where '!warp.tile<64, 128, bf16>' is filled}}
      %k = warp.await %ring[%t] : !warp.ring<3, !warp.tile<128, 128, bf16>> -> !warp.tile<128, 128, bf16>
      %f = warp.multiply %q, %k transposed : !warp.tile<64, 128, bf16>, !warp.tile<128, 128, bf16> -> !warp.flying<128, held = 0>
      %s = warp.wait %f : !warp.flying<128, held = 0> -> !warp.fragment<128, f32>
      warp.release %ring[%t] : !warp.ring<3, !warp.tile<128, 128, bf16>>
    }
  }
  llvm.return
}
