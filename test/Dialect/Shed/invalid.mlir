// REQUIRES: heddle-opt
// RUN: heddle-opt %s --split-input-file --verify-diagnostics

// expected-error@+1 {{of kind select needs group}}
shed.kernel @a select element(f32) head_dim(128) {
  %m = shed.mass_init : !shed.mass
  shed.top_k %m
}

// -----

// expected-error@+1 {{has head_dim 100; expected a multiple of 32}}
shed.kernel @b attention element(f32) head_dim(100) {
  %s = shed.softmax_init : !shed.softmax
  shed.store %s
}

// -----

// expected-error@+1 {{of kind attention must end in shed.store}}
shed.kernel @c attention element(f32) head_dim(64) {
  %s = shed.softmax_init : !shed.softmax
}

// -----

shed.kernel @d attention element(bf16) head_dim(64) {
  // expected-error@+1 {{loads 'f32' in a kernel whose element is 'bf16'}}
  %q = shed.load_queries : !shed.tile<queries, channels, f32>
  %s = shed.softmax_init : !shed.softmax
  shed.store %s
}

// -----

shed.kernel @e attention element(f32) head_dim(64) {
  %s = shed.softmax_init : !shed.softmax
  // expected-error@+1 {{reads list 4; a kernel has at most 4 lists}}
  %r = shed.for_keys over #shed.list<4, group = 32> init(%s) : !shed.softmax {
  ^bb0(%keys: !shed.keys, %c: !shed.softmax):
    shed.yield %c : !shed.softmax
  }
  shed.store %r
}

// -----

shed.kernel @f attention element(f32) head_dim(64) {
  %s = shed.softmax_init : !shed.softmax
  // expected-error@+1 {{has a region with arguments}}
  %r = shed.for_keys over #shed.all init(%s) : !shed.softmax {
  ^bb0(%c: !shed.softmax):
    shed.yield %c : !shed.softmax
  }
  shed.store %r
}

// -----

// expected-error@+1 {{the size of window is from 1 to 2147483647, not -2}}
#w = #shed.window<-2>

// -----

// expected-error@+1 {{an intersection is of windows, sinks whose number is known and the like, not of #shed.sinks<?>}}
#w = #shed.both<[#shed.window<8>, #shed.sinks<?>]>

// -----

// expected-error@+1 {{an intersection is of windows, sinks whose number is known and the like, not of #shed.both<[#shed.window<8>]>}}
#w = #shed.both<[#shed.both<[#shed.window<8>]>, #shed.sinks<2>]>

// -----

// expected-error@+1 {{panel = 20 is not a positive multiple of lanes = 16}}
#t = #shed.tiling<query_rows = 20, panel = 20, keys = 64, lanes = 16, block_keys = 4, block_channels = 4, dot = fma>

// -----

// expected-error@+1 {{fetch_ahead is 0, 1 or 2, not 3}}
#t = #shed.tiling<query_rows = 32, panel = 32, keys = 64, lanes = 16, block_keys = 8, block_channels = 8, dot = fma, fetch_ahead = 3>

// -----

// expected-error@+1 {{with fetch_ahead a tile has at most 1024 keys, not 2048}}
#t = #shed.tiling<query_rows = 32, panel = 32, keys = 2048, lanes = 16, block_keys = 8, block_channels = 8, dot = fma, fetch_ahead = 1>

// -----

// expected-error@+1 {{reads and writes no index list, so it can't have an encoding}}
shed.kernel @encoded attention element(f32) head_dim(64) encoding(bitmap) {
  %s = shed.softmax_init : !shed.softmax
  shed.store %s
}

// -----

// expected-error@+1 {{query_rows = 96 is neither 16 nor 32 rows for each of 4 warps}}
#t = #shed.mma_tiling<query_rows = 96, warps = 4, keys = 64, stages = 2>

// -----

// expected-error@+1 {{an mma_tiling has 1, 2, 4, 8 or 16 warps, not 3}}
#t = #shed.mma_tiling<query_rows = 48, warps = 3, keys = 64, stages = 2>

// -----

// expected-error@+1 {{keys is a power of two from 16 to 256, not 48}}
#t = #shed.mma_tiling<query_rows = 64, warps = 4, keys = 48, stages = 2>

// -----

// expected-error@+1 {{stages is 2 or 3, not 1}}
#t = #shed.mma_tiling<query_rows = 64, warps = 4, keys = 64, stages = 1>

// -----

// expected-error@+1 {{a block has 1 to 1024 keys, not 0}}
#b = #shed.blocks<0, size = 0>

// -----

// expected-error@+1 {{a block has 1 to 1024 keys, not 2147483648}}
#b = #shed.blocks<0, size = 2147483648>

// -----

shed.kernel @many attention element(f32) head_dim(64) {
  %s = shed.softmax_init : !shed.softmax
  // expected-error@+1 {{reads list 4; a kernel has at most 4 lists}}
  %r = shed.for_keys over #shed.blocks<4, size = 32> init(%s) : !shed.softmax {
  ^bb0(%keys: !shed.keys, %c: !shed.softmax):
    shed.yield %c : !shed.softmax
  }
  shed.store %r
}

// -----

// expected-error@+1 {{reads and writes no index list, so it can't have shared ones}}
shed.kernel @alone attention element(f32) head_dim(64) shared_lists {
  %s = shed.softmax_init : !shed.softmax
  shed.store %s
}

// -----

shed.kernel @outside select element(f32) head_dim(64) group(64) {
  %m = shed.mass_init : !shed.mass
  %r = shed.for_queries init(%m) : !shed.mass {
  ^bb0(%c: !shed.mass):
    // expected-error@+1 {{reads a span outside of shed.for_queries span}}
    %l = shed.load_lse span
    shed.yield %c : !shed.mass
  }
  shed.top_k %r
}

// -----

shed.kernel @keys select element(f32) head_dim(64) group(64) {
  %m = shed.mass_init : !shed.mass
  // expected-error@+1 {{chooses from spans, which are spans of blocks: add `blocks`}}
  shed.top_k %m span %m
}

// -----

shed.kernel @few_sinks attention element(f32) head_dim(64) {
  %s = shed.softmax_init : !shed.softmax
  // expected-error@+1 {{the size of sinks is from 1 to 2147483647, not 0}}
  %r = shed.for_keys over #shed.sinks<0> init(%s) : !shed.softmax {
  ^bb0(%keys: !shed.keys, %c: !shed.softmax):
    shed.yield %c : !shed.softmax
  }
  shed.store %r
}
