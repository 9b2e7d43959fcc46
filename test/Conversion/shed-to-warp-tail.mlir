// REQUIRES: heddle-opt
// RUN: heddle-opt %s --convert-shed-to-warp --split-input-file --verify-diagnostics | FileCheck %s --implicit-check-not=unrealized_conversion_cast
// RUN: heddle-opt %s --convert-shed-to-warp --warp-specialize-roles --warp-verify-pipelines --split-input-file --verify-diagnostics | FileCheck %s --check-prefix=ROLES --implicit-check-not=unrealized_conversion_cast

// A list of 410 keys is two whole tiles of 160, none of which has to be masked,
// and what is left, 90, is a tile of 96 of the second loop, in one part.
// CHECK-LABEL: llvm.func @kept
// CHECK: %[[KEYS:.*]] = arith.constant 160
// CHECK: %[[WHOLE:.*]] = arith.divui %[[COUNT:.*]], %[[KEYS]]
// CHECK: %[[TILES:.*]] = arith.select %{{.*}}, %[[WHOLE]]
// CHECK: %[[SO_FAR:.*]]:4 = scf.for {{.*}} to %[[TILES]]
// CHECK: warp.read_rows {{.*}} <160>
// CHECK: warp.multiply {{.*}} -> <160, held = 0>
// CHECK-NOT: arith.cmpi slt
// CHECK: warp.slice {{.*}} from 0 : <160, f32> -> <80, f32>
// CHECK: warp.slice {{.*}} from 80
// CHECK: scf.yield %{{.*}} : !warp.fragment<128, f32>, !warp.fragment<1, f32>, !warp.fragment<1, f32>, i1
// CHECK: %[[FULL:.*]] = arith.divui %[[LENGTH:[^,]*]],
// CHECK: %[[BEFORE:.*]] = arith.muli %[[FULL]]
// CHECK: %[[LEFT:.*]] = arith.subi %[[LENGTH]], %[[BEFORE]]
// CHECK: %[[MORE:.*]] = arith.constant 95
// CHECK: %[[UP:.*]] = arith.addi %[[LEFT]], %[[MORE]]
// CHECK: %[[OF_TAIL:.*]] = arith.divui %[[UP]]
// CHECK: %[[TAILS:.*]] = arith.select %{{.*}}, %[[OF_TAIL]]
// CHECK: scf.for {{.*}} to %[[TAILS]] {{.*}} iter_args(%{{.*}} = %[[SO_FAR]]#0, %{{.*}} = %[[SO_FAR]]#1, %{{.*}} = %[[SO_FAR]]#2, %{{.*}} = %[[SO_FAR]]#3)
// CHECK: warp.read_rows {{.*}} <96>
// CHECK: warp.multiply {{.*}} -> <96, held = 0>
// CHECK: arith.cmpi slt
// CHECK: warp.round {{.*}} <96, bf16>
// CHECK: warp.store

// The rings are those of whole tiles, whose places a tail's have room in.
// ROLES-LABEL: llvm.func @kept
// ROLES: %[[K:.*]] = warp.ring {{.*}} : <2, <160, 128, bf16>>
// ROLES: warp.roles producer
// ROLES: warp.acquire %[[K]]{{.*}} -> <160, 128, bf16>
// ROLES: warp.acquire %[[K]]{{.*}} -> <96, 128, bf16>
// ROLES: consumers 2
// ROLES: warp.await %[[K]]{{.*}} -> <160, 128, bf16>
// ROLES: warp.await %[[K]]{{.*}} -> <96, 128, bf16>
shed.kernel @kept attention element(bf16) head_dim(128) encoding(uint16) tiling(#shed.wgmma_tiling<consumers = 2, keys = 160, stages = 2, parts = 2, producer_registers = 40, consumer_registers = 232, query_stages = 2, check_sums = true, tail_keys = 96>) {
  %q = shed.load_queries : !shed.tile<queries, channels, bf16>
  %s0 = shed.softmax_init : !shed.softmax
  %s1 = shed.for_keys over #shed.list<0, group = 128> init(%s0) : !shed.softmax {
  ^bb0(%keys: !shed.keys, %s: !shed.softmax):
    %k = shed.load_keys %keys : !shed.tile<keys, channels, bf16>
    %v = shed.load_values %keys : !shed.tile<keys, channels, bf16>
    %l = shed.dot %q, %k : !shed.tile<queries, channels, bf16>, !shed.tile<keys, channels, bf16>
    %n = shed.softmax_update %s, %l, %v : !shed.tile<keys, channels, bf16>
    shed.yield %n : !shed.softmax
  }
  shed.store %s1
}

// -----

// Maxima need no mask in whole tiles, either: the only comparison is of how far a
// reference lags behind.
// CHECK-LABEL: llvm.func @with_maxima
// CHECK: scf.for
// CHECK: warp.multiply {{.*}} -> <96, held = 0>
// CHECK-NOT: arith.cmpi
// CHECK: warp.reduce max
// CHECK: scf.yield
// CHECK: scf.for
// CHECK: warp.multiply {{.*}} -> <32, held = 0>
// CHECK: arith.cmpi slt
// CHECK: warp.reduce max
shed.kernel @with_maxima attention element(f16) head_dim(64) encoding(int32) tiling(#shed.wgmma_tiling<consumers = 1, keys = 96, stages = 2, parts = 3, producer_registers = 40, consumer_registers = 232, tail_keys = 32>) {
  %q = shed.load_queries : !shed.tile<queries, channels, f16>
  %s0 = shed.softmax_init : !shed.softmax
  %s1 = shed.for_keys over #shed.list<0, group = 64> init(%s0) : !shed.softmax {
  ^bb0(%keys: !shed.keys, %s: !shed.softmax):
    %k = shed.load_keys %keys : !shed.tile<keys, channels, f16>
    %v = shed.load_values %keys : !shed.tile<keys, channels, f16>
    %l = shed.dot %q, %k : !shed.tile<queries, channels, f16>, !shed.tile<keys, channels, f16>
    %n = shed.softmax_update %s, %l, %v : !shed.tile<keys, channels, f16>
    shed.yield %n : !shed.softmax
  }
  shed.store %s1
}

// -----

// expected-error @+1 {{has no form for warpgroups: tail_keys is 0 with over "all", not 64: lists of keys alone have a tail; leave it out}}
shed.kernel @dense attention element(bf16) head_dim(128) tiling(#shed.wgmma_tiling<consumers = 2, keys = 128, stages = 2, parts = 2, producer_registers = 40, consumer_registers = 232, tail_keys = 64>) {
  %q = shed.load_queries : !shed.tile<queries, channels, bf16>
  %s0 = shed.softmax_init : !shed.softmax
  %s1 = shed.for_keys over #shed.all init(%s0) : !shed.softmax {
  ^bb0(%keys: !shed.keys, %s: !shed.softmax):
    %k = shed.load_keys %keys : !shed.tile<keys, channels, bf16>
    %v = shed.load_values %keys : !shed.tile<keys, channels, bf16>
    %l = shed.dot %q, %k : !shed.tile<queries, channels, bf16>, !shed.tile<keys, channels, bf16>
    %n = shed.softmax_update %s, %l, %v : !shed.tile<keys, channels, bf16>
    shed.yield %n : !shed.softmax
  }
  shed.store %s1
}

// -----

// expected-error @+1 {{has no form for warpgroups: tail_keys is 0 with over "scores", not 64: lists of keys alone have a tail; leave it out}}
shed.kernel @chosen select element(bf16) head_dim(64) group(64) encoding(int32) tiling(#shed.wgmma_tiling<consumers = 4, keys = 128, stages = 2, parts = 1, producer_registers = 24, consumer_registers = 112, tail_keys = 64>) {
  %m0 = shed.mass_init : !shed.mass
  %m1 = shed.for_queries init(%m0) : !shed.mass {
  ^bb0(%m: !shed.mass):
    %q = shed.load_queries : !shed.tile<queries, channels, bf16>
    %lse = shed.load_lse
    %m2 = shed.for_keys over #shed.all init(%m) : !shed.mass {
    ^bb0(%keys: !shed.keys, %n: !shed.mass):
      %k = shed.load_keys %keys : !shed.tile<keys, channels, bf16>
      %l = shed.dot %q, %k : !shed.tile<queries, channels, bf16>, !shed.tile<keys, channels, bf16>
      %o = shed.column_mass %n, %l, %lse, %keys
      shed.yield %o : !shed.mass
    }
    shed.yield %m2 : !shed.mass
  }
  shed.top_k %m1
}

// -----

// Sinks before a list: no tail, for it would be the sinks' as well.
shed.kernel @some attention element(bf16) head_dim(64) encoding(int32) tiling(#shed.wgmma_tiling<consumers = 1, keys = 96, stages = 2, parts = 1, producer_registers = 40, consumer_registers = 232, tail_keys = 32>) {
  %q = shed.load_queries : !shed.tile<queries, channels, bf16>
  %s0 = shed.softmax_init : !shed.softmax
  // expected-error @+1 {{has no form for warpgroups: a tail is a list's of keys, and this is none; leave out tail_keys}}
  %s1 = shed.for_keys over #shed.sinks<3> init(%s0) : !shed.softmax {
  ^bb0(%keys: !shed.keys, %s: !shed.softmax):
    %k = shed.load_keys %keys : !shed.tile<keys, channels, bf16>
    %v = shed.load_values %keys : !shed.tile<keys, channels, bf16>
    %l = shed.dot %q, %k : !shed.tile<queries, channels, bf16>, !shed.tile<keys, channels, bf16>
    %n = shed.softmax_update %s, %l, %v : !shed.tile<keys, channels, bf16>
    shed.yield %n : !shed.softmax
  }
  %s2 = shed.for_keys over #shed.list<0, group = 64> skip [#shed.sinks<3>] init(%s1) : !shed.softmax {
  ^bb0(%keys: !shed.keys, %s: !shed.softmax):
    %k = shed.load_keys %keys : !shed.tile<keys, channels, bf16>
    %v = shed.load_values %keys : !shed.tile<keys, channels, bf16>
    %l = shed.dot %q, %k : !shed.tile<queries, channels, bf16>, !shed.tile<keys, channels, bf16>
    %n = shed.softmax_update %s, %l, %v : !shed.tile<keys, channels, bf16>
    shed.yield %n : !shed.softmax
  }
  shed.store %s2
}
