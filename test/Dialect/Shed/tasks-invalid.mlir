// REQUIRES: heddle-opt
// RUN: heddle-opt %s --split-input-file --verify-diagnostics

// What shed-pipeline-copies writes is checked where it is written by hand.
llvm.func @no_end(%args: !llvm.ptr<1>, %i: i32, %x: f32) {
  // expected-error@+1 {{must end in shed.store}}
  shed.attention_task element(bf16) head_dim(32) tiling(<query_rows = 16, warps = 1, keys = 16, stages = 2>)
      layout(<queries = 0, keys = 1024, bytes = 5120, values = 3072>) args(%args : !llvm.ptr<1>) n(%i) head(%i)
      rows(%i to %i) factor(%x) shared(%i) warp(%i, %i, %i) lane(%i, %i, %i, %i) {
    %s = shed.softmax_init : !shed.softmax
  }
  llvm.return
}

// -----

llvm.func @nested(%args: !llvm.ptr<1>, %i: i32, %x: f32) {
  shed.attention_task element(bf16) head_dim(32) tiling(<query_rows = 16, warps = 1, keys = 16, stages = 2>)
      layout(<queries = 0, keys = 1024, bytes = 5120, values = 3072>) args(%args : !llvm.ptr<1>) n(%i) head(%i)
      rows(%i to %i) factor(%x) shared(%i) warp(%i, %i, %i) lane(%i, %i, %i, %i) {
    %s = shed.softmax_init : !shed.softmax
    // expected-error@+1 {{must stand in an llvm.func and in no task}}
    shed.attention_task element(bf16) head_dim(32) tiling(<query_rows = 16, warps = 1, keys = 16, stages = 2>)
        layout(<queries = 0, keys = 1024, bytes = 5120, values = 3072>) args(%args : !llvm.ptr<1>) n(%i) head(%i)
        rows(%i to %i) factor(%x) shared(%i) warp(%i, %i, %i) lane(%i, %i, %i, %i) {
      shed.store %s
    }
    shed.store %s
  }
  llvm.return
}

// -----

llvm.func @split(%args: !llvm.ptr<1>, %i: i32, %x: f32) {
  // expected-error@+1 {{is split by 3 values; expected 3 where the tiling has share_keys and can have them, else none}}
  shed.attention_task element(bf16) head_dim(32) tiling(<query_rows = 16, warps = 1, keys = 16, stages = 2>)
      layout(<queries = 0, keys = 1024, bytes = 5120, values = 3072>) args(%args : !llvm.ptr<1>) n(%i) head(%i)
      rows(%i to %i) factor(%x) shared(%i) warp(%i, %i, %i) lane(%i, %i, %i, %i) split(%i, %i, %i) {
    %s = shed.softmax_init : !shed.softmax
    shed.store %s
  }
  llvm.return
}

// -----

llvm.func @shares(%args: !llvm.ptr<1>, %i: i32, %x: f32) {
  // expected-error@+1 {{is split by 0 values; expected 3 where the tiling has share_keys and can have them, else none}}
  shed.attention_task element(bf16) head_dim(32) tiling(<query_rows = 16, warps = 1, keys = 16, stages = 2, share_keys = true>)
      layout(<queries = 0, keys = 1024, bytes = 5120, values = 3072>) args(%args : !llvm.ptr<1>) n(%i) head(%i)
      rows(%i to %i) factor(%x) shared(%i) warp(%i, %i, %i) lane(%i, %i, %i, %i) {
    %s = shed.softmax_init : !shed.softmax
    shed.store %s
  }
  llvm.return
}

// -----

llvm.func @encoding(%args: !llvm.ptr<1>, %i: i32, %x: f32) {
  // expected-error@+1 {{has no keys of a list, so it can't have an encoding}}
  shed.attention_task element(bf16) head_dim(32) encoding(int32) tiling(<query_rows = 16, warps = 1, keys = 16, stages = 2>)
      layout(<queries = 0, keys = 1024, bytes = 5120, values = 3072>) args(%args : !llvm.ptr<1>) n(%i) head(%i)
      rows(%i to %i) factor(%x) shared(%i) warp(%i, %i, %i) lane(%i, %i, %i, %i) {
    %s = shed.softmax_init : !shed.softmax
    shed.store %s
  }
  llvm.return
}

// -----

llvm.func @kept(%args: !llvm.ptr<1>, %i: i32, %x: f32) {
  // expected-error@+1 {{of element f32 keeps no queries in registers}}
  shed.attention_task element(f32) head_dim(32) tiling(<query_rows = 16, warps = 1, keys = 16, stages = 2, keep_queries = true>)
      layout(<queries = 0, keys = 1024, bytes = 5120, values = 3072>) args(%args : !llvm.ptr<1>) n(%i) head(%i)
      rows(%i to %i) factor(%x) shared(%i) warp(%i, %i, %i) lane(%i, %i, %i, %i) {
    %s = shed.softmax_init : !shed.softmax
    shed.store %s
  }
  llvm.return
}

// -----

llvm.func @beyond(%args: !llvm.ptr<1>, %i: i32, %x: f32) {
  shed.attention_task element(bf16) head_dim(32) tiling(<query_rows = 16, warps = 1, keys = 16, stages = 2>)
      // expected-error@+1 {{an offset into shared memory is a multiple of 16 from 0 to the 5120 bytes of all, found 8192}}
      layout(<queries = 0, keys = 1024, bytes = 5120, values = 8192>) args(%args : !llvm.ptr<1>) n(%i) head(%i)
      rows(%i to %i) factor(%x) shared(%i) warp(%i, %i, %i) lane(%i, %i, %i, %i) {
    %s = shed.softmax_init : !shed.softmax
    shed.store %s
  }
  llvm.return
}

// -----

llvm.func @listed(%args: !llvm.ptr<1>, %i: i32, %x: f32) {
  shed.attention_task element(bf16) head_dim(32) tiling(<query_rows = 16, warps = 1, keys = 16, stages = 2>)
      layout(<queries = 0, keys = 1024, bytes = 5120, values = 3072>) args(%args : !llvm.ptr<1>) n(%i) head(%i)
      rows(%i to %i) factor(%x) shared(%i) warp(%i, %i, %i) lane(%i, %i, %i, %i) {
    // expected-error@+1 {{is of a list or marked, in tiles of 16 keys for 32 threads; such tiles have at least 32 keys, at most one for each thread, and no split}}
    %keys = shed.keys_at rank %i of %i stage %i
    %s = shed.softmax_init : !shed.softmax
    shed.store %s
  }
  llvm.return
}

// -----

llvm.func @blocks(%args: !llvm.ptr<1>, %i: i32, %x: f32) {
  shed.attention_task element(bf16) head_dim(32) tiling(<query_rows = 16, warps = 1, keys = 32, stages = 2>)
      layout(<queries = 0, keys = 1024, bytes = 5120, values = 3072>) args(%args : !llvm.ptr<1>) n(%i) head(%i)
      rows(%i to %i) factor(%x) shared(%i) warp(%i, %i, %i) lane(%i, %i, %i, %i) {
    // expected-error@+1 {{has blocks of a list, which leave gaps: it says what the filter marks, and not from where}}
    %keys = shed.keys_at rank %i of %i stage %i blocks
    %s = shed.softmax_init : !shed.softmax
    shed.store %s
  }
  llvm.return
}

// -----

llvm.func @marked_end(%args: !llvm.ptr<1>, %i: i32, %x: f32) {
  shed.attention_task element(bf16) head_dim(32) tiling(<query_rows = 16, warps = 1, keys = 32, stages = 2>)
      layout(<queries = 0, keys = 1024, bytes = 5120, values = 3072>) args(%args : !llvm.ptr<1>) n(%i) head(%i)
      rows(%i to %i) factor(%x) shared(%i) warp(%i, %i, %i) lane(%i, %i, %i, %i) {
    // expected-error@+1 {{is partial and marked; the filter marks what is behind the last key, too}}
    %keys = shed.keys_at rank %i of %i from %i stage %i marks %i partial
    %s = shed.softmax_init : !shed.softmax
    shed.store %s
  }
  llvm.return
}

// -----

llvm.func @values_for_keys(%args: !llvm.ptr<1>, %i: i32, %x: f32) {
  shed.attention_task element(bf16) head_dim(32) tiling(<query_rows = 16, warps = 1, keys = 16, stages = 2>)
      layout(<queries = 0, keys = 1024, bytes = 5120, values = 3072>) args(%args : !llvm.ptr<1>) n(%i) head(%i)
      rows(%i to %i) factor(%x) shared(%i) warp(%i, %i, %i) lane(%i, %i, %i, %i) {
    %keys = shed.keys_at rank %i of %i from %i stage %i
    %q = builtin.unrealized_conversion_cast %i : i32 to !shed.tile<queries, channels, bf16>
    %v = shed.load_values %keys : !shed.tile<keys, channels, bf16>
    // expected-error@+1 {{takes keys that do not come from shed.load_keys}}
    %l = shed.dot %q, %v : !shed.tile<queries, channels, bf16>, !shed.tile<keys, channels, bf16>
    %s = shed.softmax_init : !shed.softmax
    shed.store %s
  }
  llvm.return
}

// -----

llvm.func @keys_for_values(%args: !llvm.ptr<1>, %i: i32, %x: f32) {
  shed.attention_task element(bf16) head_dim(32) tiling(<query_rows = 16, warps = 1, keys = 16, stages = 2>)
      layout(<queries = 0, keys = 1024, bytes = 5120, values = 3072>) args(%args : !llvm.ptr<1>) n(%i) head(%i)
      rows(%i to %i) factor(%x) shared(%i) warp(%i, %i, %i) lane(%i, %i, %i, %i) {
    %keys = shed.keys_at rank %i of %i from %i stage %i
    %q = builtin.unrealized_conversion_cast %i : i32 to !shed.tile<queries, channels, bf16>
    %k = shed.load_keys %keys : !shed.tile<keys, channels, bf16>
    %l = shed.dot %q, %k : !shed.tile<queries, channels, bf16>, !shed.tile<keys, channels, bf16>
    %o = shed.softmax_init : !shed.softmax
    // expected-error@+1 {{takes values that do not come from shed.load_values}}
    %n = shed.softmax_update %o, %l, %k : !shed.tile<keys, channels, bf16>
    %s = shed.softmax_init : !shed.softmax
    shed.store %s
  }
  llvm.return
}

// -----

llvm.func @cast(%args: !llvm.ptr<1>, %i: i32, %x: f32) {
  shed.attention_task element(bf16) head_dim(32) tiling(<query_rows = 16, warps = 1, keys = 16, stages = 2>)
      layout(<queries = 0, keys = 1024, bytes = 5120, values = 3072>) args(%args : !llvm.ptr<1>) n(%i) head(%i)
      rows(%i to %i) factor(%x) shared(%i) warp(%i, %i, %i) lane(%i, %i, %i, %i) {
    // expected-error@+1 {{hands on keys of attention, which shed.keys_at makes where they are used}}
    %keys = builtin.unrealized_conversion_cast %i : i32 to !shed.keys
    %s = shed.softmax_init : !shed.softmax
    shed.store %s
  }
  llvm.return
}

// -----

llvm.func @outside(%i: i32) {
  // expected-error@+1 {{must stand in a shed.attention_task}}
  %keys = shed.keys_at rank %i of %i from %i stage %i
  llvm.return
}
