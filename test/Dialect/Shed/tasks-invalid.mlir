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
  // expected-error@+1 {{of element f32 reads its queries from shared memory; drop keep_queries}}
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
    // expected-error@+1 {{has blocks of a list, which leave gaps that the filter marks; write `marks`, and no `from`}}
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
    // expected-error@+1 {{is partial and marked; the filter marks what is behind the last key, too: drop `partial`}}
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

// -----

llvm.func @two_ends(%args: !llvm.ptr<1>, %i: i32, %x: f32) {
  shed.attention_task element(bf16) head_dim(32) tiling(<query_rows = 16, warps = 1, keys = 16, stages = 2>)
      layout(<queries = 0, keys = 1024, bytes = 5120, values = 3072>) args(%args : !llvm.ptr<1>) n(%i) head(%i)
      rows(%i to %i) factor(%x) shared(%i) warp(%i, %i, %i) lane(%i, %i, %i, %i) {
    %s = shed.softmax_init : !shed.softmax
    // expected-error@+1 {{ends a task and stands before its end; drop it}}
    shed.store %s
    shed.store %s
  }
  llvm.return
}

// -----

llvm.func @other_keys(%args: !llvm.ptr<1>, %i: i32, %x: f32) {
  shed.attention_task element(bf16) head_dim(32) tiling(<query_rows = 16, warps = 1, keys = 16, stages = 2>)
      layout(<queries = 0, keys = 1024, bytes = 5120, values = 3072>) args(%args : !llvm.ptr<1>) n(%i) head(%i)
      rows(%i to %i) factor(%x) shared(%i) warp(%i, %i, %i) lane(%i, %i, %i, %i) {
    %keys = shed.keys_at rank %i of %i from %i stage %i partial
    %others = shed.keys_at rank %i of %i from %i stage %i
    %q = builtin.unrealized_conversion_cast %i : i32 to !shed.tile<queries, channels, bf16>
    %k = shed.load_keys %keys : !shed.tile<keys, channels, bf16>
    // expected-note@+1 {{these are of other keys}}
    %l = shed.dot %q, %k : !shed.tile<queries, channels, bf16>, !shed.tile<keys, channels, bf16>
    %v = shed.load_values %others : !shed.tile<keys, channels, bf16>
    %o = shed.softmax_init : !shed.softmax
    // expected-error@+1 {{takes values of other keys than its logits are of}}
    %s = shed.softmax_update %o, %l, %v : !shed.tile<keys, channels, bf16>
    shed.store %s
  }
  llvm.return
}

// -----

llvm.func @other_keys_in_a_branch(%args: !llvm.ptr<1>, %i: i32, %x: f32) {
  shed.attention_task element(bf16) head_dim(32) tiling(<query_rows = 16, warps = 1, keys = 16, stages = 2>)
      layout(<queries = 0, keys = 1024, bytes = 5120, values = 3072>) args(%args : !llvm.ptr<1>) n(%i) head(%i)
      rows(%i to %i) factor(%x) shared(%i) warp(%i, %i, %i) lane(%i, %i, %i, %i) {
    %keys = shed.keys_at rank %i of %i from %i stage %i partial
    %others = shed.keys_at rank %i of %i from %i stage %i
    %q = builtin.unrealized_conversion_cast %i : i32 to !shed.tile<queries, channels, bf16>
    %k = shed.load_keys %keys : !shed.tile<keys, channels, bf16>
    %own = shed.load_keys %others : !shed.tile<keys, channels, bf16>
    %some = llvm.icmp "eq" %i, %i : i32
    %l = scf.if %some -> !shed.tile<queries, keys, f32> {
      %d = shed.dot %q, %own : !shed.tile<queries, channels, bf16>, !shed.tile<keys, channels, bf16>
      scf.yield %d : !shed.tile<queries, keys, f32>
    } else {
      // expected-note@+1 {{these are of other keys}}
      %d = shed.dot %q, %k : !shed.tile<queries, channels, bf16>, !shed.tile<keys, channels, bf16>
      scf.yield %d : !shed.tile<queries, keys, f32>
    }
    %v = shed.load_values %others : !shed.tile<keys, channels, bf16>
    %o = shed.softmax_init : !shed.softmax
    // expected-error@+1 {{takes values of other keys than its logits are of}}
    %s = shed.softmax_update %o, %l, %v : !shed.tile<keys, channels, bf16>
    shed.store %s
  }
  llvm.return
}

// -----

llvm.func @pending(%args: !llvm.ptr<1>, %i: i32, %x: f32, %w: i64) {
  shed.select_task element(bf16) head_dim(32) group(16)
      tiling(<query_rows = 16, warps = 1, keys = 16, stages = 2>) layout(<queries = 0, keys = 1152, bytes = 8464, lse = 1024, inverses = 1088>)
      args(%args : !llvm.ptr<1>) scratch(%args : !llvm.ptr<1>) n(%i) rows(%i) key_stride(%w) factor(%x) shared(%i)
      thread(%i) lane(%i) warp(%i, %i) chunks(%i, %i) task(%i, %i) {
    %zero = arith.constant 0.0 : f32
    // expected-note@+1 {{the mass is made here}}
    %m = builtin.unrealized_conversion_cast %x, %zero, %i : f32, f32, i32 to !shed.mass
    // expected-error@+1 {{chooses by a mass that is not cast from zeros, so it has yet to be added to scores}}
    shed.top_k %m
  }
  llvm.return
}

// -----

llvm.func @empty(%args: !llvm.ptr<1>, %i: i32, %x: f32, %w: i64) {
  shed.select_task element(bf16) head_dim(32) group(16)
      tiling(<query_rows = 16, warps = 1, keys = 16, stages = 2>) layout(<queries = 0, keys = 1152, bytes = 8464, lse = 1024, inverses = 1088>)
      args(%args : !llvm.ptr<1>) scratch(%args : !llvm.ptr<1>) n(%i) rows(%i) key_stride(%w) factor(%x) shared(%i)
      thread(%i) lane(%i) warp(%i, %i) chunks(%i, %i) task(%i, %i) {
    %zero = arith.constant 0.0 : f32
    // expected-note@+1 {{the mass is made here}}
    %m = builtin.unrealized_conversion_cast to !shed.mass
    // expected-error@+1 {{chooses by a mass that is not cast from zeros}}
    shed.top_k %m
  }
  llvm.return
}

// -----

llvm.func @two_scorers(%args: !llvm.ptr<1>, %i: i32, %x: f32, %w: i64) {
  shed.select_task element(bf16) head_dim(32) group(16)
      tiling(<query_rows = 16, warps = 1, keys = 16, stages = 2>) layout(<queries = 0, keys = 1152, bytes = 8464, lse = 1024, inverses = 1088>)
      args(%args : !llvm.ptr<1>) scratch(%args : !llvm.ptr<1>) n(%i) rows(%i) key_stride(%w) factor(%x) shared(%i)
      thread(%i) lane(%i) warp(%i, %i) chunks(%i, %i) task(%i, %i) {
    %zero = arith.constant 0.0 : f32
    %m = builtin.unrealized_conversion_cast %zero, %zero, %i : f32, f32, i32 to !shed.mass
    // expected-error@+1 {{scores keys in another way than shed.top_k chooses by; a task has one}}
    %s = shed.logit_mass %m
    shed.top_k %m
  }
  llvm.return
}

// -----

llvm.func @two_choices(%args: !llvm.ptr<1>, %i: i32, %x: f32, %w: i64) {
  shed.select_task element(bf16) head_dim(32) group(16)
      tiling(<query_rows = 16, warps = 1, keys = 16, stages = 2>) layout(<queries = 0, keys = 1152, bytes = 8464, lse = 1024, inverses = 1088>)
      args(%args : !llvm.ptr<1>) scratch(%args : !llvm.ptr<1>) n(%i) rows(%i) key_stride(%w) factor(%x) shared(%i)
      thread(%i) lane(%i) warp(%i, %i) chunks(%i, %i) task(%i, %i) {
    %zero = arith.constant 0.0 : f32
    %m = builtin.unrealized_conversion_cast %zero, %zero, %i : f32, f32, i32 to !shed.mass
    // expected-error@+1 {{ends a task and stands before its end; drop it}}
    shed.top_k %m pooled(3)
    shed.top_k %m
  }
  llvm.return
}

// -----

llvm.func @heads(%args: !llvm.ptr<1>, %i: i32, %x: f32, %w: i64) {
  // expected-error@+1 {{says how many heads share a list and has no shed.logit_mass, which alone asks that}}
  shed.select_task element(bf16) head_dim(32) group(16)
      tiling(<query_rows = 16, warps = 1, keys = 16, stages = 2>) layout(<queries = 0, keys = 1152, bytes = 8464, lse = 1024, inverses = 1088>)
      args(%args : !llvm.ptr<1>) scratch(%args : !llvm.ptr<1>) n(%i) rows(%i) heads(%i) key_stride(%w) factor(%x) shared(%i)
      thread(%i) lane(%i) warp(%i, %i) chunks(%i, %i) task(%i, %i) {
    %zero = arith.constant 0.0 : f32
    %m = builtin.unrealized_conversion_cast %zero, %zero, %i : f32, f32, i32 to !shed.mass
    shed.top_k %m
  }
  llvm.return
}

// -----

llvm.func @group(%args: !llvm.ptr<1>, %i: i32, %x: f32, %w: i64) {
  // expected-error@+1 {{has groups of 2048 rows; expected at most 1024, or 1073741824 for one of all rows}}
  shed.select_task element(bf16) head_dim(32) group(2048)
      tiling(<query_rows = 16, warps = 1, keys = 16, stages = 2>) layout(<queries = 0, keys = 1152, bytes = 8464, lse = 1024, inverses = 1088>)
      args(%args : !llvm.ptr<1>) scratch(%args : !llvm.ptr<1>) n(%i) rows(%i) key_stride(%w) factor(%x) shared(%i)
      thread(%i) lane(%i) warp(%i, %i) chunks(%i, %i) task(%i, %i) {
    %zero = arith.constant 0.0 : f32
    %m = builtin.unrealized_conversion_cast %zero, %zero, %i : f32, f32, i32 to !shed.mass
    shed.top_k %m
  }
  llvm.return
}

// -----

// expected-error@+1 {{found 'fused', expected one of attention, select}}
shed.kernel @kind fused element(bf16) head_dim(64) {
}

// -----

// expected-error@+1 {{requires attribute 'kind'}}
"shed.kernel"() <{element = bf16, head_dim = 64 : i64, sym_name = "none"}> ({
^bb0:
}) : () -> ()

// -----

// expected-error@+1 {{attribute 'kind' failed to satisfy constraint: attention or select}}
"shed.kernel"() <{element = bf16, head_dim = 64 : i64, kind = "fused", sym_name = "other"}> ({
^bb0:
}) : () -> ()
