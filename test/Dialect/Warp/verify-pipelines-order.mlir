// REQUIRES: heddle-opt
// RUN: heddle-opt %s --warp-verify-pipelines --split-input-file --verify-diagnostics -o /dev/null

// Warpgroups that start products in order come as often as each other.
// Each of two warpgroups starts its product in its turn.
llvm.func @ordered(%keys: !llvm.ptr<1>, %n: i32, %some: i1, %stride: i64) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %ring = warp.ring {barriers = 65536 : i64, offset = 32768 : i64, readers = 8 : i64, writers = 128 : i64} : !warp.ring<2, !warp.tile<64, 128, bf16>>
  warp.roles producer registers 40 {
    scf.for %t = %c0 to %n step %c1 : i32 {
      %into = warp.acquire %ring[%t] : !warp.ring<2, !warp.tile<64, 128, bf16>> -> !warp.tile<64, 128, bf16>
      warp.copy %keys[%t] stride(%stride) limit(%n) into %into : !llvm.ptr<1>, !warp.tile<64, 128, bf16>
      warp.publish %ring[%t] : !warp.ring<2, !warp.tile<64, 128, bf16>>
    }
  } consumers 2 registers 232 {
  ^bb0(%group: i32):
    %q = warp.load %keys[%group] stride(%stride) limit(%n) {offset = 0 : i64} : !llvm.ptr<1>, !warp.tile<64, 128, bf16>
    warp.order_begin
    scf.for %t = %c0 to %n step %c1 : i32 {
      %k = warp.await %ring[%t] : !warp.ring<2, !warp.tile<64, 128, bf16>> -> !warp.tile<64, 128, bf16>
      warp.order_wait
      %f = warp.multiply %q, %k transposed : !warp.tile<64, 128, bf16>, !warp.tile<64, 128, bf16> -> !warp.flying<64, held = 0>
      warp.order_arrive
      %s = warp.wait %f : !warp.flying<64, held = 0> -> !warp.fragment<64, f32>
      warp.release %ring[%t] : !warp.ring<2, !warp.tile<64, 128, bf16>>
    }
    warp.order_end
  }
  llvm.return
}

// -----

// Products that may be on their way are waited for where one row of the
// warpgroup asks for it: by all of its warps, or by none.
llvm.func @together(%keys: !llvm.ptr<1>, %n: i32, %stride: i64, %one: i1) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %ring = warp.ring {barriers = 65536 : i64, offset = 32768 : i64, readers = 8 : i64, writers = 128 : i64} : !warp.ring<2, !warp.tile<64, 128, bf16>>
  warp.roles producer registers 40 {
    scf.for %t = %c0 to %n step %c1 : i32 {
      %into = warp.acquire %ring[%t] : !warp.ring<2, !warp.tile<64, 128, bf16>> -> !warp.tile<64, 128, bf16>
      warp.copy %keys[%t] stride(%stride) limit(%n) into %into : !llvm.ptr<1>, !warp.tile<64, 128, bf16>
      warp.publish %ring[%t] : !warp.ring<2, !warp.tile<64, 128, bf16>>
    }
  } consumers 2 registers 232 {
  ^bb0(%group: i32):
    %q = warp.load %keys[%group] stride(%stride) limit(%n) {offset = 0 : i64} : !llvm.ptr<1>, !warp.tile<64, 128, bf16>
    scf.for %t = %c0 to %n step %c1 : i32 {
      %k = warp.await %ring[%t] : !warp.ring<2, !warp.tile<64, 128, bf16>> -> !warp.tile<64, 128, bf16>
      %f = warp.multiply %q, %k transposed : !warp.tile<64, 128, bf16>, !warp.tile<64, 128, bf16> -> !warp.flying<64, held = 0>
      %large = warp.map() {
      ^bb0(%row: i32, %column: i32):
        warp.yield %one : i1
      } : () -> !warp.fragment<1, i1>
      %any = warp.any %large of warpgroup : <1, i1>
      scf.if %any {
        %there = warp.wait %f : !warp.flying<64, held = 0> -> !warp.fragment<64, f32>
      }
      %s = warp.wait %f : !warp.flying<64, held = 0> -> !warp.fragment<64, f32>
      warp.release %ring[%t] : !warp.ring<2, !warp.tile<64, 128, bf16>>
    }
  }
  llvm.return
}

// -----

llvm.func @apart(%keys: !llvm.ptr<1>, %n: i32, %stride: i64, %one: i1) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %ring = warp.ring {barriers = 65536 : i64, offset = 32768 : i64, readers = 8 : i64, writers = 128 : i64} : !warp.ring<2, !warp.tile<64, 128, bf16>>
  warp.roles producer registers 40 {
    scf.for %t = %c0 to %n step %c1 : i32 {
      %into = warp.acquire %ring[%t] : !warp.ring<2, !warp.tile<64, 128, bf16>> -> !warp.tile<64, 128, bf16>
      warp.copy %keys[%t] stride(%stride) limit(%n) into %into : !llvm.ptr<1>, !warp.tile<64, 128, bf16>
      warp.publish %ring[%t] : !warp.ring<2, !warp.tile<64, 128, bf16>>
    }
  } consumers 2 registers 232 {
  ^bb0(%group: i32):
    %q = warp.load %keys[%group] stride(%stride) limit(%n) {offset = 0 : i64} : !llvm.ptr<1>, !warp.tile<64, 128, bf16>
    scf.for %t = %c0 to %n step %c1 : i32 {
      %k = warp.await %ring[%t] : !warp.ring<2, !warp.tile<64, 128, bf16>> -> !warp.tile<64, 128, bf16>
      %f = warp.multiply %q, %k transposed : !warp.tile<64, 128, bf16>, !warp.tile<64, 128, bf16> -> !warp.flying<64, held = 0>
      %large = warp.map() {
      ^bb0(%row: i32, %column: i32):
        warp.yield %one : i1
      } : () -> !warp.fragment<1, i1>
      %any = warp.any %large : <1, i1>
      scf.if %any {
        // expected-error @+1 {{is done by all warps of a warpgroup together, but stands in a branch by what one of them has found; ask for an element 'of warpgroup'}}
        %there = warp.wait %f : !warp.flying<64, held = 0> -> !warp.fragment<64, f32>
      }
      %s = warp.wait %f : !warp.flying<64, held = 0> -> !warp.fragment<64, f32>
      warp.release %ring[%t] : !warp.ring<2, !warp.tile<64, 128, bf16>>
    }
  }
  llvm.return
}

// -----

llvm.func @apart_by_both(%keys: !llvm.ptr<1>, %n: i32, %stride: i64, %one: i1) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %ring = warp.ring {barriers = 65536 : i64, offset = 32768 : i64, readers = 8 : i64, writers = 128 : i64} : !warp.ring<2, !warp.tile<64, 128, bf16>>
  warp.roles producer registers 40 {
    scf.for %t = %c0 to %n step %c1 : i32 {
      %into = warp.acquire %ring[%t] : !warp.ring<2, !warp.tile<64, 128, bf16>> -> !warp.tile<64, 128, bf16>
      warp.copy %keys[%t] stride(%stride) limit(%n) into %into : !llvm.ptr<1>, !warp.tile<64, 128, bf16>
      warp.publish %ring[%t] : !warp.ring<2, !warp.tile<64, 128, bf16>>
    }
  } consumers 2 registers 232 {
  ^bb0(%group: i32):
    %q = warp.load %keys[%group] stride(%stride) limit(%n) {offset = 0 : i64} : !llvm.ptr<1>, !warp.tile<64, 128, bf16>
    scf.for %t = %c0 to %n step %c1 : i32 {
      %k = warp.await %ring[%t] : !warp.ring<2, !warp.tile<64, 128, bf16>> -> !warp.tile<64, 128, bf16>
      %f = warp.multiply %q, %k transposed : !warp.tile<64, 128, bf16>, !warp.tile<64, 128, bf16> -> !warp.flying<64, held = 0>
      %large = warp.map() {
      ^bb0(%row: i32, %column: i32):
        warp.yield %one : i1
      } : () -> !warp.fragment<1, i1>
      %own = warp.any %large : <1, i1>
      %all = warp.any %large of warpgroup : <1, i1>
      %any = arith.andi %own, %all : i1
      scf.if %any {
        // expected-error @+1 {{is done by all warps of a warpgroup together, but stands in a branch by what one of them has found; ask for an element 'of warpgroup'}}
        %there = warp.wait %f : !warp.flying<64, held = 0> -> !warp.fragment<64, f32>
      }
      %s = warp.wait %f : !warp.flying<64, held = 0> -> !warp.fragment<64, f32>
      warp.release %ring[%t] : !warp.ring<2, !warp.tile<64, 128, bf16>>
    }
  }
  llvm.return
}

// -----

llvm.func @apart_in_a_loop(%keys: !llvm.ptr<1>, %n: i32, %stride: i64, %one: i1) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %ring = warp.ring {barriers = 65536 : i64, offset = 32768 : i64, readers = 8 : i64, writers = 128 : i64} : !warp.ring<2, !warp.tile<64, 128, bf16>>
  warp.roles producer registers 40 {
    scf.for %t = %c0 to %n step %c1 : i32 {
      %into = warp.acquire %ring[%t] : !warp.ring<2, !warp.tile<64, 128, bf16>> -> !warp.tile<64, 128, bf16>
      warp.copy %keys[%t] stride(%stride) limit(%n) into %into : !llvm.ptr<1>, !warp.tile<64, 128, bf16>
      warp.publish %ring[%t] : !warp.ring<2, !warp.tile<64, 128, bf16>>
    }
  } consumers 2 registers 232 {
  ^bb0(%group: i32):
    %q = warp.load %keys[%group] stride(%stride) limit(%n) {offset = 0 : i64} : !llvm.ptr<1>, !warp.tile<64, 128, bf16>
    scf.for %t = %c0 to %n step %c1 : i32 {
      %k = warp.await %ring[%t] : !warp.ring<2, !warp.tile<64, 128, bf16>> -> !warp.tile<64, 128, bf16>
      %f = warp.multiply %q, %k transposed : !warp.tile<64, 128, bf16>, !warp.tile<64, 128, bf16> -> !warp.flying<64, held = 0>
      %large = warp.map() {
      ^bb0(%row: i32, %column: i32):
        warp.yield %one : i1
      } : () -> !warp.fragment<1, i1>
      %own = warp.any %large : <1, i1>
      scf.while : () -> () {
        scf.condition(%own)
      } do {
        // expected-error @+1 {{is done by all warps of a warpgroup together, but stands in a branch by what one of them has found; ask for an element 'of warpgroup'}}
        %there = warp.wait %f : !warp.flying<64, held = 0> -> !warp.fragment<64, f32>
        scf.yield
      }
      %s = warp.wait %f : !warp.flying<64, held = 0> -> !warp.fragment<64, f32>
      warp.release %ring[%t] : !warp.ring<2, !warp.tile<64, 128, bf16>>
    }
  }
  llvm.return
}

// -----

llvm.func @apart_through_a_branch(%keys: !llvm.ptr<1>, %n: i32, %stride: i64, %one: i1) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %ring = warp.ring {barriers = 65536 : i64, offset = 32768 : i64, readers = 8 : i64, writers = 128 : i64} : !warp.ring<2, !warp.tile<64, 128, bf16>>
  warp.roles producer registers 40 {
    scf.for %t = %c0 to %n step %c1 : i32 {
      %into = warp.acquire %ring[%t] : !warp.ring<2, !warp.tile<64, 128, bf16>> -> !warp.tile<64, 128, bf16>
      warp.copy %keys[%t] stride(%stride) limit(%n) into %into : !llvm.ptr<1>, !warp.tile<64, 128, bf16>
      warp.publish %ring[%t] : !warp.ring<2, !warp.tile<64, 128, bf16>>
    }
  } consumers 2 registers 232 {
  ^bb0(%group: i32):
    %q = warp.load %keys[%group] stride(%stride) limit(%n) {offset = 0 : i64} : !llvm.ptr<1>, !warp.tile<64, 128, bf16>
    scf.for %t = %c0 to %n step %c1 : i32 {
      %k = warp.await %ring[%t] : !warp.ring<2, !warp.tile<64, 128, bf16>> -> !warp.tile<64, 128, bf16>
      %f = warp.multiply %q, %k transposed : !warp.tile<64, 128, bf16>, !warp.tile<64, 128, bf16> -> !warp.flying<64, held = 0>
      %large = warp.map() {
      ^bb0(%row: i32, %column: i32):
        warp.yield %one : i1
      } : () -> !warp.fragment<1, i1>
      %own = warp.any %large : <1, i1>
      %any = scf.if %own -> i1 {
        scf.yield %one : i1
      } else {
        scf.yield %own : i1
      }
      scf.if %any {
        // expected-error @+1 {{is done by all warps of a warpgroup together, but stands in a branch by what one of them has found; ask for an element 'of warpgroup'}}
        %there = warp.wait %f : !warp.flying<64, held = 0> -> !warp.fragment<64, f32>
      }
      %s = warp.wait %f : !warp.flying<64, held = 0> -> !warp.fragment<64, f32>
      warp.release %ring[%t] : !warp.ring<2, !warp.tile<64, 128, bf16>>
    }
  }
  llvm.return
}

// -----

llvm.func @elsewhere(%keys: !llvm.ptr<1>, %n: i32, %stride: i64, %one: i1) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %ring = warp.ring {barriers = 65536 : i64, offset = 32768 : i64, readers = 8 : i64, writers = 128 : i64} : !warp.ring<2, !warp.tile<64, 128, bf16>>
  warp.roles producer registers 40 {
    %large = warp.map() {
    ^bb0(%row: i32, %column: i32):
      warp.yield %one : i1
    } : () -> !warp.fragment<1, i1>
    // expected-error @+1 {{is not among the warpgroups that compute, whose barriers it has}}
    %all = warp.any %large of warpgroup : <1, i1>
    scf.for %t = %c0 to %n step %c1 : i32 {
      %into = warp.acquire %ring[%t] : !warp.ring<2, !warp.tile<64, 128, bf16>> -> !warp.tile<64, 128, bf16>
      warp.copy %keys[%t] stride(%stride) limit(%n) into %into : !llvm.ptr<1>, !warp.tile<64, 128, bf16>
      warp.publish %ring[%t] : !warp.ring<2, !warp.tile<64, 128, bf16>>
    }
  } consumers 2 registers 232 {
  ^bb0(%group: i32):
    %q = warp.load %keys[%group] stride(%stride) limit(%n) {offset = 0 : i64} : !llvm.ptr<1>, !warp.tile<64, 128, bf16>
    scf.for %t = %c0 to %n step %c1 : i32 {
      %k = warp.await %ring[%t] : !warp.ring<2, !warp.tile<64, 128, bf16>> -> !warp.tile<64, 128, bf16>
      %f = warp.multiply %q, %k transposed : !warp.tile<64, 128, bf16>, !warp.tile<64, 128, bf16> -> !warp.flying<64, held = 0>
      %s = warp.wait %f : !warp.flying<64, held = 0> -> !warp.fragment<64, f32>
      warp.release %ring[%t] : !warp.ring<2, !warp.tile<64, 128, bf16>>
    }
  }
  llvm.return
}

// -----

// One that waits in a branch would let the other one wait without end.
llvm.func @branch(%keys: !llvm.ptr<1>, %n: i32, %some: i1, %stride: i64) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %ring = warp.ring {barriers = 65536 : i64, offset = 32768 : i64, readers = 8 : i64, writers = 128 : i64} : !warp.ring<2, !warp.tile<64, 128, bf16>>
  warp.roles producer registers 40 {
    scf.for %t = %c0 to %n step %c1 : i32 {
      %into = warp.acquire %ring[%t] : !warp.ring<2, !warp.tile<64, 128, bf16>> -> !warp.tile<64, 128, bf16>
      warp.copy %keys[%t] stride(%stride) limit(%n) into %into : !llvm.ptr<1>, !warp.tile<64, 128, bf16>
      warp.publish %ring[%t] : !warp.ring<2, !warp.tile<64, 128, bf16>>
    }
  } consumers 2 registers 232 {
  ^bb0(%group: i32):
    %q = warp.load %keys[%group] stride(%stride) limit(%n) {offset = 0 : i64} : !llvm.ptr<1>, !warp.tile<64, 128, bf16>
    warp.order_begin
    scf.for %t = %c0 to %n step %c1 : i32 {
      %k = warp.await %ring[%t] : !warp.ring<2, !warp.tile<64, 128, bf16>> -> !warp.tile<64, 128, bf16>
      scf.if %some {
      // expected-error @+1 {{is not where all warpgroups that compute come}}
        warp.order_wait
        warp.order_arrive
      }
      %f = warp.multiply %q, %k transposed : !warp.tile<64, 128, bf16>, !warp.tile<64, 128, bf16> -> !warp.flying<64, held = 0>
      %s = warp.wait %f : !warp.flying<64, held = 0> -> !warp.fragment<64, f32>
      warp.release %ring[%t] : !warp.ring<2, !warp.tile<64, 128, bf16>>
    }
    warp.order_end
  }
  llvm.return
}

// -----

// What was waited for is to be given on.
llvm.func @keeps(%keys: !llvm.ptr<1>, %n: i32, %some: i1, %stride: i64) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %ring = warp.ring {barriers = 65536 : i64, offset = 32768 : i64, readers = 8 : i64, writers = 128 : i64} : !warp.ring<2, !warp.tile<64, 128, bf16>>
  warp.roles producer registers 40 {
    scf.for %t = %c0 to %n step %c1 : i32 {
      %into = warp.acquire %ring[%t] : !warp.ring<2, !warp.tile<64, 128, bf16>> -> !warp.tile<64, 128, bf16>
      warp.copy %keys[%t] stride(%stride) limit(%n) into %into : !llvm.ptr<1>, !warp.tile<64, 128, bf16>
      warp.publish %ring[%t] : !warp.ring<2, !warp.tile<64, 128, bf16>>
    }
  } consumers 2 registers 232 {
  ^bb0(%group: i32):
    %q = warp.load %keys[%group] stride(%stride) limit(%n) {offset = 0 : i64} : !llvm.ptr<1>, !warp.tile<64, 128, bf16>
    warp.order_begin
    // expected-error @+1 {{ends before the next warpgroup may go on}}
    scf.for %t = %c0 to %n step %c1 : i32 {
      %k = warp.await %ring[%t] : !warp.ring<2, !warp.tile<64, 128, bf16>> -> !warp.tile<64, 128, bf16>
      warp.order_wait
      %f = warp.multiply %q, %k transposed : !warp.tile<64, 128, bf16>, !warp.tile<64, 128, bf16> -> !warp.flying<64, held = 0>
      %s = warp.wait %f : !warp.flying<64, held = 0> -> !warp.fragment<64, f32>
      warp.release %ring[%t] : !warp.ring<2, !warp.tile<64, 128, bf16>>
    }
    warp.order_end
  }
  llvm.return
}

// -----

llvm.func @twice(%keys: !llvm.ptr<1>, %n: i32, %some: i1, %stride: i64) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %ring = warp.ring {barriers = 65536 : i64, offset = 32768 : i64, readers = 8 : i64, writers = 128 : i64} : !warp.ring<2, !warp.tile<64, 128, bf16>>
  warp.roles producer registers 40 {
    scf.for %t = %c0 to %n step %c1 : i32 {
      %into = warp.acquire %ring[%t] : !warp.ring<2, !warp.tile<64, 128, bf16>> -> !warp.tile<64, 128, bf16>
      warp.copy %keys[%t] stride(%stride) limit(%n) into %into : !llvm.ptr<1>, !warp.tile<64, 128, bf16>
      warp.publish %ring[%t] : !warp.ring<2, !warp.tile<64, 128, bf16>>
    }
  } consumers 2 registers 232 {
  ^bb0(%group: i32):
    %q = warp.load %keys[%group] stride(%stride) limit(%n) {offset = 0 : i64} : !llvm.ptr<1>, !warp.tile<64, 128, bf16>
    warp.order_begin
    scf.for %t = %c0 to %n step %c1 : i32 {
      %k = warp.await %ring[%t] : !warp.ring<2, !warp.tile<64, 128, bf16>> -> !warp.tile<64, 128, bf16>
      warp.order_wait
      %f = warp.multiply %q, %k transposed : !warp.tile<64, 128, bf16>, !warp.tile<64, 128, bf16> -> !warp.flying<64, held = 0>
      warp.order_arrive
      %s = warp.wait %f : !warp.flying<64, held = 0> -> !warp.fragment<64, f32>
      // expected-error @+1 {{does not alternate: warp.order_wait, then warp.order_arrive}}
      warp.order_arrive
      warp.release %ring[%t] : !warp.ring<2, !warp.tile<64, 128, bf16>>
    }
    warp.order_end
  }
  llvm.return
}

// -----

// The other one may be what the tile waits for.
llvm.func @awaits(%keys: !llvm.ptr<1>, %n: i32, %some: i1, %stride: i64) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %ring = warp.ring {barriers = 65536 : i64, offset = 32768 : i64, readers = 8 : i64, writers = 128 : i64} : !warp.ring<2, !warp.tile<64, 128, bf16>>
  warp.roles producer registers 40 {
    scf.for %t = %c0 to %n step %c1 : i32 {
      %into = warp.acquire %ring[%t] : !warp.ring<2, !warp.tile<64, 128, bf16>> -> !warp.tile<64, 128, bf16>
      warp.copy %keys[%t] stride(%stride) limit(%n) into %into : !llvm.ptr<1>, !warp.tile<64, 128, bf16>
      warp.publish %ring[%t] : !warp.ring<2, !warp.tile<64, 128, bf16>>
    }
  } consumers 2 registers 232 {
  ^bb0(%group: i32):
    %q = warp.load %keys[%group] stride(%stride) limit(%n) {offset = 0 : i64} : !llvm.ptr<1>, !warp.tile<64, 128, bf16>
    warp.order_begin
    scf.for %t = %c0 to %n step %c1 : i32 {
      warp.order_wait
      // expected-error @+1 {{is between warp.order_wait and warp.order_arrive, where others wait}}
      %k = warp.await %ring[%t] : !warp.ring<2, !warp.tile<64, 128, bf16>> -> !warp.tile<64, 128, bf16>
      %f = warp.multiply %q, %k transposed : !warp.tile<64, 128, bf16>, !warp.tile<64, 128, bf16> -> !warp.flying<64, held = 0>
      %s = warp.wait %f : !warp.flying<64, held = 0> -> !warp.fragment<64, f32>
      warp.order_arrive
      warp.release %ring[%t] : !warp.ring<2, !warp.tile<64, 128, bf16>>
    }
    warp.order_end
  }
  llvm.return
}

// -----

llvm.func @never_begins(%keys: !llvm.ptr<1>, %n: i32, %some: i1, %stride: i64) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %ring = warp.ring {barriers = 65536 : i64, offset = 32768 : i64, readers = 8 : i64, writers = 128 : i64} : !warp.ring<2, !warp.tile<64, 128, bf16>>
  // expected-error @+1 {{has an order that is not begun first and ended last}}
  warp.roles producer registers 40 {
    scf.for %t = %c0 to %n step %c1 : i32 {
      %into = warp.acquire %ring[%t] : !warp.ring<2, !warp.tile<64, 128, bf16>> -> !warp.tile<64, 128, bf16>
      warp.copy %keys[%t] stride(%stride) limit(%n) into %into : !llvm.ptr<1>, !warp.tile<64, 128, bf16>
      warp.publish %ring[%t] : !warp.ring<2, !warp.tile<64, 128, bf16>>
    }
  } consumers 2 registers 232 {
  ^bb0(%group: i32):
    %q = warp.load %keys[%group] stride(%stride) limit(%n) {offset = 0 : i64} : !llvm.ptr<1>, !warp.tile<64, 128, bf16>
    scf.for %t = %c0 to %n step %c1 : i32 {
      %k = warp.await %ring[%t] : !warp.ring<2, !warp.tile<64, 128, bf16>> -> !warp.tile<64, 128, bf16>
      warp.order_wait
      %f = warp.multiply %q, %k transposed : !warp.tile<64, 128, bf16>, !warp.tile<64, 128, bf16> -> !warp.flying<64, held = 0>
      warp.order_arrive
      %s = warp.wait %f : !warp.flying<64, held = 0> -> !warp.fragment<64, f32>
      warp.release %ring[%t] : !warp.ring<2, !warp.tile<64, 128, bf16>>
    }
    warp.order_end
  }
  llvm.return
}

// -----

llvm.func @begins_again(%keys: !llvm.ptr<1>, %n: i32, %some: i1, %stride: i64) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %ring = warp.ring {barriers = 65536 : i64, offset = 32768 : i64, readers = 8 : i64, writers = 128 : i64} : !warp.ring<2, !warp.tile<64, 128, bf16>>
  warp.roles producer registers 40 {
    scf.for %t = %c0 to %n step %c1 : i32 {
      %into = warp.acquire %ring[%t] : !warp.ring<2, !warp.tile<64, 128, bf16>> -> !warp.tile<64, 128, bf16>
      warp.copy %keys[%t] stride(%stride) limit(%n) into %into : !llvm.ptr<1>, !warp.tile<64, 128, bf16>
      warp.publish %ring[%t] : !warp.ring<2, !warp.tile<64, 128, bf16>>
    }
  } consumers 2 registers 232 {
  ^bb0(%group: i32):
    %q = warp.load %keys[%group] stride(%stride) limit(%n) {offset = 0 : i64} : !llvm.ptr<1>, !warp.tile<64, 128, bf16>
    warp.order_begin
    scf.for %t = %c0 to %n step %c1 : i32 {
      %k = warp.await %ring[%t] : !warp.ring<2, !warp.tile<64, 128, bf16>> -> !warp.tile<64, 128, bf16>
      warp.order_wait
      %f = warp.multiply %q, %k transposed : !warp.tile<64, 128, bf16>, !warp.tile<64, 128, bf16> -> !warp.flying<64, held = 0>
      warp.order_arrive
      %s = warp.wait %f : !warp.flying<64, held = 0> -> !warp.fragment<64, f32>
      warp.release %ring[%t] : !warp.ring<2, !warp.tile<64, 128, bf16>>
    }
    // expected-error @+1 {{is there twice}}
    warp.order_begin
    warp.order_end
  }
  llvm.return
}

// -----

// A loop of any length may come more often in one of them.
llvm.func @without_tiles(%keys: !llvm.ptr<1>, %n: i32, %some: i1, %stride: i64) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %ring = warp.ring {barriers = 65536 : i64, offset = 32768 : i64, readers = 8 : i64, writers = 128 : i64} : !warp.ring<2, !warp.tile<64, 128, bf16>>
  warp.roles producer registers 40 {
    scf.for %t = %c0 to %n step %c1 : i32 {
      %into = warp.acquire %ring[%t] : !warp.ring<2, !warp.tile<64, 128, bf16>> -> !warp.tile<64, 128, bf16>
      warp.copy %keys[%t] stride(%stride) limit(%n) into %into : !llvm.ptr<1>, !warp.tile<64, 128, bf16>
      warp.publish %ring[%t] : !warp.ring<2, !warp.tile<64, 128, bf16>>
    }
  } consumers 2 registers 232 {
  ^bb0(%group: i32):
    %q = warp.load %keys[%group] stride(%stride) limit(%n) {offset = 0 : i64} : !llvm.ptr<1>, !warp.tile<64, 128, bf16>
    warp.order_begin
    // expected-error @+1 {{has warpgroups come in order, but waits for no tile: it may be of other lengths in some of them}}
    scf.for %i = %c0 to %n step %c1 : i32 {
        warp.order_wait
        warp.order_arrive
    }
    scf.for %t = %c0 to %n step %c1 : i32 {
      %k = warp.await %ring[%t] : !warp.ring<2, !warp.tile<64, 128, bf16>> -> !warp.tile<64, 128, bf16>
      %f = warp.multiply %q, %k transposed : !warp.tile<64, 128, bf16>, !warp.tile<64, 128, bf16> -> !warp.flying<64, held = 0>
      %s = warp.wait %f : !warp.flying<64, held = 0> -> !warp.fragment<64, f32>
      warp.release %ring[%t] : !warp.ring<2, !warp.tile<64, 128, bf16>>
    }
    warp.order_end
  }
  llvm.return
}

// -----

// One warpgroup has nobody to alternate with.
llvm.func @alone(%keys: !llvm.ptr<1>, %n: i32, %some: i1, %stride: i64) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %ring = warp.ring {barriers = 65536 : i64, offset = 32768 : i64, readers = 4 : i64, writers = 128 : i64} : !warp.ring<2, !warp.tile<64, 128, bf16>>
  // expected-error @+1 {{has an order, which 2 to 4 consumers have, not 1}}
  warp.roles producer registers 40 {
    scf.for %t = %c0 to %n step %c1 : i32 {
      %into = warp.acquire %ring[%t] : !warp.ring<2, !warp.tile<64, 128, bf16>> -> !warp.tile<64, 128, bf16>
      warp.copy %keys[%t] stride(%stride) limit(%n) into %into : !llvm.ptr<1>, !warp.tile<64, 128, bf16>
      warp.publish %ring[%t] : !warp.ring<2, !warp.tile<64, 128, bf16>>
    }
  } consumers 1 registers 232 {
  ^bb0(%group: i32):
    %q = warp.load %keys[%group] stride(%stride) limit(%n) {offset = 0 : i64} : !llvm.ptr<1>, !warp.tile<64, 128, bf16>
    warp.order_begin
    scf.for %t = %c0 to %n step %c1 : i32 {
      %k = warp.await %ring[%t] : !warp.ring<2, !warp.tile<64, 128, bf16>> -> !warp.tile<64, 128, bf16>
      warp.order_wait
      %f = warp.multiply %q, %k transposed : !warp.tile<64, 128, bf16>, !warp.tile<64, 128, bf16> -> !warp.flying<64, held = 0>
      warp.order_arrive
      %s = warp.wait %f : !warp.flying<64, held = 0> -> !warp.fragment<64, f32>
      warp.release %ring[%t] : !warp.ring<2, !warp.tile<64, 128, bf16>>
    }
    warp.order_end
  }
  llvm.return
}

// -----

// A loop whose tiles are only passed leaves the place in the order out.
llvm.func @passes(%keys: !llvm.ptr<1>, %n: i32, %some: i1, %stride: i64) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %ring = warp.ring {barriers = 65536 : i64, offset = 32768 : i64, readers = 8 : i64, writers = 128 : i64} : !warp.ring<2, !warp.tile<64, 128, bf16>>
  warp.roles producer registers 40 {
    scf.for %t = %c0 to %n step %c1 : i32 {
      %into = warp.acquire %ring[%t] : !warp.ring<2, !warp.tile<64, 128, bf16>> -> !warp.tile<64, 128, bf16>
      warp.copy %keys[%t] stride(%stride) limit(%n) into %into : !llvm.ptr<1>, !warp.tile<64, 128, bf16>
      warp.publish %ring[%t] : !warp.ring<2, !warp.tile<64, 128, bf16>>
    }
  } consumers 2 registers 232 {
  ^bb0(%group: i32):
    %q = warp.load %keys[%group] stride(%stride) limit(%n) {offset = 0 : i64} : !llvm.ptr<1>, !warp.tile<64, 128, bf16>
    warp.order_begin
    scf.for %t = %c0 to %n step %c1 : i32 {
      %k = warp.await %ring[%t] : !warp.ring<2, !warp.tile<64, 128, bf16>> -> !warp.tile<64, 128, bf16>
      warp.order_wait
      %f = warp.multiply %q, %k transposed : !warp.tile<64, 128, bf16>, !warp.tile<64, 128, bf16> -> !warp.flying<64, held = 0>
      warp.order_arrive
      %s = warp.wait %f : !warp.flying<64, held = 0> -> !warp.fragment<64, f32>
      warp.release %ring[%t] : !warp.ring<2, !warp.tile<64, 128, bf16>>
    }
    scf.for %t = %c0 to %n step %c1 : i32 {
      // expected-error @+2 {{is of a loop without a place in the order that other loops have}}
      // expected-error @+1 {{is in a loop more than what fills the ring}}
      %k = warp.await %ring[%t] : !warp.ring<2, !warp.tile<64, 128, bf16>> -> !warp.tile<64, 128, bf16>
      %f = warp.multiply %q, %k transposed : !warp.tile<64, 128, bf16>, !warp.tile<64, 128, bf16> -> !warp.flying<64, held = 0>
      %s = warp.wait %f : !warp.flying<64, held = 0> -> !warp.fragment<64, f32>
      warp.release %ring[%t] : !warp.ring<2, !warp.tile<64, 128, bf16>>
    }
    warp.order_end
  }
  llvm.return
}

// -----

// One would meet the other that still waits for its place.
llvm.func @meets(%keys: !llvm.ptr<1>, %n: i32, %some: i1, %stride: i64) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %ring = warp.ring {barriers = 65536 : i64, offset = 32768 : i64, readers = 8 : i64, writers = 128 : i64} : !warp.ring<2, !warp.tile<64, 128, bf16>>
  warp.roles producer registers 40 {
    scf.for %t = %c0 to %n step %c1 : i32 {
      %into = warp.acquire %ring[%t] : !warp.ring<2, !warp.tile<64, 128, bf16>> -> !warp.tile<64, 128, bf16>
      warp.copy %keys[%t] stride(%stride) limit(%n) into %into : !llvm.ptr<1>, !warp.tile<64, 128, bf16>
      warp.publish %ring[%t] : !warp.ring<2, !warp.tile<64, 128, bf16>>
    }
  } consumers 2 registers 232 {
  ^bb0(%group: i32):
    %q = warp.load %keys[%group] stride(%stride) limit(%n) {offset = 0 : i64} : !llvm.ptr<1>, !warp.tile<64, 128, bf16>
    warp.order_begin
    scf.for %t = %c0 to %n step %c1 : i32 {
      %k = warp.await %ring[%t] : !warp.ring<2, !warp.tile<64, 128, bf16>> -> !warp.tile<64, 128, bf16>
      warp.order_wait
      // expected-error @+1 {{is between warp.order_wait and warp.order_arrive, where others wait}}
      warp.meet
      %f = warp.multiply %q, %k transposed : !warp.tile<64, 128, bf16>, !warp.tile<64, 128, bf16> -> !warp.flying<64, held = 0>
      warp.order_arrive
      %s = warp.wait %f : !warp.flying<64, held = 0> -> !warp.fragment<64, f32>
      warp.release %ring[%t] : !warp.ring<2, !warp.tile<64, 128, bf16>>
    }
    warp.order_end
  }
  llvm.return
}

// -----

func.func @no_kernel() {
  // expected-error @+1 {{is in no llvm.func, whose warps it divides}}
  warp.roles producer registers 40 {
    %none = arith.constant 0 : i32
  } consumers 2 registers 232 {
  ^bb0(%group: i32):
    %none = arith.constant 0 : i32
  }
  return
}

// -----

llvm.func @some_active(%keys: !llvm.ptr<1>, %n: i32, %some: i1, %stride: i64) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %ring = warp.ring active(%c1) {barriers = 65536 : i64, offset = 32768 : i64, readers = 8 : i64, writers = 128 : i64} : !warp.ring<2, !warp.tile<64, 128, bf16>>
  warp.roles producer registers 40 {
    scf.for %t = %c0 to %n step %c1 : i32 {
      %into = warp.acquire %ring[%t] : !warp.ring<2, !warp.tile<64, 128, bf16>> -> !warp.tile<64, 128, bf16>
      warp.copy %keys[%t] stride(%stride) limit(%n) into %into : !llvm.ptr<1>, !warp.tile<64, 128, bf16>
      warp.publish %ring[%t] : !warp.ring<2, !warp.tile<64, 128, bf16>>
    }
  } consumers 2 active(%c1) registers 232 {
  ^bb0(%group: i32):
    %q = warp.load %keys[%group] stride(%stride) limit(%n) {offset = 0 : i64} : !llvm.ptr<1>, !warp.tile<64, 128, bf16>
    // expected-error @+1 {{waits for all warpgroups that compute, of which some do not}}
    warp.order_begin
    scf.for %t = %c0 to %n step %c1 : i32 {
      %k = warp.await %ring[%t] : !warp.ring<2, !warp.tile<64, 128, bf16>> -> !warp.tile<64, 128, bf16>
      warp.order_wait
      %f = warp.multiply %q, %k transposed : !warp.tile<64, 128, bf16>, !warp.tile<64, 128, bf16> -> !warp.flying<64, held = 0>
      warp.order_arrive
      %s = warp.wait %f : !warp.flying<64, held = 0> -> !warp.fragment<64, f32>
      warp.release %ring[%t] : !warp.ring<2, !warp.tile<64, 128, bf16>>
    }
    warp.order_end
  }
  llvm.return
}
