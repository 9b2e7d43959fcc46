// REQUIRES: heddle-opt
// RUN: heddle-opt %s --shed-choose-tiles="vector-bytes=32 vector-registers=16" | FileCheck %s --check-prefix=AVX2
// RUN: heddle-opt %s --shed-choose-tiles="vector-bytes=64 vector-registers=32" | FileCheck %s --check-prefix=AVX512
// RUN: heddle-opt %s --shed-choose-tiles="vector-bytes=64 vector-registers=32 bf16-dot=true" | FileCheck %s --check-prefix=BF16
// RUN: heddle-opt %s --shed-choose-tiles="vector-bytes=64 vector-registers=32 bf16-dot=true bf16-tiles=true" | FileCheck %s --check-prefix=AMX
// RUN: heddle-opt %s --shed-choose-tiles="vector-bytes=64 vector-registers=32 bf16-dot=true fetches-late=true" | FileCheck %s --check-prefix=LATE

// AVX2: @full {{.*}}query_rows = 128, panel = 16, keys = 64, lanes = 8, {{.*}}dot = fma>
// LATE: @full {{.*}}keys = 64, {{.*}}dot = fma>
// AVX512: @full {{.*}}query_rows = 128, panel = 32, keys = 64, lanes = 16, block_keys = 8, block_channels = 8, dot = fma>
shed.kernel @full attention element(f32) head_dim(128) {
  %s = shed.softmax_init : !shed.softmax
  shed.store %s
}

// Without bf16 products keys and values are widened in scratch.
// AVX2: @half {{.*}}dot = fma, pack_keys = true, pack_values = true>
// AVX512: @half {{.*}}dot = fma, pack_keys = true, pack_values = true>
// BF16: @half {{.*}}dot = pairs, pack_values = true>
// AMX: @half {{.*}}query_rows = 256, panel = 32, {{.*}}dot = tiles, pack_values = true>
shed.kernel @half attention element(bf16) head_dim(128) {
  %s = shed.softmax_init : !shed.softmax
  shed.store %s
}

// A task never crosses a group. Rows that a list names are fetched ahead where
// that helps: of matrix tiles two tiles, of others one, and then few keys a
// tile, so that both find room in the nearest cache.
// AVX512: @grouped {{.*}}query_rows = 32, panel = 32, keys = 64, {{.*}}dot = fma>
// LATE: @grouped {{.*}}query_rows = 32, panel = 32, keys = 32, {{.*}}dot = fma, fetch_ahead = 1>
// AMX: @grouped {{.*}}query_rows = 32, panel = 32,
shed.kernel @grouped attention element(f32) head_dim(128) {
  %s = shed.softmax_init : !shed.softmax
  %r = shed.for_keys over #shed.list<0, group = 32> init(%s) : !shed.softmax {
  ^bb0(%keys: !shed.keys, %c: !shed.softmax):
    shed.yield %c : !shed.softmax
  }
  shed.store %r
}

// AMX: @grouped_half {{.*}}keys = 128, {{.*}}dot = tiles, pack_values = true, fetch_ahead = 2>
// LATE: @grouped_half {{.*}}keys = 64, {{.*}}dot = pairs, pack_values = true, fetch_ahead = 1>
shed.kernel @grouped_half attention element(bf16) head_dim(128) {
  %s = shed.softmax_init : !shed.softmax
  %r = shed.for_keys over #shed.list<0, group = 32> init(%s) : !shed.softmax {
  ^bb0(%keys: !shed.keys, %c: !shed.softmax):
    shed.yield %c : !shed.softmax
  }
  shed.store %r
}
