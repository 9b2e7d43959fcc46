// REQUIRES: heddle-opt
// RUN: heddle-opt %s --convert-shed-to-warp --split-input-file --verify-diagnostics | FileCheck %s

// Attention over all keys as one stream of control. Each warpgroup has 64 rows
// of the 192; the products with the values are in two parts, so that those of
// the first run under the exponentials of the second.
// CHECK-LABEL: llvm.func @dense
// CHECK-SAME: heddle.query_rows = 192
// CHECK-SAME: warp.pipeline = #warp.pipeline<consumers = 3, stages = 2, producer_registers = 32, consumer_registers = 160>
// CHECK: %[[Q:.*]] = warp.load {{.*}} : <1>, <64, 128, bf16>
// CHECK: warp.negate %[[Q]] if
// CHECK: scf.for
// CHECK-DAG: %[[K:.*]] = warp.load {{.*}} : <1>, <128, 128, bf16>
// CHECK-DAG: %[[V:.*]] = warp.load {{.*}} : <1>, <128, 128, bf16>
// CHECK: %[[F:.*]] = warp.multiply %[[Q]], %[[K]] transposed
// CHECK: %[[S:.*]] = warp.wait %[[F]]
// The last tile may have fewer keys.
// CHECK: scf.if
// CHECK: warp.map(%[[S]])
// CHECK: arith.cmpi slt
// Old sums shrink only where some row's maximum has grown by much.
// CHECK: %[[FAR:.*]] = warp.any
// CHECK: scf.if %[[FAR]]
// CHECK: warp.slice {{.*}} from 0
// CHECK: %[[P0:.*]] = warp.round
// CHECK: %[[F0:.*]] = warp.multiply %[[P0]], {{.*}} plus
// CHECK: warp.slice {{.*}} from 64
// CHECK: math.exp2
// CHECK: %[[P1:.*]] = warp.round
// CHECK: %[[F1:.*]] = warp.multiply %[[P1]], {{.*}} from 64 plus %[[F0]]
// CHECK: warp.wait %[[F1]]
// CHECK: warp.store
// CHECK: math.log2
// CHECK: warp.store_column
shed.kernel @dense attention element(bf16) head_dim(128) writes_lse tiling(#shed.wgmma_tiling<consumers = 3, keys = 128, stages = 2, parts = 2, producer_registers = 32, consumer_registers = 160>) {
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

// One part: all products with the values follow all exponentials.
// CHECK-LABEL: llvm.func @one_part
// CHECK: %[[Q:.*]] = warp.load
// CHECK: warp.negate %[[Q]] if
// CHECK: scf.for
// CHECK: %[[K:.*]] = warp.load {{.*}} : <1>, <64, 64, f16>
// CHECK: %[[V:.*]] = warp.load {{.*}} : <1>, <64, 64, f16>
// CHECK: warp.multiply %{{.*}}, %[[K]] transposed
// CHECK-NOT: warp.slice
// CHECK: warp.multiply %{{.*}}, %[[V]] plus
shed.kernel @one_part attention element(f16) head_dim(64) tiling(#shed.wgmma_tiling<consumers = 1, keys = 64, stages = 2, parts = 1, producer_registers = 40, consumer_registers = 232>) {
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

// Sinks, then a window without them: two loops, the second of which goes on with
// what the first one found. A row's window is a range of keys; a tile within
// those of all of the warpgroup's rows is not masked.
// CHECK-LABEL: llvm.func @ranges
// CHECK: %[[ROWS:.*]] = warp.map() {
// CHECK: warp.read %{{.*}} of i32 : <1>, <1, i32>
// CHECK: warp.count_below
// CHECK: %[[SINKS:.*]]:3 = scf.for
// CHECK: warp.load {{.*}} : <1>, <64, 128, bf16>
// CHECK: arith.maxsi
// CHECK: scf.for {{.*}} iter_args(%{{.*}} = %[[SINKS]]#0, %{{.*}} = %[[SINKS]]#1, %{{.*}} = %[[SINKS]]#2)
// CHECK: %[[S:.*]] = warp.wait
// CHECK: %[[BEGINS:.*]] = arith.cmpi sge
// CHECK: %[[ENDS:.*]] = arith.cmpi sle
// CHECK: %[[WHOLE:.*]] = arith.andi %[[BEGINS]], %[[ENDS]]
// CHECK: scf.if %[[WHOLE]]
// CHECK-NEXT: scf.yield %[[S]]
// CHECK: warp.map(%[[S]], %{{.*}}, %{{.*}})
// CHECK: arith.cmpi ult
shed.kernel @ranges attention element(bf16) head_dim(128) tiling(#shed.wgmma_tiling<consumers = 1, keys = 64, stages = 2, parts = 1, producer_registers = 40, consumer_registers = 232>) {
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
  %s2 = shed.for_keys over #shed.window<640> skip [#shed.sinks<4>] init(%s1) : !shed.softmax {
  ^bb0(%keys: !shed.keys, %s: !shed.softmax):
    %k = shed.load_keys %keys : !shed.tile<keys, channels, bf16>
    %v = shed.load_values %keys : !shed.tile<keys, channels, bf16>
    %l = shed.dot %q, %k : !shed.tile<queries, channels, bf16>, !shed.tile<keys, channels, bf16>
    %m = shed.mask %l, %keys within #shed.window<640>
    %n = shed.softmax_update %s, %m, %v : !shed.tile<keys, channels, bf16>
    shed.yield %n : !shed.softmax
  }
  shed.store %s2
}

// -----

// Whether a key is in a list would be a search for each key.
shed.kernel @skips_list attention element(bf16) head_dim(128) tiling(#shed.wgmma_tiling<consumers = 1, keys = 64, stages = 2, parts = 1, producer_registers = 40, consumer_registers = 232>) {
  %q = shed.load_queries : !shed.tile<queries, channels, bf16>
  %s0 = shed.softmax_init : !shed.softmax
  // expected-error @+1 {{has no form for warpgroups: it skips the keys of a list}}
  %s1 = shed.for_keys over #shed.sinks<64> skip [#shed.list<0, group = 64>] init(%s0) : !shed.softmax {
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

// A block's rows have one list.
shed.kernel @smaller_groups attention element(bf16) head_dim(128) encoding(int32) tiling(#shed.wgmma_tiling<consumers = 2, keys = 64, stages = 2, parts = 1, producer_registers = 40, consumer_registers = 232>) {
  %q = shed.load_queries : !shed.tile<queries, channels, bf16>
  %s0 = shed.softmax_init : !shed.softmax
  // expected-error @+1 {{has no form for warpgroups: a block has 128 rows, which do not divide its list's groups of 64}}
  %s1 = shed.for_keys over #shed.list<0, group = 64> init(%s0) : !shed.softmax {
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

// A function that asks where rows and keys stand: keys stand at their numbers, or where the arguments say.
// CHECK-LABEL: llvm.func @distance
// CHECK: scf.for
// CHECK: %[[S:.*]] = warp.wait
// CHECK: scf.if
// CHECK: warp.map(%[[S]], %{{.*}}) {
// CHECK: } else {
// CHECK: %[[KEYS:.*]] = warp.read %{{.*}} of i32 : <1>, <64, i32>
// CHECK: warp.map(%[[S]], %{{.*}}, %[[KEYS]])
shed.kernel @distance attention element(bf16) head_dim(128) tiling(#shed.wgmma_tiling<consumers = 1, keys = 64, stages = 2, parts = 1, producer_registers = 40, consumer_registers = 232>) {
  %q = shed.load_queries : !shed.tile<queries, channels, bf16>
  %s0 = shed.softmax_init : !shed.softmax
  %s1 = shed.for_keys over #shed.all init(%s0) : !shed.softmax {
  ^bb0(%keys: !shed.keys, %s: !shed.softmax):
    %k = shed.load_keys %keys : !shed.tile<keys, channels, bf16>
    %v = shed.load_values %keys : !shed.tile<keys, channels, bf16>
    %l = shed.dot %q, %k : !shed.tile<queries, channels, bf16>, !shed.tile<keys, channels, bf16>
    %c = shed.scores %l at %keys (%logit, %query, %key, %head) {
      %far = arith.subi %query, %key : i32
      %real = arith.sitofp %far : i32 to f32
      %z = arith.subf %logit, %real : f32
      shed.yield %z : f32
    }
    %n = shed.softmax_update %s, %c, %v : !shed.tile<keys, channels, bf16>
    shed.yield %n : !shed.softmax
  }
  shed.store %s1
}

// -----

// A function that bounds logits leaves no maximum to find: each part of a tile has
// its logits capped, its exponentials and its end masked before its products.
// CHECK-LABEL: llvm.func @capped
// CHECK: warp.splat %{{.*}} : <1, f32>
// CHECK: scf.for
// CHECK-NOT: warp.reduce max
// CHECK-NOT: warp.any
// CHECK: %[[S:.*]] = warp.wait
// CHECK: %[[FIRST:.*]] = warp.slice %[[S]] from 0 : <128, f32> -> <64, f32>
// CHECK: warp.map(%[[FIRST]])
// CHECK: math.tanh
// CHECK: %[[WEIGHTS:.*]] = warp.map
// CHECK: math.exp2
// CHECK: %[[KEPT:.*]] = scf.if
// CHECK: warp.map(%[[WEIGHTS]])
// CHECK: warp.reduce add %[[KEPT]]
// CHECK: warp.multiply
// CHECK: %[[SECOND:.*]] = warp.slice %[[S]] from 64 : <128, f32> -> <64, f32>
// CHECK: math.tanh
// CHECK: math.exp2
// CHECK: warp.multiply {{.*}} from 64
// CHECK-NOT: warp.reduce max
shed.kernel @capped attention element(bf16) head_dim(128) tiling(#shed.wgmma_tiling<consumers = 1, keys = 128, stages = 2, parts = 2, producer_registers = 40, consumer_registers = 232>) {
  %q = shed.load_queries : !shed.tile<queries, channels, bf16>
  %s0 = shed.softmax_init : !shed.softmax
  %s1 = shed.for_keys over #shed.all init(%s0) : !shed.softmax {
  ^bb0(%keys: !shed.keys, %s: !shed.softmax):
    %k = shed.load_keys %keys : !shed.tile<keys, channels, bf16>
    %v = shed.load_values %keys : !shed.tile<keys, channels, bf16>
    %l = shed.dot %q, %k : !shed.tile<queries, channels, bf16>, !shed.tile<keys, channels, bf16>
    %c = shed.scores %l at %keys (%logit) {
      %cap = arith.constant 30.0 : f32
      %share = arith.divf %logit, %cap : f32
      %bound = math.tanh %share : f32
      %z = arith.mulf %bound, %cap : f32
      shed.yield %z : f32
    }
    %n = shed.softmax_update %s, %c, %v : !shed.tile<keys, channels, bf16>
    shed.yield %n : !shed.softmax
  }
  shed.store %s1
}

// -----

// expected-error @+1 {{has no form for warpgroups: head_dim is a multiple of 64 up to 256, not 320}}
shed.kernel @too_wide attention element(bf16) head_dim(320) tiling(#shed.wgmma_tiling<consumers = 1, keys = 48, stages = 2, parts = 1, producer_registers = 40, consumer_registers = 232>) {
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

// expected-error @+1 {{has no form for warpgroups: cluster is 1 with head_dim 64, not 2: the blocks of a cluster bring equal numbers of panels of 64 channels}}
shed.kernel @narrow_in_clusters attention element(bf16) head_dim(64) tiling(#shed.wgmma_tiling<consumers = 1, keys = 64, stages = 2, parts = 1, producer_registers = 40, consumer_registers = 232, tma = true, cluster = 2>) {
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

// f16 has not the exponents for weights without a maximum, and a cap of 60 allows
// weights that not even f32 could add up.
// CHECK-LABEL: llvm.func @narrow
// CHECK: warp.reduce max
shed.kernel @narrow attention element(f16) head_dim(128) tiling(#shed.wgmma_tiling<consumers = 1, keys = 64, stages = 2, parts = 1, producer_registers = 40, consumer_registers = 232>) {
  %q = shed.load_queries : !shed.tile<queries, channels, f16>
  %s0 = shed.softmax_init : !shed.softmax
  %s1 = shed.for_keys over #shed.all init(%s0) : !shed.softmax {
  ^bb0(%keys: !shed.keys, %s: !shed.softmax):
    %k = shed.load_keys %keys : !shed.tile<keys, channels, f16>
    %v = shed.load_values %keys : !shed.tile<keys, channels, f16>
    %l = shed.dot %q, %k : !shed.tile<queries, channels, f16>, !shed.tile<keys, channels, f16>
    %c = shed.scores %l at %keys (%logit) {
      %bound = math.tanh %logit : f32
      shed.yield %bound : f32
    }
    %n = shed.softmax_update %s, %c, %v : !shed.tile<keys, channels, f16>
    shed.yield %n : !shed.softmax
  }
  shed.store %s1
}
// CHECK-LABEL: llvm.func @wide
// CHECK: warp.reduce max
shed.kernel @wide attention element(bf16) head_dim(128) tiling(#shed.wgmma_tiling<consumers = 1, keys = 64, stages = 2, parts = 1, producer_registers = 40, consumer_registers = 232>) {
  %q = shed.load_queries : !shed.tile<queries, channels, bf16>
  %s0 = shed.softmax_init : !shed.softmax
  %s1 = shed.for_keys over #shed.all init(%s0) : !shed.softmax {
  ^bb0(%keys: !shed.keys, %s: !shed.softmax):
    %k = shed.load_keys %keys : !shed.tile<keys, channels, bf16>
    %v = shed.load_values %keys : !shed.tile<keys, channels, bf16>
    %l = shed.dot %q, %k : !shed.tile<queries, channels, bf16>, !shed.tile<keys, channels, bf16>
    %c = shed.scores %l at %keys (%logit) {
      %cap = arith.constant 60.0 : f32
      %bound = math.tanh %logit : f32
      %z = arith.mulf %bound, %cap : f32
      shed.yield %z : f32
    }
    %n = shed.softmax_update %s, %c, %v : !shed.tile<keys, channels, bf16>
    shed.yield %n : !shed.softmax
  }
  shed.store %s1
}

// -----

// The keys that a list names are gathered: a tile has the rows that the list gives for it.
// CHECK-LABEL: llvm.func @columns
// CHECK-SAME: warp.pipeline = #warp.pipeline<consumers = 1, stages = 2, producer_registers = 40, consumer_registers = 208, blocks = 2>
// CHECK: scf.for
// CHECK: %[[ROWS:.*]] = warp.read_rows {{.*}} of i16 : {{.*}}, <80>
// CHECK: warp.load {{.*}} rows(%[[ROWS]] : !warp.rows<80>)
// CHECK: warp.load {{.*}} rows(%[[ROWS]] : !warp.rows<80>)
shed.kernel @columns attention element(bf16) head_dim(128) encoding(uint16) tiling(#shed.wgmma_tiling<consumers = 1, keys = 80, stages = 2, parts = 1, producer_registers = 40, consumer_registers = 208, blocks = 2>) {
  %q = shed.load_queries : !shed.tile<queries, channels, bf16>
  %s0 = shed.softmax_init : !shed.softmax
  %s1 = shed.for_keys over #shed.list<0, group = 64> init(%s0) : !shed.softmax {
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

// Heads that share lists: a task has 32 rows of each of them, so a warpgroup has
// those of two, a batch of matrices, and gathered tiles serve all. Blocks of three
// warpgroups share a task, so not all of the last ones have work.
// CHECK-LABEL: llvm.func @shared_columns
// CHECK-SAME: heddle.query_rows = 32
// CHECK: warp.active
// CHECK: %[[OWN:.*]] = warp.warpgroup
// CHECK: warp.load {{.*}} batch(%[[HEADS:.*]], %[[BYTES:.*]]) of 32
// CHECK: scf.for
// CHECK: %[[ROWS:.*]] = warp.read_rows
// CHECK: warp.load {{.*}} rows(%[[ROWS]] : !warp.rows<128>)
// CHECK: warp.store {{.*}} batch(%[[HEADS]], %{{.*}}) of 32
shed.kernel @shared_columns attention element(bf16) head_dim(128) shared_lists encoding(uint16) tiling(#shed.wgmma_tiling<consumers = 3, keys = 128, stages = 2, parts = 2, producer_registers = 32, consumer_registers = 160>) {
  %q = shed.load_queries : !shed.tile<queries, channels, bf16>
  %s0 = shed.softmax_init : !shed.softmax
  %s1 = shed.for_keys over #shed.list<0, group = 32> init(%s0) : !shed.softmax {
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

// expected-error @+1 {{has no form for warpgroups: heads that share lists are to share keys, and a layer's do not}}
shed.kernel @lists_of_layer attention element(bf16) head_dim(128) shared_lists per_layer encoding(uint16) tiling(#shed.wgmma_tiling<consumers = 3, keys = 128, stages = 2, parts = 2, producer_registers = 32, consumer_registers = 160>) {
  %q = shed.load_queries : !shed.tile<queries, channels, bf16>
  %s0 = shed.softmax_init : !shed.softmax
  %s1 = shed.for_keys over #shed.list<0, group = 64> init(%s0) : !shed.softmax {
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

// expected-error @+1 {{has no form for warpgroups: heads share lists for groups of 96 rows; they are to be 16, 32 or a multiple of 64}}
shed.kernel @shared_by_96_rows attention element(bf16) head_dim(128) shared_lists encoding(uint16) tiling(#shed.wgmma_tiling<consumers = 3, keys = 128, stages = 2, parts = 2, producer_registers = 32, consumer_registers = 160>) {
  %q = shed.load_queries : !shed.tile<queries, channels, bf16>
  %s0 = shed.softmax_init : !shed.softmax
  %s1 = shed.for_keys over #shed.list<0, group = 96> init(%s0) : !shed.softmax {
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

// expected-error @+1 {{has no form for warpgroups: query_stages is 0 with shared, not 2: where heads share lists some warpgroups have no work, and blocks that go on to further rows need all of them}}
shed.kernel @shared_and_persistent attention element(bf16) head_dim(128) shared_lists encoding(uint16) tiling(#shed.wgmma_tiling<consumers = 3, keys = 128, stages = 2, parts = 2, producer_registers = 32, consumer_registers = 160, query_stages = 2>) {
  %q = shed.load_queries : !shed.tile<queries, channels, bf16>
  %s0 = shed.softmax_init : !shed.softmax
  %s1 = shed.for_keys over #shed.list<0, group = 32> init(%s0) : !shed.softmax {
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

// Eight blocks divide the keys of 64 rows among them. Each runs its share of the
// tiles, puts maxima, denominators and sums where its tiles lay, and the first four
// finish 32 columns.
// CHECK-LABEL: llvm.func @shares
// CHECK-SAME: heddle.cluster = 8
// CHECK-SAME: heddle.query_rows = 8
// CHECK-SAME: nvvm.cluster_dim = array<i32: 8, 1, 1>
// CHECK: %[[PASS:.+]]:3 = scf.for {{.*}} -> (!warp.fragment<128, f32>, !warp.fragment<1, f32>, !warp.fragment<1, f32>)
// CHECK: %[[SUM:.+]] = warp.combine add %[[PASS]]#2 : <1, f32>
// CHECK: warp.space 34816 over_tiles
// CHECK: warp.put %[[PASS]]#1, %{{.+}} : <1, f32>
// CHECK: warp.put %[[SUM]], %{{.+}} : <1, f32>
// CHECK: warp.put %[[PASS]]#0, %{{.+}} : <128, f32>
// CHECK: warp.meet_cluster
// CHECK: scf.if
// CHECK: warp.get {{.*}} : <32, f32>
// CHECK: warp.store {{.*}} : <32, bf16>
// CHECK: warp.meet_cluster
shed.kernel @shares attention element(bf16) head_dim(128) some_rows tiling(#shed.wgmma_tiling<consumers = 1, keys = 64, stages = 2, parts = 1, producer_registers = 40, consumer_registers = 208, blocks = 2, key_shares = 8>) {
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

// Rows of all query heads of a key head are packed: the heads take turns, a
// block's y is a key head, and rows are counted for all of its query heads.
// CHECK-LABEL: llvm.func @packed
// CHECK-SAME: heddle.cluster = 8
// CHECK-SAME: heddle.query_rows = 8
// CHECK-DAG: %[[HEAD:.*]] = nvvm.read.ptx.sreg.ctaid.y
// CHECK-DAG: %[[ALL:.*]] = arith.muli %[[ROWS:.*]], %[[HEADS:.*]] : i32
// CHECK: %[[FIRST:.*]] = arith.muli %[[HEAD]], %[[HEADS]] : i32
// CHECK: warp.load {{.*}} batch(%[[HEADS]], %{{.*}}) in_turns :
// CHECK: warp.store {{.*}} batch(%[[HEADS]], %{{.*}}) in_turns :
shed.kernel @packed attention element(bf16) head_dim(128) some_rows tiling(#shed.wgmma_tiling<consumers = 1, keys = 64, stages = 2, parts = 1, producer_registers = 40, consumer_registers = 208, blocks = 2, key_shares = 8, packed = true>) {
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

shed.kernel @shares_of_lists attention element(bf16) head_dim(128) encoding(uint16) tiling(#shed.wgmma_tiling<consumers = 1, keys = 64, stages = 2, parts = 1, producer_registers = 40, consumer_registers = 208, key_shares = 2>) {
  %q = shed.load_queries : !shed.tile<queries, channels, bf16>
  %s0 = shed.softmax_init : !shed.softmax
  // expected-error @+1 {{has no form for warpgroups: blocks divide keys among them where there are no lists}}
  %s1 = shed.for_keys over #shed.list<0, group = 64> init(%s0) : !shed.softmax {
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

shed.kernel @blocks attention element(bf16) head_dim(128) tiling(#shed.wgmma_tiling<consumers = 1, keys = 64, stages = 2, parts = 1, producer_registers = 40, consumer_registers = 232>) {
  %q = shed.load_queries : !shed.tile<queries, channels, bf16>
  %s0 = shed.softmax_init : !shed.softmax
  // expected-error @+1 {{has no form for warpgroups: tiles of 64 keys do not divide blocks of 96}}
  %s1 = shed.for_keys over #shed.blocks<0, size = 96> init(%s0) : !shed.softmax {
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

// expected-error @+1 {{has no form for warpgroups, which have kernels for bf16 and f16}}
shed.kernel @wide attention element(f32) head_dim(128) tiling(#shed.wgmma_tiling<consumers = 1, keys = 64, stages = 2, parts = 1, producer_registers = 40, consumer_registers = 232>) {
  %s0 = shed.softmax_init : !shed.softmax
  shed.store %s0
}

// -----

// Tiles of consecutive keys by the tensor maps that the arguments name; queries
// are copied by those that need them. Both blocks of a cluster stay where one
// has rows.
// CHECK-LABEL: llvm.func @fetched
// CHECK-SAME: heddle.map_rows = 128
// CHECK-SAME: cluster = 2>
// CHECK: arith.andi %{{.*}}, %{{.*}}-2
// CHECK: %[[Q:.*]] = warp.load
// CHECK: warp.negate %[[Q]] if
// CHECK: scf.for
// CHECK: warp.load {{.*}} map(%{{.*}}[%[[COLUMN:.*]] : !llvm.ptr<1>) : <1>, <128, 128, bf16>
// CHECK: warp.load {{.*}} map(%{{.*}}[%[[COLUMN]] : !llvm.ptr<1>) : <1>, <128, 128, bf16>
shed.kernel @fetched attention element(bf16) head_dim(128) tiling(#shed.wgmma_tiling<consumers = 3, keys = 128, stages = 2, parts = 2, producer_registers = 32, consumer_registers = 160, tma = true, cluster = 2>) {
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

// A block goes on to further tiles of rows: an outer loop takes turns, of all heads
// and tiles. It loads the queries of all of the block's warpgroups, by a map of
// their own; each multiplies its rows. Blocks of a cluster take neighbouring tiles, and count by their
// cluster's number. The last tasks may have 128 rows instead of 192, and warpgroups without rows are idle.
// CHECK-LABEL: llvm.func @persistent
// CHECK-SAME: heddle.persistent = 1
// CHECK-SAME: cluster = 2, turn_stages = 2>
// CHECK-DAG: %[[TASK:.*]] = nvvm.read.ptx.sreg.clusterid.x
// CHECK-DAG: %[[STEP:.*]] = nvvm.read.ptx.sreg.nclusterid.x
// CHECK: scf.for %[[TURN:[a-z0-9]+]] =
// CHECK: %[[BEFORE:.*]] = arith.muli %[[TURN]], %[[STEP]]
// CHECK: %[[OWN:.*]] = arith.addi %[[TASK]], %[[BEFORE]]
// CHECK: %[[SHORT:.*]] = arith.cmpi sge, %[[OWN]],
// CHECK: arith.select %[[SHORT]], %c128_i32{{.*}}, %c192_i32
// CHECK: %[[GROUP:.*]] = warp.warpgroup
// CHECK: %[[FROM:.*]] = arith.shli %[[GROUP]],
// CHECK: warp.idle
// CHECK: %[[Q:.*]] = warp.load {{.*}} map({{.*}}) : <1>, <192, 128, bf16>
// CHECK: warp.negate %[[Q]] from %[[FROM]] if
// CHECK: scf.for
// CHECK: warp.multiply %[[Q]] from %[[FROM]], %{{.*}} transposed
// CHECK: warp.store
shed.kernel @persistent attention element(bf16) head_dim(128) tiling(#shed.wgmma_tiling<consumers = 3, keys = 128, stages = 2, parts = 2, producer_registers = 32, consumer_registers = 160, tma = true, cluster = 2, query_stages = 2>) {
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

shed.kernel @fetched_columns attention element(bf16) head_dim(128) encoding(uint16) tiling(#shed.wgmma_tiling<consumers = 1, keys = 80, stages = 2, parts = 1, producer_registers = 40, consumer_registers = 208, tma = true>) {
  %q = shed.load_queries : !shed.tile<queries, channels, bf16>
  %s0 = shed.softmax_init : !shed.softmax
  // expected-error @+1 {{has no form for warpgroups: tensor maps bring consecutive keys, not those of a list}}
  %s1 = shed.for_keys over #shed.list<0, group = 64> init(%s0) : !shed.softmax {
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

shed.kernel @shared_blocks attention element(bf16) head_dim(128) tiling(#shed.wgmma_tiling<consumers = 2, keys = 64, stages = 2, parts = 1, producer_registers = 40, consumer_registers = 208, tma = true, cluster = 2>) {
  %q = shed.load_queries : !shed.tile<queries, channels, bf16>
  %s0 = shed.softmax_init : !shed.softmax
  // expected-error @+1 {{has no form for warpgroups: blocks of a cluster share tiles of all keys alone}}
  %s1 = shed.for_keys over #shed.blocks<0, size = 128> init(%s0) : !shed.softmax {
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

// Selection: a key is a row of products, a query a column, so that its score is a
// sum along a row. Each warpgroup has a group of rows, whose log-sum-exps, a value
// a column, stay; a tile of keys has two left operands. Then all that compute make the lists of the scores.
// CHECK-LABEL: llvm.func @select
// CHECK-SAME: heddle.query_rows = 128 : i64, heddle.scratch_bytes = 64 : i64, heddle.scratch_bytes_per_key = 16 : i64
// CHECK: scf.for
// CHECK: %[[OWN:.*]] = warp.warpgroup
// CHECK: %[[Q:.*]] = warp.load {{.*}} : <1>, <128, 128, bf16>
// CHECK: %[[LSE:.*]] = warp.read_columns {{.*}} : <1>, <128, f32>
// CHECK: %[[NEGATED:.*]] = warp.map(%[[LSE]])
// CHECK: scf.for
// CHECK: %[[K:.*]] = warp.load {{.*}} : <1>, <128, 128, bf16>
// CHECK: warp.multiply %[[K]], %[[Q]] transposed
// CHECK: %[[LOGITS:.*]] = warp.wait
// CHECK: %[[WEIGHTS:.*]] = warp.map(%[[LOGITS]], %[[NEGATED]])
// CHECK: math.exp2
// CHECK: %[[PARTS:.*]] = warp.reduce add %[[WEIGHTS]]
// CHECK: warp.combine add %[[PARTS]]
// CHECK: warp.store_column
// CHECK: warp.multiply %[[K]] from %c64{{.*}}, %[[Q]] transposed
// CHECK: warp.store_column
// CHECK: warp.meet
// CHECK: warp.space
// CHECK: llvm.atomicrmw add
// CHECK: warp.meet
// CHECK: llvm.return
shed.kernel @select select element(bf16) head_dim(128) group(128) encoding(uint16) tiling(#shed.wgmma_tiling<consumers = 4, keys = 128, stages = 2, parts = 1, producer_registers = 24, consumer_registers = 112>) {
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

// -----

// Blocks of 32 keys: a warpgroup has four groups of 32 rows, whose sums are slices
// of a product's columns. Where the second span is scored by itself, a turn more
// does that, and lists are made behind it.
// CHECK-LABEL: llvm.func @select_blocks
// CHECK-SAME: heddle.query_rows = 32 : i64, heddle.scratch_bytes = 288 : i64, heddle.scratch_bytes_per_key = 72 : i64
// CHECK: arith.shli
// CHECK: warp.load {{.*}} : <1>, <128, 128, bf16>
// CHECK: %[[WEIGHTS:.*]] = warp.map
// CHECK: warp.slice %{{.*}} from 0 : <128, f32> -> <32, f32>
// CHECK: warp.store_column
// CHECK: warp.slice %{{.*}} from 96 : <128, f32> -> <32, f32>
// CHECK: scf.if
// CHECK: warp.meet
shed.kernel @select_blocks select element(bf16) head_dim(128) group(32) tiling(#shed.wgmma_tiling<consumers = 2, keys = 64, stages = 3, parts = 1, producer_registers = 40, consumer_registers = 232>) {
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
  %e = shed.mass_init : !shed.mass
  %t = shed.for_queries span init(%e) : !shed.mass {
  ^bb0(%o: !shed.mass):
    %q = shed.load_queries : !shed.tile<queries, channels, bf16>
    %l = shed.load_lse span
    %s = shed.for_keys over #shed.span init(%o) : !shed.mass {
    ^bb0(%keys: !shed.keys, %c: !shed.mass):
      %k = shed.load_keys %keys : !shed.tile<keys, channels, bf16>
      %x = shed.dot %q, %k : !shed.tile<queries, channels, bf16>, !shed.tile<keys, channels, bf16>
      %n = shed.column_mass %c, %x, %l, %keys
      shed.yield %n : !shed.mass
    }
    shed.yield %s : !shed.mass
  }
  shed.top_k %r span %t blocks
}

// -----

// expected-error @+1 {{has no form for warpgroups: head_dim is a multiple of 64 up to 256, not 320}}
shed.kernel @wide_scores select element(bf16) head_dim(320) group(128) encoding(uint16) tiling(#shed.wgmma_tiling<consumers = 4, keys = 128, stages = 2, parts = 1, producer_registers = 24, consumer_registers = 112>) {
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

// -----

// expected-error @+1 {{has no form for warpgroups: they score for groups of 16, 32, 64 or 128 rows, not 256}}
shed.kernel @large_groups select element(bf16) head_dim(128) group(256) encoding(uint16) tiling(#shed.wgmma_tiling<consumers = 4, keys = 128, stages = 2, parts = 1, producer_registers = 24, consumer_registers = 112>) {
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

// -----

// expected-error @+1 {{has no form for warpgroups: they score for groups of 16, 32, 64 or 128 rows, not 256}}
shed.kernel @select_shared select element(bf16) head_dim(128) group(256) shared_lists tiling(#shed.wgmma_tiling<consumers = 4, keys = 128, stages = 2, parts = 1, producer_registers = 24, consumer_registers = 112>) {
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
