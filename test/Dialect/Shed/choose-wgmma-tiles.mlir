// REQUIRES: heddle-opt
// RUN: split-file %s %t
// RUN: heddle-opt %t/kernels.mlir --shed-choose-wgmma-tiles=table=%t/table.json --shed-choose-mma-tiles | FileCheck %s
// RUN: not heddle-opt %t/kernels.mlir --shed-choose-wgmma-tiles=table=%t/missing.json 2>&1 | FileCheck %s --check-prefix=MISSING
// RUN: not heddle-opt %t/kernels.mlir --shed-choose-wgmma-tiles=table=%t/text.json 2>&1 | FileCheck %s --check-prefix=TEXT
// RUN: not heddle-opt %t/kernels.mlir --shed-choose-wgmma-tiles=table=%t/short.json 2>&1 | FileCheck %s --check-prefix=SHORT
// RUN: not heddle-opt %t/kernels.mlir --shed-choose-wgmma-tiles=table=%t/odd.json 2>&1 | FileCheck %s --check-prefix=ODD

// RUN: heddle-opt %t/kernels.mlir --shed-choose-wgmma-tiles=table=%t/maps.json --shed-choose-mma-tiles | FileCheck %s --check-prefix=MAPS
// RUN: not heddle-opt %t/kernels.mlir --shed-choose-wgmma-tiles=table=%t/copies.json 2>&1 | FileCheck %s --check-prefix=COPIES
// RUN: not heddle-opt %t/kernels.mlir --shed-choose-wgmma-tiles=table=%t/cluster.json 2>&1 | FileCheck %s --check-prefix=CLUSTER

// RUN: heddle-opt %t/kernels.mlir --shed-choose-wgmma-tiles=table=%t/shares.json --shed-choose-mma-tiles | FileCheck %s --check-prefix=SHARES
// RUN: not heddle-opt %t/kernels.mlir --shed-choose-wgmma-tiles=table=%t/three.json 2>&1 | FileCheck %s --check-prefix=THREE

// Blocks that divide keys among them are a form for steps of some rows of long
// sequences; that for all rows has its own entry.
// SHARES-LABEL: shed.kernel @dense attention
// SHARES-NOT: key_shares
// SHARES-LABEL: shed.kernel @some_rows attention
// SHARES-SAME: some_rows tiling(#shed.mma_tiling
// SHARES-LABEL: shed.kernel @some_rows_all attention
// SHARES-SAME: wgmma_tiling<consumers = 3
// SHARES-NOT: key_shares
// SHARES-LABEL: shed.kernel @some_rows_long attention
// SHARES-SAME: some_rows tiling(#shed.wgmma_tiling<consumers = 1
// SHARES-SAME: key_shares = 8, least_keys = 4096>
// THREE: error: {{.*}}three.json: a table of tilings: wgmma[{{[0-9]}}]: key_shares is 1, 2, 4, 8 or 16, not 3

// RUN: sed 's/"key_shares": 8/"packed": true, "key_shares": 16/' %t/shares.json > %t/packed.json
// RUN: heddle-opt %t/kernels.mlir --shed-choose-wgmma-tiles=table=%t/packed.json --shed-choose-mma-tiles | FileCheck %s --check-prefix=PACKED
// RUN: sed 's/"key_shares": 3/"packed": true/' %t/three.json > %t/packed_alone.json
// RUN: not heddle-opt %t/kernels.mlir --shed-choose-wgmma-tiles=table=%t/packed_alone.json 2>&1 | FileCheck %s --check-prefix=PACKED_ALONE
// RUN: sed 's/"key_shares": 3/"packed": true, "over": "list", "key_shares": 4/' %t/three.json > %t/packed_list.json
// RUN: not heddle-opt %t/kernels.mlir --shed-choose-wgmma-tiles=table=%t/packed_list.json 2>&1 | FileCheck %s --check-prefix=PACKED_LIST
// RUN: sed 's/"key_shares": 3/"packed": true, "shared": true, "key_shares": 4/' %t/three.json > %t/packed_shared.json
// RUN: not heddle-opt %t/kernels.mlir --shed-choose-wgmma-tiles=table=%t/packed_shared.json 2>&1 | FileCheck %s --check-prefix=PACKED_SHARED

// Rows of all query heads of a key head in one tile are a form beside that for
// long sequences.
// PACKED-LABEL: shed.kernel @dense attention
// PACKED-NOT: key_shares
// PACKED-LABEL: shed.kernel @some_rows attention
// PACKED-NOT: @some_rows_long
// PACKED-LABEL: shed.kernel @some_rows_packed attention
// PACKED-SAME: key_shares = 16, least_keys = 4096, packed = true>
// PACKED_ALONE: error: {{.*}}packed_alone.json: a table of tilings: wgmma[{{[0-9]}}]: packed rows are for few of them, whose blocks divide keys; give key_shares of more than 1, or leave out packed
// PACKED_LIST: error: {{.*}}packed_list.json: a table of tilings: wgmma[0]: packed is false with over "list": rows of several query heads are packed over all keys and ranges, which these heads have in common; leave it out
// PACKED_SHARED: error: {{.*}}packed_shared.json: a table of tilings: wgmma[0]: packed is false with shared: rows of several query heads

// RUN: heddle-opt %t/kernels.mlir --shed-choose-wgmma-tiles=table=%t/persistent.json --shed-choose-mma-tiles | FileCheck %s --check-prefix=PERSISTENT
// RUN: not heddle-opt %t/kernels.mlir --shed-choose-wgmma-tiles=table=%t/five.json 2>&1 | FileCheck %s --check-prefix=FIVE
// RUN: not heddle-opt %t/kernels.mlir --shed-choose-wgmma-tiles=table=%t/persistent_shared.json 2>&1 | FileCheck %s --check-prefix=PERSISTENT_SHARED

// Blocks that go on to further tiles of rows, whose queries have a ring.
// PERSISTENT: shed.kernel @dense
// PERSISTENT-SAME: tma = true, cluster = 2, query_stages = 2>
// FIVE: error: {{.*}}five.json: a table of tilings: wgmma[{{[0-9]}}]: query_stages is from 0 to 4, and 0 with key_shares, not 5
// PERSISTENT_SHARED: error: {{.*}}persistent_shared.json: a table of tilings: wgmma[1]: query_stages is 0 with shared, not 2: where heads share lists some warpgroups have no work, and blocks that go on to further rows need all of them

// Tensor maps and clusters of two, where the table says so.
// MAPS: shed.kernel @dense
// MAPS-SAME: consumer_registers = 160, tma = true, cluster = 2>
// COPIES: error: {{.*}}copies.json: a table of tilings: wgmma[0].copies: "{{.*}}" is unknown, expected one of threads, tma
// CLUSTER: error: {{.*}}cluster.json: a table of tilings: wgmma[{{[0-9]}}]: cluster is 1, or 2 with tma, not 2

// MISSING: error: cannot read '{{.*}}missing.json'
// TEXT: error: {{.*}}text.json: a table of tilings is no JSON
// SHORT: error: {{.*}}short.json: a table of tilings: wgmma[0]: the field "keys" is missing
// ODD: error: {{.*}}odd.json: a table of tilings: wgmma[{{[0-9]}}]: keys is a multiple of 16 up to 256, not 100

// RUN: heddle-opt %t/lists.mlir --shed-choose-wgmma-tiles=table=%t/lists.json --shed-choose-mma-tiles | FileCheck %s --check-prefix=LISTS
// RUN: not heddle-opt %t/lists.mlir --shed-choose-wgmma-tiles=table=%t/sets.json 2>&1 | FileCheck %s --check-prefix=SETS

// RUN: not heddle-opt %t/lists.mlir --shed-choose-wgmma-tiles=table=%t/flag.json 2>&1 | FileCheck %s --check-prefix=FLAG

// FLAG: error: {{.*}}flag.json: a table of tilings: wgmma[0].shared: expected true or false, found
// SETS: error: {{.*}}sets.json: a table of tilings: wgmma[0].over: "{{.*}}" is unknown, expected one of all, list, blocks, range, union, scores

// Blocks of 128 rows do not divide groups of 64, so the next entry counts; keys
// of a bitmap are not read one by one; a union is more than one loop.
// LISTS-LABEL: shed.kernel @groups
// LISTS-SAME: wgmma_tiling<consumers = 1, keys = 80, stages = 2, parts = 1, producer_registers = 40, consumer_registers = 208, blocks = 2>
// LISTS-LABEL: shed.kernel @bitmap
// LISTS-SAME: #shed.mma_tiling
// Heads that share lists have an entry of their own, for groups of 16, 32 or a
// multiple of 64 rows; those of a layer, which do not share keys, none.
// LISTS-LABEL: shed.kernel @shared
// LISTS-SAME: wgmma_tiling<consumers = 3
// LISTS-LABEL: shed.kernel @of_layer
// LISTS-SAME: #shed.mma_tiling
// LISTS-LABEL: shed.kernel @shared_by_48
// LISTS-SAME: #shed.mma_tiling

// RUN: heddle-opt %t/checked.mlir --shed-choose-wgmma-tiles=table=%t/checked.json --shed-choose-mma-tiles | FileCheck %s --check-prefix=CHECKED
// RUN: sed 's/"element": "bf16", "check_sums"/"element": "f16", "check_sums"/' %t/checked.json > %t/checked_f16.json
// RUN: sed 's/bf16/f16/g' %t/checked.mlir > %t/checked_f16.mlir
// RUN: heddle-opt %t/checked_f16.mlir --shed-choose-wgmma-tiles=table=%t/checked_f16.json --shed-choose-mma-tiles | FileCheck %s --check-prefix=CHECKED_F16

// Sums instead of maxima: not where log-sum-exps are written, nor of functions of
// logits, which have the entry behind.
// CHECKED-LABEL: shed.kernel @plain
// CHECKED-SAME: parts = 4, producer_registers = 40, consumer_registers = 232, check_sums = true>
// CHECKED-LABEL: shed.kernel @with_lse
// CHECKED-SAME: parts = 2, producer_registers = 40, consumer_registers = 232>
// CHECKED-LABEL: shed.kernel @of_functions
// CHECKED-SAME: parts = 2, producer_registers = 40, consumer_registers = 232>
// CHECKED_F16-LABEL: shed.kernel @plain
// CHECKED_F16-SAME: check_sums = true>

// RUN: heddle-opt %t/select.mlir --shed-choose-wgmma-tiles=table=%t/select.json --shed-choose-mma-tiles | FileCheck %s --check-prefix=SELECT

// Selection for groups of at most 128 rows, larger ones are left; heads may share
// lists.
// SELECT-LABEL: shed.kernel @keys
// SELECT-SAME: wgmma_tiling<consumers = 4, keys = 128
// SELECT-LABEL: shed.kernel @large
// SELECT-SAME: #shed.mma_tiling
// SELECT-LABEL: shed.kernel @shared
// SELECT-SAME: wgmma_tiling<consumers = 4, keys = 128

// RUN: heddle-opt %t/unions.mlir --shed-choose-wgmma-tiles=table=%t/unions.json --shed-choose-mma-tiles | FileCheck %s --check-prefix=UNIONS

// Windows and sinks are ranges. Beside a list, they come before it: then the list
// skips sinks and masks windows, and nothing searches it.
// UNIONS-LABEL: shed.kernel @ranges
// UNIONS-SAME: wgmma_tiling<consumers = 3
// UNIONS-LABEL: shed.kernel @union
// UNIONS-SAME: wgmma_tiling<consumers = 1
// UNIONS: %[[INIT:.*]] = shed.softmax_init
// UNIONS: %[[NEAR:.*]] = shed.for_keys over #shed.window<128> init(%[[INIT]])
// UNIONS: shed.mask {{.*}} within #shed.window<128>{{$}}
// UNIONS: %[[SINKS:.*]] = shed.for_keys over #shed.sinks<4> init(%[[NEAR]])
// UNIONS: %[[M:.*]] = shed.mask {{.*}} outside [#shed.window<128>]
// UNIONS: shed.softmax_update {{.*}}, %[[M]],
// UNIONS: %[[ALL:.*]] = shed.for_keys over #shed.list<0, group = 64> skip [#shed.sinks<4>] init(%[[SINKS]])
// UNIONS: shed.mask {{.*}} outside [#shed.window<128>]
// UNIONS: shed.store %[[ALL]]
// Scores that ask for positions only where the entry is for them, too.
// UNIONS-LABEL: shed.kernel @distance
// UNIONS-SAME: wgmma_tiling<consumers = 2

// A kernel of which the table has an entry; others are cut as ever.
// CHECK-LABEL: shed.kernel @dense
// CHECK-SAME: wgmma_tiling<consumers = 3, keys = 128, stages = 2, parts = 2, producer_registers = 32, consumer_registers = 160>
// CHECK-LABEL: shed.kernel @other_type
// CHECK-SAME: mma_tiling
// Steps of few rows would leave most warpgroups without any; those of all rows
// have a form of their own.
// CHECK-LABEL: shed.kernel @some_rows attention
// CHECK-SAME: some_rows tiling(#shed.mma_tiling
// CHECK-LABEL: shed.kernel @some_rows_all attention
// CHECK-SAME: head_dim(128) tiling(#shed.wgmma_tiling<consumers = 3
// CHECK-LABEL: shed.kernel @window
// CHECK-SAME: mma_tiling

//--- table.json
{"wgmma": [{"element": "bf16", "head_dim": 128, "consumers": 3, "keys": 128, "stages": 2, "parts": 2,
            "producer_registers": 32, "consumer_registers": 160}]}
//--- maps.json
{"wgmma": [{"element": "bf16", "head_dim": 128, "consumers": 3, "keys": 128, "stages": 2, "parts": 2,
            "producer_registers": 32, "consumer_registers": 160, "copies": "tma", "cluster": 2}]}
//--- persistent.json
{"wgmma": [{"element": "bf16", "head_dim": 128, "consumers": 3, "keys": 128, "stages": 2, "parts": 2,
            "producer_registers": 32, "consumer_registers": 160, "copies": "tma", "cluster": 2, "query_stages": 2}]}
//--- five.json
{"wgmma": [{"element": "bf16", "head_dim": 128, "consumers": 3, "keys": 128, "stages": 2, "parts": 2,
            "producer_registers": 32, "consumer_registers": 160, "query_stages": 5}]}
//--- persistent_shared.json
{"wgmma": [{"element": "bf16", "over": "list", "head_dim": 128, "consumers": 3, "keys": 128, "stages": 2, "parts": 2,
            "producer_registers": 32, "consumer_registers": 160, "query_stages": 2},
           {"element": "bf16", "over": "list", "shared": true, "head_dim": 128, "consumers": 3, "keys": 128, "stages": 2,
            "parts": 2, "producer_registers": 32, "consumer_registers": 160, "query_stages": 2}]}
//--- shares.json
{"wgmma": [{"element": "bf16", "head_dim": 128, "consumers": 1, "keys": 64, "stages": 2, "parts": 1,
            "producer_registers": 40, "consumer_registers": 208, "blocks": 2, "key_shares": 8, "least_keys": 4096},
           {"element": "bf16", "head_dim": 128, "consumers": 3, "keys": 128, "stages": 2, "parts": 2,
            "producer_registers": 32, "consumer_registers": 160}]}
//--- three.json
{"wgmma": [{"element": "bf16", "head_dim": 128, "consumers": 1, "keys": 64, "stages": 2, "parts": 1,
            "producer_registers": 40, "consumer_registers": 208, "blocks": 2, "key_shares": 3}]}
//--- copies.json
{"wgmma": [{"element": "bf16", "head_dim": 128, "consumers": 3, "keys": 128, "stages": 2, "parts": 2,
            "producer_registers": 32, "consumer_registers": 160, "copies": "bulk"}]}
//--- cluster.json
{"wgmma": [{"element": "bf16", "head_dim": 128, "consumers": 3, "keys": 128, "stages": 2, "parts": 2,
            "producer_registers": 32, "consumer_registers": 160, "cluster": 2}]}
//--- text.json
keys = 128
//--- short.json
{"wgmma": [{"element": "bf16", "head_dim": 128, "consumers": 3}]}
//--- odd.json
{"wgmma": [{"element": "bf16", "head_dim": 128, "consumers": 3, "keys": 100, "stages": 2, "parts": 2,
            "producer_registers": 32, "consumer_registers": 160}]}
//--- kernels.mlir
shed.kernel @dense attention element(bf16) head_dim(128) {
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
shed.kernel @other_type attention element(f16) head_dim(128) {
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
shed.kernel @some_rows attention element(bf16) head_dim(128) some_rows {
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
shed.kernel @window attention element(bf16) head_dim(128) {
  %q = shed.load_queries : !shed.tile<queries, channels, bf16>
  %s0 = shed.softmax_init : !shed.softmax
  %s1 = shed.for_keys over #shed.sinks<64> init(%s0) : !shed.softmax {
  ^bb0(%keys: !shed.keys, %s: !shed.softmax):
    %k = shed.load_keys %keys : !shed.tile<keys, channels, bf16>
    %v = shed.load_values %keys : !shed.tile<keys, channels, bf16>
    %l = shed.dot %q, %k : !shed.tile<queries, channels, bf16>, !shed.tile<keys, channels, bf16>
    %n = shed.softmax_update %s, %l, %v : !shed.tile<keys, channels, bf16>
    shed.yield %n : !shed.softmax
  }
  shed.store %s1
}
//--- lists.json
{"wgmma": [{"element": "bf16", "over": "list", "head_dim": 128, "consumers": 2, "keys": 128, "stages": 3, "parts": 1,
            "producer_registers": 40, "consumer_registers": 232},
           {"element": "bf16", "over": "list", "head_dim": 128, "consumers": 1, "keys": 80, "stages": 2, "parts": 1,
            "producer_registers": 40, "consumer_registers": 208, "blocks": 2},
           {"element": "bf16", "over": "list", "shared": true, "head_dim": 128, "consumers": 3, "keys": 128, "stages": 2,
            "parts": 2, "producer_registers": 32, "consumer_registers": 160}]}
//--- flag.json
{"wgmma": [{"element": "bf16", "over": "list", "shared": 1, "head_dim": 128, "consumers": 1, "keys": 80, "stages": 2, "parts": 1,
            "producer_registers": 40, "consumer_registers": 208}]}
//--- sets.json
{"wgmma": [{"element": "bf16", "over": "near", "head_dim": 128, "consumers": 2, "keys": 128, "stages": 3, "parts": 1,
            "producer_registers": 40, "consumer_registers": 232}]}
//--- lists.mlir
shed.kernel @groups attention element(bf16) head_dim(128) encoding(uint16) {
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
shed.kernel @bitmap attention element(bf16) head_dim(128) encoding(bitmap) {
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
shed.kernel @shared attention element(bf16) head_dim(128) shared_lists encoding(uint16) {
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
shed.kernel @of_layer attention element(bf16) head_dim(128) shared_lists per_layer encoding(uint16) {
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
shed.kernel @shared_by_48 attention element(bf16) head_dim(128) shared_lists encoding(uint16) {
  %q = shed.load_queries : !shed.tile<queries, channels, bf16>
  %s0 = shed.softmax_init : !shed.softmax
  %s1 = shed.for_keys over #shed.list<0, group = 48> init(%s0) : !shed.softmax {
  ^bb0(%keys: !shed.keys, %s: !shed.softmax):
    %k = shed.load_keys %keys : !shed.tile<keys, channels, bf16>
    %v = shed.load_values %keys : !shed.tile<keys, channels, bf16>
    %l = shed.dot %q, %k : !shed.tile<queries, channels, bf16>, !shed.tile<keys, channels, bf16>
    %n = shed.softmax_update %s, %l, %v : !shed.tile<keys, channels, bf16>
    shed.yield %n : !shed.softmax
  }
  shed.store %s1
}
//--- checked.json
{"wgmma": [{"element": "bf16", "check_sums": true, "head_dim": 128, "consumers": 2, "keys": 128, "stages": 2, "parts": 4,
            "producer_registers": 40, "consumer_registers": 232},
           {"element": "bf16", "head_dim": 128, "consumers": 2, "keys": 128, "stages": 2, "parts": 2,
            "producer_registers": 40, "consumer_registers": 232}]}
//--- checked.mlir
shed.kernel @plain attention element(bf16) head_dim(128) {
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
shed.kernel @with_lse attention element(bf16) head_dim(128) writes_lse {
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
shed.kernel @of_functions attention element(bf16) head_dim(128) {
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
//--- unions.json
{"wgmma": [{"element": "bf16", "over": "range", "head_dim": 128, "consumers": 3, "keys": 128, "stages": 2, "parts": 2,
            "producer_registers": 32, "consumer_registers": 160, "copies": "tma"},
           {"element": "bf16", "over": "union", "head_dim": 128, "consumers": 1, "keys": 80, "stages": 2, "parts": 1,
            "producer_registers": 40, "consumer_registers": 208, "blocks": 2},
           {"element": "bf16", "head_dim": 128, "consumers": 3, "keys": 128, "stages": 2, "parts": 2,
            "producer_registers": 32, "consumer_registers": 160},
           {"element": "bf16", "head_dim": 128, "consumers": 2, "keys": 128, "stages": 2, "parts": 1,
            "producer_registers": 40, "consumer_registers": 232, "positions": true}]}
//--- unions.mlir
shed.kernel @ranges attention element(bf16) head_dim(128) {
  %q = shed.load_queries : !shed.tile<queries, channels, bf16>
  %s0 = shed.softmax_init : !shed.softmax
  %s1 = shed.for_keys over #shed.sinks<?> init(%s0) : !shed.softmax {
  ^bb0(%keys: !shed.keys, %s: !shed.softmax):
    %k = shed.load_keys %keys : !shed.tile<keys, channels, bf16>
    %v = shed.load_values %keys : !shed.tile<keys, channels, bf16>
    %l = shed.dot %q, %k : !shed.tile<queries, channels, bf16>, !shed.tile<keys, channels, bf16>
    %n = shed.softmax_update %s, %l, %v : !shed.tile<keys, channels, bf16>
    shed.yield %n : !shed.softmax
  }
  %s2 = shed.for_keys over #shed.window<128> skip [#shed.sinks<?>] init(%s1) : !shed.softmax {
  ^bb0(%keys: !shed.keys, %s: !shed.softmax):
    %k = shed.load_keys %keys : !shed.tile<keys, channels, bf16>
    %v = shed.load_values %keys : !shed.tile<keys, channels, bf16>
    %l = shed.dot %q, %k : !shed.tile<queries, channels, bf16>, !shed.tile<keys, channels, bf16>
    %m = shed.mask %l, %keys within #shed.window<128>
    %n = shed.softmax_update %s, %m, %v : !shed.tile<keys, channels, bf16>
    shed.yield %n : !shed.softmax
  }
  shed.store %s2
}
shed.kernel @union attention element(bf16) head_dim(128) encoding(uint16) {
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
  %s2 = shed.for_keys over #shed.window<128> skip [#shed.list<0, group = 64>] init(%s1) : !shed.softmax {
  ^bb0(%keys: !shed.keys, %s: !shed.softmax):
    %k = shed.load_keys %keys : !shed.tile<keys, channels, bf16>
    %v = shed.load_values %keys : !shed.tile<keys, channels, bf16>
    %l = shed.dot %q, %k : !shed.tile<queries, channels, bf16>, !shed.tile<keys, channels, bf16>
    %m = shed.mask %l, %keys within #shed.window<128>
    %n = shed.softmax_update %s, %m, %v : !shed.tile<keys, channels, bf16>
    shed.yield %n : !shed.softmax
  }
  %s3 = shed.for_keys over #shed.sinks<4> skip [#shed.list<0, group = 64>] init(%s2) : !shed.softmax {
  ^bb0(%keys: !shed.keys, %s: !shed.softmax):
    %k = shed.load_keys %keys : !shed.tile<keys, channels, bf16>
    %v = shed.load_values %keys : !shed.tile<keys, channels, bf16>
    %l = shed.dot %q, %k : !shed.tile<queries, channels, bf16>, !shed.tile<keys, channels, bf16>
    %m = shed.mask %l, %keys outside [#shed.window<128>]
    %n = shed.softmax_update %s, %m, %v : !shed.tile<keys, channels, bf16>
    shed.yield %n : !shed.softmax
  }
  shed.store %s3
}
shed.kernel @distance attention element(bf16) head_dim(128) {
  %q = shed.load_queries : !shed.tile<queries, channels, bf16>
  %s0 = shed.softmax_init : !shed.softmax
  %s1 = shed.for_keys over #shed.all init(%s0) : !shed.softmax {
  ^bb0(%keys: !shed.keys, %s: !shed.softmax):
    %k = shed.load_keys %keys : !shed.tile<keys, channels, bf16>
    %v = shed.load_values %keys : !shed.tile<keys, channels, bf16>
    %l = shed.dot %q, %k : !shed.tile<queries, channels, bf16>, !shed.tile<keys, channels, bf16>
    %m = shed.scores %l at %keys (%logit, %query, %key, %head) {
      %far = arith.subi %query, %key : i32
      %real = arith.sitofp %far : i32 to f32
      %z = arith.subf %logit, %real : f32
      shed.yield %z : f32
    }
    %n = shed.softmax_update %s, %m, %v : !shed.tile<keys, channels, bf16>
    shed.yield %n : !shed.softmax
  }
  shed.store %s1
}

//--- select.json
{"wgmma": [{"element": "bf16", "over": "scores", "head_dim": 128, "consumers": 4, "keys": 128, "stages": 2, "parts": 1, "producer_registers": 24, "consumer_registers": 112}]}
//--- select.mlir
shed.kernel @keys select element(bf16) head_dim(128) group(128) encoding(uint16) {
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
shed.kernel @large select element(bf16) head_dim(128) group(256) encoding(uint16) {
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
shed.kernel @shared select element(bf16) head_dim(128) group(128) shared_lists encoding(uint16) {
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
