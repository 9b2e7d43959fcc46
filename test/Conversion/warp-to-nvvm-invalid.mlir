// REQUIRES: heddle-opt
// RUN: heddle-opt %s --convert-warp-to-nvvm --split-input-file --verify-diagnostics

// What waits for warpgroups needs to know which there are.
llvm.func @no_role() {
  // expected-error @+1 {{belongs to no role; run warp-specialize-roles first}}
  warp.order_wait
  llvm.return
}

// -----

func.func @no_kernel() {
  // expected-error @+1 {{belongs to no role; run warp-specialize-roles first}}
  warp.meet
  return
}

// -----

// The producer is no warpgroup that computes.
llvm.func @vote_elsewhere(%one: i1) attributes {nvvm.maxntid = array<i32: 256>} {
  warp.roles producer registers 40 {
    %large = warp.map() {
    ^bb0(%row: i32, %column: i32):
      warp.yield %one : i1
    } : () -> !warp.fragment<1, i1>
    // expected-error @+1 {{is not among the warpgroups that compute}}
    %all = warp.any %large of warpgroup : <1, i1>
  } consumers 1 registers 232 {
  ^bb0(%group: i32):
    %none = arith.constant 0 : i32
  }
  llvm.return
}

// -----

llvm.func @no_threads() {
  warp.roles producer registers 40 {
    %none = arith.constant 0 : i32
  } consumers 2 registers 232 {
  ^bb0(%group: i32):
    // expected-error @+1 {{is in a function whose nvvm.maxntid is not that of its roles, 128 threads for each warpgroup}}
    warp.meet
  }
  llvm.return
}

// -----

llvm.func @other_threads() attributes {nvvm.maxntid = array<i32: 256>} {
  warp.roles producer registers 40 {
    %none = arith.constant 0 : i32
  } consumers 2 registers 232 {
  ^bb0(%group: i32):
    // expected-error @+1 {{is in a function whose nvvm.maxntid is not that of its roles, 128 threads for each warpgroup}}
    warp.order_begin
  }
  llvm.return
}

// -----

llvm.func @unordered() attributes {nvvm.maxntid = array<i32: 384>} {
  // expected-error @+1 {{asks for an order; run warp-ping-pong first}}
  warp.roles producer registers 40 {
    %none = arith.constant 0 : i32
  } consumers 2 ping_pong registers 232 {
  ^bb0(%group: i32):
    %none = arith.constant 0 : i32
  }
  llvm.return
}

// -----

llvm.func @producer() attributes {nvvm.maxntid = array<i32: 384>} {
  warp.roles producer registers 40 {
    // expected-error @+1 {{is not among the warpgroups that compute}}
    warp.order_wait
  } consumers 2 registers 232 {
  ^bb0(%group: i32):
    %none = arith.constant 0 : i32
  }
  llvm.return
}
