// REQUIRES: heddle-opt
// RUN: heddle-opt %s | heddle-opt | FileCheck %s
// RUN: heddle-opt %s --mlir-print-op-generic | heddle-opt | FileCheck %s

// CHECK-LABEL: shed.kernel @mixed attention element(f32) head_dim(128) writes_lse
// CHECK-SAME: tiling(#shed.tiling<query_rows = 64, panel = 64, keys = 64, lanes = 16, block_keys = 4, block_channels = 4, dot = fma>)
shed.kernel @mixed attention element(f32) head_dim(128) writes_lse
    tiling(#shed.tiling<query_rows = 64, panel = 64, keys = 64, lanes = 16, block_keys = 4, block_channels = 4, dot = fma>) {
  // CHECK: shed.load_queries : <queries, channels, f32>
  %q = shed.load_queries : !shed.tile<queries, channels, f32>
  %s0 = shed.softmax_init : !shed.softmax
  // CHECK: shed.for_keys over #shed.list<0, group = 128> init(%{{.+}}) : !shed.softmax
  %s1 = shed.for_keys over #shed.list<0, group = 128> init(%s0) : !shed.softmax {
  ^bb0(%keys: !shed.keys, %s: !shed.softmax):
    %k = shed.load_keys %keys : !shed.tile<keys, channels, f32>
    %v = shed.load_values %keys : !shed.tile<keys, channels, f32>
    %l = shed.dot %q, %k : !shed.tile<queries, channels, f32>, !shed.tile<keys, channels, f32>
    %n = shed.softmax_update %s, %l, %v : !shed.tile<keys, channels, f32>
    shed.yield %n : !shed.softmax
  }
  // CHECK: shed.for_keys over {{.*}} skip [#shed.list<0, group = 128>, #shed.sinks<4>, #shed.sinks<?>]
  %s2 = shed.for_keys over #shed.window<64> skip [#shed.list<0, group = 128>, #shed.sinks<4>, #shed.sinks<?>] init(%s1) : !shed.softmax {
  ^bb0(%keys: !shed.keys, %s: !shed.softmax):
    %k = shed.load_keys %keys : !shed.tile<keys, channels, f32>
    %v = shed.load_values %keys : !shed.tile<keys, channels, f32>
    %l = shed.dot %q, %k : !shed.tile<queries, channels, f32>, !shed.tile<keys, channels, f32>
    // CHECK: shed.mask %{{.+}}, %{{.+}} within #shed.window<64> outside [#shed.window<8>]
    %m = shed.mask %l, %keys within #shed.window<64> outside [#shed.window<8>]
    %n = shed.softmax_update %s, %m, %v : !shed.tile<keys, channels, f32>
    shed.yield %n : !shed.softmax
  }
  // CHECK: shed.store
  shed.store %s2
}

// CHECK-LABEL: shed.kernel @pick select element(bf16) head_dim(64) group(128)
shed.kernel @pick select element(bf16) head_dim(64) group(128) {
  %m0 = shed.mass_init : !shed.mass
  // CHECK: shed.for_queries
  %m1 = shed.for_queries init(%m0) : !shed.mass {
  ^bb0(%m: !shed.mass):
    %q = shed.load_queries : !shed.tile<queries, channels, bf16>
    %lse = shed.load_lse
    %r = shed.for_keys over #shed.all init(%m) : !shed.mass {
    ^bb0(%keys: !shed.keys, %c: !shed.mass):
      %k = shed.load_keys %keys : !shed.tile<keys, channels, bf16>
      %l = shed.dot %q, %k : !shed.tile<queries, channels, bf16>, !shed.tile<keys, channels, bf16>
      // CHECK: shed.column_mass
      %n = shed.column_mass %c, %l, %lse, %keys
      shed.yield %n : !shed.mass
    }
    shed.yield %r : !shed.mass
  }
  // CHECK: shed.top_k
  shed.top_k %m1
}

// CHECK-LABEL: shed.kernel @tiled attention element(f32) head_dim(64) shared_lists {
shed.kernel @tiled attention element(f32) head_dim(64) shared_lists {
  %s0 = shed.softmax_init : !shed.softmax
  // CHECK: shed.for_keys over #shed.blocks<0, size = 64> init
  %s1 = shed.for_keys over #shed.blocks<0, size = 64> init(%s0) : !shed.softmax {
  ^bb0(%keys: !shed.keys, %s: !shed.softmax):
    shed.yield %s : !shed.softmax
  }
  // CHECK: shed.for_keys over #shed.list<1, group = 32> skip [#shed.blocks<0, size = 64>]
  %s2 = shed.for_keys over #shed.list<1, group = 32> skip [#shed.blocks<0, size = 64>] init(%s1) : !shed.softmax {
  ^bb0(%keys: !shed.keys, %s: !shed.softmax):
    shed.yield %s : !shed.softmax
  }
  shed.store %s2
}

// CHECK-LABEL: shed.kernel @pick_blocks select element(f32) head_dim(64) group(64) shared_lists {
shed.kernel @pick_blocks select element(f32) head_dim(64) group(64) shared_lists {
  %m0 = shed.mass_init : !shed.mass
  %m1 = shed.for_queries init(%m0) : !shed.mass {
  ^bb0(%m: !shed.mass):
    %q = shed.load_queries : !shed.tile<queries, channels, f32>
    %lse = shed.load_lse
    %r = shed.for_keys over #shed.all init(%m) : !shed.mass {
    ^bb1(%keys: !shed.keys, %c: !shed.mass):
      %k = shed.load_keys %keys : !shed.tile<keys, channels, f32>
      %l = shed.dot %q, %k : !shed.tile<queries, channels, f32>, !shed.tile<keys, channels, f32>
      %n = shed.column_mass %c, %l, %lse, %keys
      shed.yield %n : !shed.mass
    }
    shed.yield %r : !shed.mass
  }
  %s0 = shed.mass_init : !shed.mass
  // CHECK: shed.for_queries span init
  %m2 = shed.for_queries span init(%s0) : !shed.mass {
  ^bb0(%m: !shed.mass):
    %q = shed.load_queries : !shed.tile<queries, channels, f32>
    // CHECK: shed.load_lse span
    %lse = shed.load_lse span
    // CHECK: shed.for_keys over {{.*}}span
    %r = shed.for_keys over #shed.span init(%m) : !shed.mass {
    ^bb1(%keys: !shed.keys, %c: !shed.mass):
      %k = shed.load_keys %keys : !shed.tile<keys, channels, f32>
      // CHECK: shed.scores %{{.+}} at %{{.+}} (%logit, %query) {
      // CHECK: shed.yield %{{.+}} : f32
      %l = shed.dot %q, %k : !shed.tile<queries, channels, f32>, !shed.tile<keys, channels, f32>
      %f = shed.scores %l at %keys (%logit, %query) {
        %x = arith.sitofp %query : i32 to f32
        %y = arith.addf %logit, %x : f32
        shed.yield %y : f32
      }
      %n = shed.column_mass %c, %f, %lse, %keys
      shed.yield %n : !shed.mass
    }
    shed.yield %r : !shed.mass
  }
  // CHECK: shed.top_k %{{.+}} span %{{.+}} blocks
  shed.top_k %m1 span %m2 blocks
}
