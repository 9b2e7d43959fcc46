// REQUIRES: heddle-opt
// RUN: heddle-opt %s --convert-shed-to-warp --split-input-file --verify-diagnostics | FileCheck %s

// Sums are checked, not maxima of each tile: a part's weights are relative to what
// its rows have, and only where a sum gets too large products on their way are
// waited for, maxima raised to the part's and the part weighed anew. Products of
// the first part are of a fragment, those behind it fly in either branch, which
// the warps of a warpgroup take together. Rows that have met no tile begin with the
// maxima of its first part.
// CHECK-LABEL: llvm.func @checked
// CHECK: %[[NONE:.*]] = arith.constant true
// CHECK: scf.for {{.*}} iter_args(%[[C:.*]] = %{{.*}}, %[[BEFORE:.*]] = %{{.*}}, %[[L:.*]] = %{{.*}}, %[[EMPTY:.*]] = %[[NONE]])
// CHECK: warp.wait
// CHECK: %[[PART:.*]] = warp.slice %[[WHOLE:.*]] from 0
// CHECK: %[[M:.*]] = scf.if %[[EMPTY]] -> (!warp.fragment<1, f32>)
// CHECK: %[[FIRST:.*]] = warp.reduce max %[[PART]]
// CHECK: warp.combine max %[[FIRST]]
// CHECK: arith.maxnumf
// CHECK: else
// CHECK-NEXT: scf.yield %[[BEFORE]]
// CHECK-NOT: warp.reduce max
// CHECK: %[[W:.*]] = warp.map(%[[PART]], %[[M]])
// CHECK: math.exp2
// CHECK: %[[SUM:.*]] = warp.reduce add %[[W]] into %[[L]]
// CHECK: arith.cmpf ogt
// CHECK: %[[LARGE:.*]] = warp.any
// CHECK: %[[OF0:.*]]:4 = scf.if %[[LARGE]] -> (!warp.fragment<128, f32>,
// CHECK-NOT: warp.wait
// CHECK: warp.combine max %[[SUM]]
// CHECK: %[[TOP:.*]] = warp.reduce max %[[PART]]
// CHECK: warp.combine max %[[TOP]]
// CHECK: arith.select
// CHECK: warp.map(%[[C]],
// CHECK: %[[AGAIN:.*]] = warp.map(%[[PART]],
// CHECK: warp.reduce add %[[AGAIN]]
// CHECK: else
// CHECK-NEXT: scf.yield %[[C]], %[[M]], %[[SUM]], %[[W]]
// CHECK: warp.round %[[OF0]]#3
// CHECK: %[[F0:.*]] = warp.multiply {{.*}} plus %[[OF0]]#0
// CHECK: warp.slice %[[WHOLE]] from 64
// CHECK: %[[LATER:.*]] = warp.any {{.*}} of warpgroup
// CHECK: %[[OF1:.*]]:4 = scf.if %[[LATER]] -> (!warp.flying<128, held = 16>,
// CHECK: %[[THERE:.*]] = warp.wait %[[F0]]
// CHECK: %[[SCALED:.*]] = warp.map(%[[THERE]],
// CHECK: warp.resume %[[F0]] with %[[SCALED]]
// CHECK: else
// CHECK-NEXT: scf.yield %[[F0]],
// CHECK: warp.multiply {{.*}} from 64 plus %[[OF1]]#0
// CHECK: warp.wait
shed.kernel @checked attention element(bf16) head_dim(128) tiling(#shed.wgmma_tiling<consumers = 2, keys = 128, stages = 2, parts = 2, producer_registers = 40, consumer_registers = 232, check_sums = true>) {
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

// expected-error @+1 {{has no form for warpgroups: check_sums is for kernels that write no log-sum-exps and have no functions of logits; leave it out}}
shed.kernel @checked_and_bounded attention element(bf16) head_dim(64) tiling(#shed.wgmma_tiling<consumers = 1, keys = 64, stages = 2, parts = 1, producer_registers = 40, consumer_registers = 232, check_sums = true>) {
  %q = shed.load_queries : !shed.tile<queries, channels, bf16>
  %s0 = shed.softmax_init : !shed.softmax
  %s1 = shed.for_keys over #shed.all init(%s0) : !shed.softmax {
  ^bb0(%keys: !shed.keys, %s: !shed.softmax):
    %k = shed.load_keys %keys : !shed.tile<keys, channels, bf16>
    %v = shed.load_values %keys : !shed.tile<keys, channels, bf16>
    %l = shed.dot %q, %k : !shed.tile<queries, channels, bf16>, !shed.tile<keys, channels, bf16>
    %f = shed.scores %l at %keys (%logit) {
      %bound = math.tanh %logit : f32
      shed.yield %bound : f32
    }
    %n = shed.softmax_update %s, %f, %v : !shed.tile<keys, channels, bf16>
    shed.yield %n : !shed.softmax
  }
  shed.store %s1
}

// -----

// expected-error @+1 {{has no form for warpgroups: check_sums is for kernels that write no log-sum-exps and have no functions of logits; leave it out}}
shed.kernel @checked_with_lse attention element(bf16) head_dim(128) writes_lse tiling(#shed.wgmma_tiling<consumers = 1, keys = 48, stages = 2, parts = 1, producer_registers = 40, consumer_registers = 232, check_sums = true>) {
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

// expected-error @+1 {{has no form for warpgroups: check_sums is for kernels that write no log-sum-exps and have no functions of logits; leave it out}}
shed.kernel @checked_without_bounds attention element(bf16) head_dim(128) tiling(#shed.wgmma_tiling<consumers = 1, keys = 48, stages = 2, parts = 1, producer_registers = 40, consumer_registers = 232, check_sums = true>) {
  %q = shed.load_queries : !shed.tile<queries, channels, bf16>
  %s0 = shed.softmax_init : !shed.softmax
  %s1 = shed.for_keys over #shed.all init(%s0) : !shed.softmax {
  ^bb0(%keys: !shed.keys, %s: !shed.softmax):
    %k = shed.load_keys %keys : !shed.tile<keys, channels, bf16>
    %v = shed.load_values %keys : !shed.tile<keys, channels, bf16>
    %l = shed.dot %q, %k : !shed.tile<queries, channels, bf16>, !shed.tile<keys, channels, bf16>
    %f = shed.scores %l at %keys (%logit) {
      %more = arith.addf %logit, %logit : f32
      shed.yield %more : f32
    }
    %n = shed.softmax_update %s, %f, %v : !shed.tile<keys, channels, bf16>
    shed.yield %n : !shed.softmax
  }
  shed.store %s1
}

// -----

// The next pass begins where the one before had no tile.

// CHECK-LABEL: llvm.func @checked_later
// CHECK: %[[SINKS:.*]]:4 = scf.for
// CHECK: scf.yield {{.*}}, %false{{.*}} : !warp.fragment<64, f32>, !warp.fragment<1, f32>, !warp.fragment<1, f32>, i1
// CHECK: scf.for {{.*}} iter_args({{.*}} = %[[SINKS]]#0, {{.*}} = %[[SINKS]]#1, {{.*}} = %[[SINKS]]#2, %[[EMPTY:.*]] = %[[SINKS]]#3)
// CHECK: scf.if %[[EMPTY]] -> (!warp.fragment<1, f32>)
shed.kernel @checked_later attention element(bf16) head_dim(64) encoding(int32) tiling(#shed.wgmma_tiling<consumers = 1, keys = 64, stages = 2, parts = 1, producer_registers = 40, consumer_registers = 208, check_sums = true>) {
  %q = shed.load_queries : !shed.tile<queries, channels, bf16>
  %s0 = shed.softmax_init : !shed.softmax
  %s1 = shed.for_keys over #shed.sinks<4> init(%s0) : !shed.softmax {
  ^bb0(%keys: !shed.keys, %s: !shed.softmax):
    %k = shed.load_keys %keys : !shed.tile<keys, channels, bf16>
    %v = shed.load_values %keys : !shed.tile<keys, channels, bf16>
    %l = shed.dot %q, %k : !shed.tile<queries, channels, bf16>, !shed.tile<keys, channels, bf16>
    %n = shed.softmax_update %s, %l, %v : !shed.tile<keys, channels, bf16>
    shed.yield %n : !shed.softmax
  }
  %s2 = shed.for_keys over #shed.list<0, group = 64> skip [#shed.sinks<4>] init(%s1) : !shed.softmax {
  ^bb0(%keys: !shed.keys, %s: !shed.softmax):
    %k = shed.load_keys %keys : !shed.tile<keys, channels, bf16>
    %v = shed.load_values %keys : !shed.tile<keys, channels, bf16>
    %l = shed.dot %q, %k : !shed.tile<queries, channels, bf16>, !shed.tile<keys, channels, bf16>
    %n = shed.softmax_update %s, %l, %v : !shed.tile<keys, channels, bf16>
    shed.yield %n : !shed.softmax
  }
  shed.store %s2
}

// -----

// Weights that f16 does not hold are made anew: sums are checked against 2^15. A
// reference is raised by at least 4, since over many keys small weights add up.

// CHECK-LABEL: llvm.func @checked_in_f16
// CHECK: arith.constant 3.276800e+04
// CHECK: warp.any
// CHECK: arith.constant 4.000000e+00
// CHECK: arith.maxnumf
shed.kernel @checked_in_f16 attention element(f16) head_dim(128) tiling(#shed.wgmma_tiling<consumers = 1, keys = 64, stages = 2, parts = 1, producer_registers = 40, consumer_registers = 232, check_sums = true>) {
  %q = shed.load_queries : !shed.tile<queries, channels, f16>
  %s0 = shed.softmax_init : !shed.softmax
  %s1 = shed.for_keys over #shed.all init(%s0) : !shed.softmax {
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

// expected-error @+1 {{has no form for warpgroups: check_sums is false with over "scores": kernels that select have no sums of weights; leave it out}}
shed.kernel @checked_scores select element(bf16) head_dim(128) group(128) encoding(uint16) tiling(#shed.wgmma_tiling<consumers = 4, keys = 128, stages = 2, parts = 1, producer_registers = 24, consumer_registers = 112, check_sums = true>) {
  %m = shed.mass_init : !shed.mass
  %r = shed.for_queries init(%m) : !shed.mass {
  ^bb0(%o: !shed.mass):
    %q = shed.load_queries : !shed.tile<queries, channels, bf16>
    %l = shed.load_lse
    %s = shed.for_keys over #shed.all init(%o) : !shed.mass {
    ^bb0(%keys: !shed.keys, %c: !shed.mass):
      %k = shed.load_keys %keys : !shed.tile<keys, channels, bf16>
      %x = shed.dot %q, %k : !shed.tile<queries, channels, bf16>, !shed.tile<keys, channels, bf16>
      %n = shed.column_mass %c, %x, %l, %keys
      shed.yield %n : !shed.mass
    }
    shed.yield %s : !shed.mass
  }
  shed.top_k %r
}
