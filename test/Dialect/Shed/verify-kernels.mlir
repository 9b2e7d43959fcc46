// REQUIRES: heddle-opt
// RUN: heddle-opt %s --shed-verify-kernels="vector-registers=16" --split-input-file --verify-diagnostics

// expected-error@+1 {{has no tiling for a vector machine, so its tiles have no static shape; run shed-choose-tiles first}}
shed.kernel @none attention element(f32) head_dim(128) {
  %s = shed.softmax_init : !shed.softmax
  shed.store %s
}

// -----

// expected-error@+1 {{needs 21 vector registers for a block; there are 16}}
shed.kernel @spills attention element(f32) head_dim(128)
    tiling(#shed.tiling<query_rows = 64, panel = 64, keys = 64, lanes = 16, block_keys = 4, block_channels = 4, dot = fma>) {
  %s = shed.softmax_init : !shed.softmax
  shed.store %s
}

// -----

// expected-error@+1 {{has tasks of 64 rows that do not divide its groups (common divisor 32)}}
shed.kernel @crosses attention element(f32) head_dim(128)
    tiling(#shed.tiling<query_rows = 64, panel = 16, keys = 64, lanes = 8, block_keys = 4, block_channels = 4, dot = fma>) {
  %s = shed.softmax_init : !shed.softmax
  %r = shed.for_keys over #shed.list<0, group = 32> init(%s) : !shed.softmax {
  ^bb0(%keys: !shed.keys, %c: !shed.softmax):
    shed.yield %c : !shed.softmax
  }
  shed.store %r
}

// -----

// expected-error@+1 {{multiplies 'f32' with a bf16 product}}
shed.kernel @kind attention element(f32) head_dim(128)
    tiling(#shed.tiling<query_rows = 64, panel = 16, keys = 64, lanes = 8, block_keys = 4, block_channels = 4, dot = pairs, pack_values = true>) {
  %s = shed.softmax_init : !shed.softmax
  shed.store %s
}
