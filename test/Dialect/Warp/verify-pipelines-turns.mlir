// REQUIRES: heddle-opt
// RUN: heddle-opt %s --warp-verify-pipelines --split-input-file --verify-diagnostics -o /dev/null

// Pipelines of persistent blocks, which do several tasks in turn. Tiles of the
// turns before count, on both sides.
llvm.func @turns(%keys: !llvm.ptr<1>, %queries: !llvm.ptr<1>, %n: i32, %many: i32, %stride: i64) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %ring = warp.ring {barriers = 65536 : i64, offset = 32768 : i64, readers = 8 : i64, writers = 128 : i64} : !warp.ring<2, !warp.tile<64, 128, bf16>>
  warp.roles producer registers 40 {
    scf.for %turn = %c0 to %many step %c1 iter_args(%before = %c0) -> (i32) : i32 {
      scf.for %t = %c0 to %n step %c1 : i32 {
        %number = arith.addi %t, %before : i32
        %into = warp.acquire %ring[%number] : !warp.ring<2, !warp.tile<64, 128, bf16>> -> !warp.tile<64, 128, bf16>
        warp.copy %keys[%t] stride(%stride) limit(%n) into %into : !llvm.ptr<1>, !warp.tile<64, 128, bf16>
        warp.publish %ring[%number] : !warp.ring<2, !warp.tile<64, 128, bf16>>
      }
      %most = arith.maxsi %n, %c0 : i32
      %all = arith.addi %before, %most : i32
      scf.yield %all : i32
    }
  } consumers 2 registers 232 {
  ^bb0(%group: i32):
    scf.for %turn = %c0 to %many step %c1 iter_args(%before = %c0) -> (i32) : i32 {
      %q = warp.load %queries[%group] stride(%stride) limit(%n) {offset = 0 : i64} : !llvm.ptr<1>, !warp.tile<64, 128, bf16>
      scf.for %t = %c0 to %n step %c1 : i32 {
        %number = arith.addi %t, %before : i32
        %k = warp.await %ring[%number] : !warp.ring<2, !warp.tile<64, 128, bf16>> -> !warp.tile<64, 128, bf16>
        %f = warp.multiply %k, %q transposed : !warp.tile<64, 128, bf16>, !warp.tile<64, 128, bf16> -> !warp.flying<64, held = 0>
        %s = warp.wait %f : !warp.flying<64, held = 0> -> !warp.fragment<64, f32>
        warp.release %ring[%number] : !warp.ring<2, !warp.tile<64, 128, bf16>>
      }
      warp.meet
      %most = arith.maxsi %n, %c0 : i32
      %all = arith.addi %before, %most : i32
      scf.yield %all : i32
    }
  }
  llvm.return
}

// -----

// A turn that begins to count anew is out of phase.
llvm.func @forgets(%keys: !llvm.ptr<1>, %queries: !llvm.ptr<1>, %n: i32, %many: i32, %stride: i64) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %ring = warp.ring {barriers = 65536 : i64, offset = 32768 : i64, readers = 8 : i64, writers = 128 : i64} : !warp.ring<2, !warp.tile<64, 128, bf16>>
  warp.roles producer registers 40 {
    scf.for %turn = %c0 to %many step %c1 iter_args(%before = %c0) -> (i32) : i32 {
      scf.for %t = %c0 to %n step %c1 : i32 {
        %number = arith.addi %t, %before : i32
        // expected-error @+1 {{does not count tiles from 0 by 1, so its barriers would be out of phase}}
        %into = warp.acquire %ring[%t] : !warp.ring<2, !warp.tile<64, 128, bf16>> -> !warp.tile<64, 128, bf16>
        warp.copy %keys[%t] stride(%stride) limit(%n) into %into : !llvm.ptr<1>, !warp.tile<64, 128, bf16>
        warp.publish %ring[%t] : !warp.ring<2, !warp.tile<64, 128, bf16>>
      }
      %most = arith.maxsi %n, %c0 : i32
      %all = arith.addi %before, %most : i32
      scf.yield %all : i32
    }
  } consumers 2 registers 232 {
  ^bb0(%group: i32):
    scf.for %turn = %c0 to %many step %c1 iter_args(%before = %c0) -> (i32) : i32 {
      %q = warp.load %queries[%group] stride(%stride) limit(%n) {offset = 0 : i64} : !llvm.ptr<1>, !warp.tile<64, 128, bf16>
      scf.for %t = %c0 to %n step %c1 : i32 {
        %number = arith.addi %t, %before : i32
        %k = warp.await %ring[%number] : !warp.ring<2, !warp.tile<64, 128, bf16>> -> !warp.tile<64, 128, bf16>
        %f = warp.multiply %k, %q transposed : !warp.tile<64, 128, bf16>, !warp.tile<64, 128, bf16> -> !warp.flying<64, held = 0>
        %s = warp.wait %f : !warp.flying<64, held = 0> -> !warp.fragment<64, f32>
        warp.release %ring[%number] : !warp.ring<2, !warp.tile<64, 128, bf16>>
      }
      warp.meet
      %most = arith.maxsi %n, %c0 : i32
      %all = arith.addi %before, %most : i32
      scf.yield %all : i32
    }
  }
  llvm.return
}

// -----

// So is one that does not count its own tiles.
llvm.func @lost(%keys: !llvm.ptr<1>, %queries: !llvm.ptr<1>, %n: i32, %many: i32, %stride: i64) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %ring = warp.ring {barriers = 65536 : i64, offset = 32768 : i64, readers = 8 : i64, writers = 128 : i64} : !warp.ring<2, !warp.tile<64, 128, bf16>>
  warp.roles producer registers 40 {
    scf.for %turn = %c0 to %many step %c1 iter_args(%before = %c0) -> (i32) : i32 {
      scf.for %t = %c0 to %n step %c1 : i32 {
        %number = arith.addi %t, %before : i32
        // expected-error @+1 {{does not count tiles from 0 by 1, so its barriers would be out of phase}}
        %into = warp.acquire %ring[%number] : !warp.ring<2, !warp.tile<64, 128, bf16>> -> !warp.tile<64, 128, bf16>
        warp.copy %keys[%t] stride(%stride) limit(%n) into %into : !llvm.ptr<1>, !warp.tile<64, 128, bf16>
        warp.publish %ring[%number] : !warp.ring<2, !warp.tile<64, 128, bf16>>
      }
      %most = arith.maxsi %n, %c0 : i32
      %all = arith.addi %before, %most : i32
      scf.yield %before : i32
    }
  } consumers 2 registers 232 {
  ^bb0(%group: i32):
    scf.for %turn = %c0 to %many step %c1 iter_args(%before = %c0) -> (i32) : i32 {
      %q = warp.load %queries[%group] stride(%stride) limit(%n) {offset = 0 : i64} : !llvm.ptr<1>, !warp.tile<64, 128, bf16>
      scf.for %t = %c0 to %n step %c1 : i32 {
        %number = arith.addi %t, %before : i32
        %k = warp.await %ring[%number] : !warp.ring<2, !warp.tile<64, 128, bf16>> -> !warp.tile<64, 128, bf16>
        %f = warp.multiply %k, %q transposed : !warp.tile<64, 128, bf16>, !warp.tile<64, 128, bf16> -> !warp.flying<64, held = 0>
        %s = warp.wait %f : !warp.flying<64, held = 0> -> !warp.fragment<64, f32>
        warp.release %ring[%number] : !warp.ring<2, !warp.tile<64, 128, bf16>>
      }
      warp.meet
      %most = arith.maxsi %n, %c0 : i32
      %all = arith.addi %before, %most : i32
      scf.yield %all : i32
    }
  }
  llvm.return
}

// -----

// A tile that is brought once a turn is numbered by turns, and read until behind
// the loop.
llvm.func @queries(%keys: !llvm.ptr<1>, %queries: !llvm.ptr<1>, %n: i32, %many: i32, %stride: i64) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %of_turns = warp.ring {barriers = 49216 : i64, offset = 0 : i64, readers = 8 : i64, writers = 128 : i64} : !warp.ring<1, !warp.tile<128, 64, bf16>>
  %ring = warp.ring {barriers = 49152 : i64, offset = 32768 : i64, readers = 8 : i64, writers = 128 : i64} : !warp.ring<2, !warp.tile<64, 64, bf16>>
  warp.roles producer registers 40 {
    scf.for %turn = %c0 to %many step %c1 iter_args(%before = %c0) -> (i32) : i32 {
      %q = warp.acquire %of_turns[%turn] : !warp.ring<1, !warp.tile<128, 64, bf16>> -> !warp.tile<128, 64, bf16>
      warp.copy %queries[%turn] stride(%stride) limit(%n) into %q : !llvm.ptr<1>, !warp.tile<128, 64, bf16>
      warp.publish %of_turns[%turn] : !warp.ring<1, !warp.tile<128, 64, bf16>>
      %tiles = arith.addi %n, %turn : i32
      scf.for %t = %c0 to %tiles step %c1 : i32 {
        %number = arith.addi %t, %before : i32
        %into = warp.acquire %ring[%number] : !warp.ring<2, !warp.tile<64, 64, bf16>> -> !warp.tile<64, 64, bf16>
        warp.copy %keys[%t] stride(%stride) limit(%n) into %into : !llvm.ptr<1>, !warp.tile<64, 64, bf16>
        warp.publish %ring[%number] : !warp.ring<2, !warp.tile<64, 64, bf16>>
      }
      %most = arith.maxsi %tiles, %c0 : i32
      %all = arith.addi %before, %most : i32
      scf.yield %all : i32
    }
  } consumers 2 registers 232 {
  ^bb0(%group: i32):
    scf.for %turn = %c0 to %many step %c1 iter_args(%before = %c0) -> (i32) : i32 {
      %q = warp.await %of_turns[%turn] : !warp.ring<1, !warp.tile<128, 64, bf16>> -> !warp.tile<128, 64, bf16>
      %tiles = arith.addi %n, %turn : i32
      scf.for %t = %c0 to %tiles step %c1 : i32 {
        %number = arith.addi %t, %before : i32
        %k = warp.await %ring[%number] : !warp.ring<2, !warp.tile<64, 64, bf16>> -> !warp.tile<64, 64, bf16>
        %f = warp.multiply %q, %k transposed : !warp.tile<128, 64, bf16>, !warp.tile<64, 64, bf16> -> !warp.flying<64, held = 0>
        %s = warp.wait %f : !warp.flying<64, held = 0> -> !warp.fragment<64, f32>
        warp.release %ring[%number] : !warp.ring<2, !warp.tile<64, 64, bf16>>
      }
      warp.release %of_turns[%turn] : !warp.ring<1, !warp.tile<128, 64, bf16>>
      %most = arith.maxsi %tiles, %c0 : i32
      %all = arith.addi %before, %most : i32
      scf.yield %all : i32
    }
  }
  llvm.return
}

// -----

// Released before its last use, which is in the loop.
llvm.func @released(%keys: !llvm.ptr<1>, %queries: !llvm.ptr<1>, %n: i32, %many: i32, %stride: i64) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %of_turns = warp.ring {barriers = 49216 : i64, offset = 0 : i64, readers = 8 : i64, writers = 128 : i64} : !warp.ring<1, !warp.tile<128, 64, bf16>>
  %ring = warp.ring {barriers = 49152 : i64, offset = 32768 : i64, readers = 8 : i64, writers = 128 : i64} : !warp.ring<2, !warp.tile<64, 64, bf16>>
  warp.roles producer registers 40 {
    scf.for %turn = %c0 to %many step %c1 iter_args(%before = %c0) -> (i32) : i32 {
      %q = warp.acquire %of_turns[%turn] : !warp.ring<1, !warp.tile<128, 64, bf16>> -> !warp.tile<128, 64, bf16>
      warp.copy %queries[%turn] stride(%stride) limit(%n) into %q : !llvm.ptr<1>, !warp.tile<128, 64, bf16>
      warp.publish %of_turns[%turn] : !warp.ring<1, !warp.tile<128, 64, bf16>>
      %tiles = arith.addi %n, %turn : i32
      scf.for %t = %c0 to %tiles step %c1 : i32 {
        %number = arith.addi %t, %before : i32
        %into = warp.acquire %ring[%number] : !warp.ring<2, !warp.tile<64, 64, bf16>> -> !warp.tile<64, 64, bf16>
        warp.copy %keys[%t] stride(%stride) limit(%n) into %into : !llvm.ptr<1>, !warp.tile<64, 64, bf16>
        warp.publish %ring[%number] : !warp.ring<2, !warp.tile<64, 64, bf16>>
      }
      %most = arith.maxsi %tiles, %c0 : i32
      %all = arith.addi %before, %most : i32
      scf.yield %all : i32
    }
  } consumers 2 registers 232 {
  ^bb0(%group: i32):
    scf.for %turn = %c0 to %many step %c1 iter_args(%before = %c0) -> (i32) : i32 {
      %q = warp.await %of_turns[%turn] : !warp.ring<1, !warp.tile<128, 64, bf16>> -> !warp.tile<128, 64, bf16>
      // expected-error @+1 {{does not come after scf.for in its block}}
      warp.release %of_turns[%turn] : !warp.ring<1, !warp.tile<128, 64, bf16>>
      %tiles = arith.addi %n, %turn : i32
      scf.for %t = %c0 to %tiles step %c1 : i32 {
        %number = arith.addi %t, %before : i32
        %k = warp.await %ring[%number] : !warp.ring<2, !warp.tile<64, 64, bf16>> -> !warp.tile<64, 64, bf16>
        %f = warp.multiply %q, %k transposed : !warp.tile<128, 64, bf16>, !warp.tile<64, 64, bf16> -> !warp.flying<64, held = 0>
        %s = warp.wait %f : !warp.flying<64, held = 0> -> !warp.fragment<64, f32>
        warp.release %ring[%number] : !warp.ring<2, !warp.tile<64, 64, bf16>>
      }
      %most = arith.maxsi %tiles, %c0 : i32
      %all = arith.addi %before, %most : i32
      scf.yield %all : i32
    }
  }
  llvm.return
}

// -----

// The producer would wait for those that wait for it.
llvm.func @meets(%keys: !llvm.ptr<1>, %queries: !llvm.ptr<1>, %n: i32, %many: i32, %stride: i64) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %ring = warp.ring {barriers = 65536 : i64, offset = 32768 : i64, readers = 8 : i64, writers = 128 : i64} : !warp.ring<2, !warp.tile<64, 128, bf16>>
  warp.roles producer registers 40 {
    scf.for %turn = %c0 to %many step %c1 iter_args(%before = %c0) -> (i32) : i32 {
      scf.for %t = %c0 to %n step %c1 : i32 {
        %number = arith.addi %t, %before : i32
        %into = warp.acquire %ring[%number] : !warp.ring<2, !warp.tile<64, 128, bf16>> -> !warp.tile<64, 128, bf16>
        warp.copy %keys[%t] stride(%stride) limit(%n) into %into : !llvm.ptr<1>, !warp.tile<64, 128, bf16>
        warp.publish %ring[%number] : !warp.ring<2, !warp.tile<64, 128, bf16>>
      }
      // expected-error @+1 {{is not among the warpgroups that compute, which would wait for each other without end}}
      warp.meet
      %most = arith.maxsi %n, %c0 : i32
      %all = arith.addi %before, %most : i32
      scf.yield %all : i32
    }
  } consumers 2 registers 232 {
  ^bb0(%group: i32):
    scf.for %turn = %c0 to %many step %c1 iter_args(%before = %c0) -> (i32) : i32 {
      %q = warp.load %queries[%group] stride(%stride) limit(%n) {offset = 0 : i64} : !llvm.ptr<1>, !warp.tile<64, 128, bf16>
      scf.for %t = %c0 to %n step %c1 : i32 {
        %number = arith.addi %t, %before : i32
        %k = warp.await %ring[%number] : !warp.ring<2, !warp.tile<64, 128, bf16>> -> !warp.tile<64, 128, bf16>
        %f = warp.multiply %k, %q transposed : !warp.tile<64, 128, bf16>, !warp.tile<64, 128, bf16> -> !warp.flying<64, held = 0>
        %s = warp.wait %f : !warp.flying<64, held = 0> -> !warp.fragment<64, f32>
        warp.release %ring[%number] : !warp.ring<2, !warp.tile<64, 128, bf16>>
      }
      warp.meet
      %most = arith.maxsi %n, %c0 : i32
      %all = arith.addi %before, %most : i32
      scf.yield %all : i32
    }
  }
  llvm.return
}

// -----

// A warpgroup that is idle passes what the loop leaves to one behind it: all tiles or
// none.
llvm.func @passes(%keys: !llvm.ptr<1>, %queries: !llvm.ptr<1>, %n: i32, %many: i32, %none: i1, %stride: i64) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %all_lanes = arith.constant -1 : i32
  %ring = warp.ring {barriers = 65536 : i64, offset = 32768 : i64, readers = 8 : i64, writers = 128 : i64} : !warp.ring<2, !warp.tile<64, 128, bf16>>
  warp.roles producer registers 40 {
    scf.for %turn = %c0 to %many step %c1 iter_args(%before = %c0) -> (i32) : i32 {
      scf.for %t = %c0 to %n step %c1 : i32 {
        %number = arith.addi %t, %before : i32
        %into = warp.acquire %ring[%number] : !warp.ring<2, !warp.tile<64, 128, bf16>> -> !warp.tile<64, 128, bf16>
        warp.copy %keys[%t] stride(%stride) limit(%n) into %into : !llvm.ptr<1>, !warp.tile<64, 128, bf16>
        warp.publish %ring[%number] : !warp.ring<2, !warp.tile<64, 128, bf16>>
      }
      %most = arith.maxsi %n, %c0 : i32
      %all = arith.addi %before, %most : i32
      scf.yield %all : i32
    }
  } consumers 2 registers 232 {
  ^bb0(%group: i32):
    scf.for %turn = %c0 to %many step %c1 iter_args(%before = %c0) -> (i32) : i32 {
      %q = warp.load %queries[%group] stride(%stride) limit(%n) {offset = 0 : i64} : !llvm.ptr<1>, !warp.tile<64, 128, bf16>
      %own = arith.select %none, %c0, %n : i32
      scf.for %t = %c0 to %own step %c1 : i32 {
        %number = arith.addi %t, %before : i32
        %k = warp.await %ring[%number] : !warp.ring<2, !warp.tile<64, 128, bf16>> -> !warp.tile<64, 128, bf16>
        %f = warp.multiply %k, %q transposed : !warp.tile<64, 128, bf16>, !warp.tile<64, 128, bf16> -> !warp.flying<64, held = 0>
        %s = warp.wait %f : !warp.flying<64, held = 0> -> !warp.fragment<64, f32>
        warp.release %ring[%number] : !warp.ring<2, !warp.tile<64, 128, bf16>>
      }
      scf.for %t = %own to %n step %c1 : i32 {
        %number = arith.addi %t, %before : i32
        %k = warp.await %ring[%number] : !warp.ring<2, !warp.tile<64, 128, bf16>> -> !warp.tile<64, 128, bf16>
        nvvm.bar.warp.sync %all_lanes : i32
        warp.release %ring[%number] : !warp.ring<2, !warp.tile<64, 128, bf16>>
      }
      %most = arith.maxsi %n, %c0 : i32
      %all = arith.addi %before, %most : i32
      scf.yield %all : i32
    }
  }
  llvm.return
}

// -----

// A lane that is behind would miss a phase.
llvm.func @apart(%keys: !llvm.ptr<1>, %queries: !llvm.ptr<1>, %n: i32, %many: i32, %none: i1, %stride: i64) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %ring = warp.ring {barriers = 65536 : i64, offset = 32768 : i64, readers = 8 : i64, writers = 128 : i64} : !warp.ring<2, !warp.tile<64, 128, bf16>>
  warp.roles producer registers 40 {
    scf.for %turn = %c0 to %many step %c1 iter_args(%before = %c0) -> (i32) : i32 {
      scf.for %t = %c0 to %n step %c1 : i32 {
        %number = arith.addi %t, %before : i32
        %into = warp.acquire %ring[%number] : !warp.ring<2, !warp.tile<64, 128, bf16>> -> !warp.tile<64, 128, bf16>
        warp.copy %keys[%t] stride(%stride) limit(%n) into %into : !llvm.ptr<1>, !warp.tile<64, 128, bf16>
        warp.publish %ring[%number] : !warp.ring<2, !warp.tile<64, 128, bf16>>
      }
      %most = arith.maxsi %n, %c0 : i32
      %all = arith.addi %before, %most : i32
      scf.yield %all : i32
    }
  } consumers 2 registers 232 {
  ^bb0(%group: i32):
    scf.for %turn = %c0 to %many step %c1 iter_args(%before = %c0) -> (i32) : i32 {
      %q = warp.load %queries[%group] stride(%stride) limit(%n) {offset = 0 : i64} : !llvm.ptr<1>, !warp.tile<64, 128, bf16>
      %own = arith.select %none, %c0, %n : i32
      scf.for %t = %c0 to %own step %c1 : i32 {
        %number = arith.addi %t, %before : i32
        %k = warp.await %ring[%number] : !warp.ring<2, !warp.tile<64, 128, bf16>> -> !warp.tile<64, 128, bf16>
        %f = warp.multiply %k, %q transposed : !warp.tile<64, 128, bf16>, !warp.tile<64, 128, bf16> -> !warp.flying<64, held = 0>
        %s = warp.wait %f : !warp.flying<64, held = 0> -> !warp.fragment<64, f32>
        warp.release %ring[%number] : !warp.ring<2, !warp.tile<64, 128, bf16>>
      }
      scf.for %t = %own to %n step %c1 : i32 {
        %number = arith.addi %t, %before : i32
        %k = warp.await %ring[%number] : !warp.ring<2, !warp.tile<64, 128, bf16>> -> !warp.tile<64, 128, bf16>
        // expected-error @+1 {{is of one lane for its warp, whose others may still wait for the stage; they do not meet in front of it}}
        warp.release %ring[%number] : !warp.ring<2, !warp.tile<64, 128, bf16>>
      }
      %most = arith.maxsi %n, %c0 : i32
      %all = arith.addi %before, %most : i32
      scf.yield %all : i32
    }
  }
  llvm.return
}

// -----

// A stage would be empty before it is full.
llvm.func @early(%keys: !llvm.ptr<1>, %queries: !llvm.ptr<1>, %n: i32, %many: i32, %none: i1, %stride: i64) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %ring = warp.ring {barriers = 65536 : i64, offset = 32768 : i64, readers = 8 : i64, writers = 128 : i64} : !warp.ring<2, !warp.tile<64, 128, bf16>>
  warp.roles producer registers 40 {
    scf.for %turn = %c0 to %many step %c1 iter_args(%before = %c0) -> (i32) : i32 {
      scf.for %t = %c0 to %n step %c1 : i32 {
        %number = arith.addi %t, %before : i32
        %into = warp.acquire %ring[%number] : !warp.ring<2, !warp.tile<64, 128, bf16>> -> !warp.tile<64, 128, bf16>
        warp.copy %keys[%t] stride(%stride) limit(%n) into %into : !llvm.ptr<1>, !warp.tile<64, 128, bf16>
        warp.publish %ring[%number] : !warp.ring<2, !warp.tile<64, 128, bf16>>
      }
      %most = arith.maxsi %n, %c0 : i32
      %all = arith.addi %before, %most : i32
      scf.yield %all : i32
    }
  } consumers 2 registers 232 {
  ^bb0(%group: i32):
    scf.for %turn = %c0 to %many step %c1 iter_args(%before = %c0) -> (i32) : i32 {
      %q = warp.load %queries[%group] stride(%stride) limit(%n) {offset = 0 : i64} : !llvm.ptr<1>, !warp.tile<64, 128, bf16>
      %own = arith.select %none, %c0, %n : i32
      scf.for %t = %c0 to %own step %c1 : i32 {
        %number = arith.addi %t, %before : i32
        %k = warp.await %ring[%number] : !warp.ring<2, !warp.tile<64, 128, bf16>> -> !warp.tile<64, 128, bf16>
        %f = warp.multiply %k, %q transposed : !warp.tile<64, 128, bf16>, !warp.tile<64, 128, bf16> -> !warp.flying<64, held = 0>
        %s = warp.wait %f : !warp.flying<64, held = 0> -> !warp.fragment<64, f32>
        warp.release %ring[%number] : !warp.ring<2, !warp.tile<64, 128, bf16>>
      }
      scf.for %t = %own to %n step %c1 : i32 {
        %number = arith.addi %t, %before : i32
        // expected-error @+1 {{does not come after warp.await in its block}}
        warp.release %ring[%number] : !warp.ring<2, !warp.tile<64, 128, bf16>>
        %k = warp.await %ring[%number] : !warp.ring<2, !warp.tile<64, 128, bf16>> -> !warp.tile<64, 128, bf16>
      }
      %most = arith.maxsi %n, %c0 : i32
      %all = arith.addi %before, %most : i32
      scf.yield %all : i32
    }
  }
  llvm.return
}

// -----

// Nobody would release the tiles that a warpgroup leaves out.
llvm.func @leaves(%keys: !llvm.ptr<1>, %queries: !llvm.ptr<1>, %n: i32, %many: i32, %none: i1, %stride: i64) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %ring = warp.ring {barriers = 65536 : i64, offset = 32768 : i64, readers = 8 : i64, writers = 128 : i64} : !warp.ring<2, !warp.tile<64, 128, bf16>>
  warp.roles producer registers 40 {
    scf.for %turn = %c0 to %many step %c1 iter_args(%before = %c0) -> (i32) : i32 {
      scf.for %t = %c0 to %n step %c1 : i32 {
        %number = arith.addi %t, %before : i32
        %into = warp.acquire %ring[%number] : !warp.ring<2, !warp.tile<64, 128, bf16>> -> !warp.tile<64, 128, bf16>
        warp.copy %keys[%t] stride(%stride) limit(%n) into %into : !llvm.ptr<1>, !warp.tile<64, 128, bf16>
        warp.publish %ring[%number] : !warp.ring<2, !warp.tile<64, 128, bf16>>
      }
      %most = arith.maxsi %n, %c0 : i32
      %all = arith.addi %before, %most : i32
      scf.yield %all : i32
    }
  } consumers 2 registers 232 {
  ^bb0(%group: i32):
    scf.for %turn = %c0 to %many step %c1 iter_args(%before = %c0) -> (i32) : i32 {
      %q = warp.load %queries[%group] stride(%stride) limit(%n) {offset = 0 : i64} : !llvm.ptr<1>, !warp.tile<64, 128, bf16>
      %own = arith.select %none, %c0, %n : i32
      scf.for %t = %c0 to %own step %c1 : i32 {
        %number = arith.addi %t, %before : i32
        // expected-error @+1 {{is in a loop of other length than that which fills the ring}}
        %k = warp.await %ring[%number] : !warp.ring<2, !warp.tile<64, 128, bf16>> -> !warp.tile<64, 128, bf16>
        %f = warp.multiply %k, %q transposed : !warp.tile<64, 128, bf16>, !warp.tile<64, 128, bf16> -> !warp.flying<64, held = 0>
        %s = warp.wait %f : !warp.flying<64, held = 0> -> !warp.fragment<64, f32>
        warp.release %ring[%number] : !warp.ring<2, !warp.tile<64, 128, bf16>>
      }
      %most = arith.maxsi %n, %c0 : i32
      %all = arith.addi %before, %most : i32
      scf.yield %all : i32
    }
  }
  llvm.return
}

// -----

// That some tiles are computed and some passed is not known to be all of them.
llvm.func @halves(%keys: !llvm.ptr<1>, %queries: !llvm.ptr<1>, %n: i32, %many: i32, %none: i1, %stride: i64) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %all_lanes = arith.constant -1 : i32
  %ring = warp.ring {barriers = 65536 : i64, offset = 32768 : i64, readers = 8 : i64, writers = 128 : i64} : !warp.ring<2, !warp.tile<64, 128, bf16>>
  warp.roles producer registers 40 {
    scf.for %turn = %c0 to %many step %c1 iter_args(%before = %c0) -> (i32) : i32 {
      scf.for %t = %c0 to %n step %c1 : i32 {
        %number = arith.addi %t, %before : i32
        %into = warp.acquire %ring[%number] : !warp.ring<2, !warp.tile<64, 128, bf16>> -> !warp.tile<64, 128, bf16>
        warp.copy %keys[%t] stride(%stride) limit(%n) into %into : !llvm.ptr<1>, !warp.tile<64, 128, bf16>
        warp.publish %ring[%number] : !warp.ring<2, !warp.tile<64, 128, bf16>>
      }
      %most = arith.maxsi %n, %c0 : i32
      %all = arith.addi %before, %most : i32
      scf.yield %all : i32
    }
  } consumers 2 registers 232 {
  ^bb0(%group: i32):
    scf.for %turn = %c0 to %many step %c1 iter_args(%before = %c0) -> (i32) : i32 {
      %q = warp.load %queries[%group] stride(%stride) limit(%n) {offset = 0 : i64} : !llvm.ptr<1>, !warp.tile<64, 128, bf16>
      %half = arith.shrsi %n, %c1 : i32
      %own = arith.select %none, %half, %n : i32
      scf.for %t = %c0 to %own step %c1 : i32 {
        %number = arith.addi %t, %before : i32
        // expected-error @+1 {{is in a loop of other length than that which fills the ring}}
        %k = warp.await %ring[%number] : !warp.ring<2, !warp.tile<64, 128, bf16>> -> !warp.tile<64, 128, bf16>
        %f = warp.multiply %k, %q transposed : !warp.tile<64, 128, bf16>, !warp.tile<64, 128, bf16> -> !warp.flying<64, held = 0>
        %s = warp.wait %f : !warp.flying<64, held = 0> -> !warp.fragment<64, f32>
        warp.release %ring[%number] : !warp.ring<2, !warp.tile<64, 128, bf16>>
      }
      scf.for %t = %own to %n step %c1 : i32 {
        %number = arith.addi %t, %before : i32
        %k = warp.await %ring[%number] : !warp.ring<2, !warp.tile<64, 128, bf16>> -> !warp.tile<64, 128, bf16>
        nvvm.bar.warp.sync %all_lanes : i32
        warp.release %ring[%number] : !warp.ring<2, !warp.tile<64, 128, bf16>>
      }
      %most = arith.maxsi %n, %c0 : i32
      %all = arith.addi %before, %most : i32
      scf.yield %all : i32
    }
  }
  llvm.return
}
