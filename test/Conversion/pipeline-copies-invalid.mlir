// REQUIRES: heddle-opt
// RUN: heddle-opt %s --shed-pipeline-copies --split-input-file --verify-diagnostics

// expected-error@+1 {{has no tiling for a GPU; run shed-choose-mma-tiles first}}
shed.kernel @none attention element(bf16) head_dim(64) {
  %q = shed.load_queries : !shed.tile<queries, channels, bf16>
  %s = shed.softmax_init : !shed.softmax
  %r = shed.for_keys over #shed.all init(%s) : !shed.softmax {
  ^bb0(%keys: !shed.keys, %c: !shed.softmax):
    %k = shed.load_keys %keys : !shed.tile<keys, channels, bf16>
    %v = shed.load_values %keys : !shed.tile<keys, channels, bf16>
    %l = shed.dot %q, %k : !shed.tile<queries, channels, bf16>, !shed.tile<keys, channels, bf16>
    %n = shed.softmax_update %c, %l, %v : !shed.tile<keys, channels, bf16>
    shed.yield %n : !shed.softmax
  }
  shed.store %r
}

// -----

// expected-error@+1 {{has no tiling for a GPU; run shed-choose-mma-tiles first}}
shed.kernel @host attention element(f32) head_dim(64)
    tiling(#shed.tiling<query_rows = 64, panel = 64, keys = 64, lanes = 16, block_keys = 4, block_channels = 4, dot = fma>) {
  %q = shed.load_queries : !shed.tile<queries, channels, f32>
  %s = shed.softmax_init : !shed.softmax
  %r = shed.for_keys over #shed.all init(%s) : !shed.softmax {
  ^bb0(%keys: !shed.keys, %c: !shed.softmax):
    %k = shed.load_keys %keys : !shed.tile<keys, channels, f32>
    %v = shed.load_values %keys : !shed.tile<keys, channels, f32>
    %l = shed.dot %q, %k : !shed.tile<queries, channels, f32>, !shed.tile<keys, channels, f32>
    %n = shed.softmax_update %c, %l, %v : !shed.tile<keys, channels, f32>
    shed.yield %n : !shed.softmax
  }
  shed.store %r
}

// -----

// expected-error@+1 {{has tiles of 16 keys for 128 threads; with index lists a tile has at least 32 keys and at most one for each thread}}
shed.kernel @few_keys attention element(bf16) head_dim(64)
    tiling(#shed.mma_tiling<query_rows = 64, warps = 4, keys = 16, stages = 2>) {
  %q = shed.load_queries : !shed.tile<queries, channels, bf16>
  %s = shed.softmax_init : !shed.softmax
  %r = shed.for_keys over #shed.list<0, group = 64> init(%s) : !shed.softmax {
  ^bb0(%keys: !shed.keys, %c: !shed.softmax):
    %k = shed.load_keys %keys : !shed.tile<keys, channels, bf16>
    %v = shed.load_values %keys : !shed.tile<keys, channels, bf16>
    %l = shed.dot %q, %k : !shed.tile<queries, channels, bf16>, !shed.tile<keys, channels, bf16>
    %n = shed.softmax_update %c, %l, %v : !shed.tile<keys, channels, bf16>
    shed.yield %n : !shed.softmax
  }
  shed.store %r
}

// -----

// expected-error@+1 {{has groups of 24 rows; CUDA kernels select for a power of two from 16 rows on}}
shed.kernel @odd_group select element(bf16) head_dim(64) group(24) tiling(#shed.mma_tiling<query_rows = 64, warps = 4, keys = 64, stages = 2>) {
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

// expected-error@+1 {{has tiles of 32 keys for 4 warps; a select kernel takes 16, 32 or 64 for each warp}}
shed.kernel @few_keys select element(bf16) head_dim(64) group(64) tiling(#shed.mma_tiling<query_rows = 64, warps = 4, keys = 32, stages = 2>) {
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

// expected-error@+1 {{has the tiling #shed.mma_tiling<query_rows = 64, warps = 4, keys = 64, stages = 2, keep_queries = true>; a select kernel has stages = 2 and neither keep_queries nor share_keys}}
shed.kernel @kept_queries select element(bf16) head_dim(64) group(64) tiling(#shed.mma_tiling<query_rows = 64, warps = 4, keys = 64, stages = 2, keep_queries = true>) {
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
