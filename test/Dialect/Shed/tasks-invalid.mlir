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

// What keys logits are of is read off the ops that make them.
llvm.func @switched_logits(%args: !llvm.ptr<1>, %i: i32, %x: f32, %some: i1) {
  shed.attention_task element(bf16) head_dim(32) tiling(<query_rows = 16, warps = 1, keys = 16, stages = 2>)
      layout(<queries = 0, keys = 1024, bytes = 5120, values = 3072>) args(%args : !llvm.ptr<1>) n(%i) head(%i)
      rows(%i to %i) factor(%x) shared(%i) warp(%i, %i, %i) lane(%i, %i, %i, %i) {
    %at = arith.constant 0 : index
    %keys = shed.keys_at rank %i of %i from %i stage %i partial
    %others = shed.keys_at rank %i of %i from %i stage %i
    %q = builtin.unrealized_conversion_cast %i : i32 to !shed.tile<queries, channels, bf16>
    %k = shed.load_keys %keys : !shed.tile<keys, channels, bf16>
    %d = shed.dot %q, %k : !shed.tile<queries, channels, bf16>, !shed.tile<keys, channels, bf16>
    // expected-note@+1 {{of these it is not known}}
    %l = scf.index_switch %at -> !shed.tile<queries, keys, f32>
    case 0 {
      scf.yield %d : !shed.tile<queries, keys, f32>
    }
    default {
      scf.yield %d : !shed.tile<queries, keys, f32>
    }
    %v = shed.load_values %keys : !shed.tile<keys, channels, bf16>
    %o = shed.softmax_init : !shed.softmax
    // expected-error@+1 {{takes logits of which it is not known what keys they are of; expected shed.dot, shed.mask and shed.scores, and what scf.if, arith.select or ops without regions make of their logits}}
    %s = shed.softmax_update %o, %l, %v : !shed.tile<keys, channels, bf16>
    shed.store %s
  }
  llvm.return
}

// -----

llvm.func @looped_logits(%args: !llvm.ptr<1>, %i: i32, %x: f32, %some: i1) {
  shed.attention_task element(bf16) head_dim(32) tiling(<query_rows = 16, warps = 1, keys = 16, stages = 2>)
      layout(<queries = 0, keys = 1024, bytes = 5120, values = 3072>) args(%args : !llvm.ptr<1>) n(%i) head(%i)
      rows(%i to %i) factor(%x) shared(%i) warp(%i, %i, %i) lane(%i, %i, %i, %i) {
    %at = arith.constant 0 : index
    %keys = shed.keys_at rank %i of %i from %i stage %i partial
    %others = shed.keys_at rank %i of %i from %i stage %i
    %q = builtin.unrealized_conversion_cast %i : i32 to !shed.tile<queries, channels, bf16>
    %k = shed.load_keys %keys : !shed.tile<keys, channels, bf16>
    %d = shed.dot %q, %k : !shed.tile<queries, channels, bf16>, !shed.tile<keys, channels, bf16>
    // expected-note@+1 {{of these it is not known}}
    %l = scf.for %j = %at to %at step %at iter_args(%c = %d) -> (!shed.tile<queries, keys, f32>) {
      scf.yield %c : !shed.tile<queries, keys, f32>
    }
    %v = shed.load_values %keys : !shed.tile<keys, channels, bf16>
    %o = shed.softmax_init : !shed.softmax
    // expected-error@+1 {{takes logits of which it is not known what keys they are of; expected shed.dot, shed.mask and shed.scores, and what scf.if, arith.select or ops without regions make of their logits}}
    %s = shed.softmax_update %o, %l, %v : !shed.tile<keys, channels, bf16>
    shed.store %s
  }
  llvm.return
}

// -----

llvm.func @logits_of_a_while(%args: !llvm.ptr<1>, %i: i32, %x: f32, %some: i1) {
  shed.attention_task element(bf16) head_dim(32) tiling(<query_rows = 16, warps = 1, keys = 16, stages = 2>)
      layout(<queries = 0, keys = 1024, bytes = 5120, values = 3072>) args(%args : !llvm.ptr<1>) n(%i) head(%i)
      rows(%i to %i) factor(%x) shared(%i) warp(%i, %i, %i) lane(%i, %i, %i, %i) {
    %at = arith.constant 0 : index
    %keys = shed.keys_at rank %i of %i from %i stage %i partial
    %others = shed.keys_at rank %i of %i from %i stage %i
    %q = builtin.unrealized_conversion_cast %i : i32 to !shed.tile<queries, channels, bf16>
    %k = shed.load_keys %keys : !shed.tile<keys, channels, bf16>
    %d = shed.dot %q, %k : !shed.tile<queries, channels, bf16>, !shed.tile<keys, channels, bf16>
    // expected-note@+1 {{of these it is not known}}
    %l = scf.while (%c = %d) : (!shed.tile<queries, keys, f32>) -> !shed.tile<queries, keys, f32> {
      scf.condition(%some) %c : !shed.tile<queries, keys, f32>
    } do {
    ^bb0(%c: !shed.tile<queries, keys, f32>):
      scf.yield %c : !shed.tile<queries, keys, f32>
    }
    %v = shed.load_values %keys : !shed.tile<keys, channels, bf16>
    %o = shed.softmax_init : !shed.softmax
    // expected-error@+1 {{takes logits of which it is not known what keys they are of; expected shed.dot, shed.mask and shed.scores, and what scf.if, arith.select or ops without regions make of their logits}}
    %s = shed.softmax_update %o, %l, %v : !shed.tile<keys, channels, bf16>
    shed.store %s
  }
  llvm.return
}

// -----

llvm.func @cast_logits(%args: !llvm.ptr<1>, %i: i32, %x: f32, %some: i1) {
  shed.attention_task element(bf16) head_dim(32) tiling(<query_rows = 16, warps = 1, keys = 16, stages = 2>)
      layout(<queries = 0, keys = 1024, bytes = 5120, values = 3072>) args(%args : !llvm.ptr<1>) n(%i) head(%i)
      rows(%i to %i) factor(%x) shared(%i) warp(%i, %i, %i) lane(%i, %i, %i, %i) {
    %at = arith.constant 0 : index
    %keys = shed.keys_at rank %i of %i from %i stage %i partial
    %others = shed.keys_at rank %i of %i from %i stage %i
    %q = builtin.unrealized_conversion_cast %i : i32 to !shed.tile<queries, channels, bf16>
    %k = shed.load_keys %keys : !shed.tile<keys, channels, bf16>
    %d = shed.dot %q, %k : !shed.tile<queries, channels, bf16>, !shed.tile<keys, channels, bf16>
    // expected-note@+1 {{of these it is not known}}
    %l = builtin.unrealized_conversion_cast %x : f32 to !shed.tile<queries, keys, f32>
    %v = shed.load_values %keys : !shed.tile<keys, channels, bf16>
    %o = shed.softmax_init : !shed.softmax
    // expected-error@+1 {{takes logits of which it is not known what keys they are of; expected shed.dot, shed.mask and shed.scores, and what scf.if, arith.select or ops without regions make of their logits}}
    %s = shed.softmax_update %o, %l, %v : !shed.tile<keys, channels, bf16>
    shed.store %s
  }
  llvm.return
}

// -----

// Each value is looked at once.
llvm.func @many_ways_to_the_same_logits(%args: !llvm.ptr<1>, %i: i32, %x: f32, %some: i1) {
  shed.attention_task element(bf16) head_dim(32) tiling(<query_rows = 16, warps = 1, keys = 16, stages = 2>)
      layout(<queries = 0, keys = 1024, bytes = 5120, values = 3072>) args(%args : !llvm.ptr<1>) n(%i) head(%i)
      rows(%i to %i) factor(%x) shared(%i) warp(%i, %i, %i) lane(%i, %i, %i, %i) {
    %at = arith.constant 0 : index
    %keys = shed.keys_at rank %i of %i from %i stage %i partial
    %others = shed.keys_at rank %i of %i from %i stage %i
    %q = builtin.unrealized_conversion_cast %i : i32 to !shed.tile<queries, channels, bf16>
    %k = shed.load_keys %keys : !shed.tile<keys, channels, bf16>
    // expected-note@+1 {{these are of other keys}}
    %d = shed.dot %q, %k : !shed.tile<queries, channels, bf16>, !shed.tile<keys, channels, bf16>
    %c1 = arith.select %some, %d, %d : !shed.tile<queries, keys, f32>
    %c2 = arith.select %some, %c1, %c1 : !shed.tile<queries, keys, f32>
    %c3 = arith.select %some, %c2, %c2 : !shed.tile<queries, keys, f32>
    %c4 = arith.select %some, %c3, %c3 : !shed.tile<queries, keys, f32>
    %c5 = arith.select %some, %c4, %c4 : !shed.tile<queries, keys, f32>
    %c6 = arith.select %some, %c5, %c5 : !shed.tile<queries, keys, f32>
    %c7 = arith.select %some, %c6, %c6 : !shed.tile<queries, keys, f32>
    %c8 = arith.select %some, %c7, %c7 : !shed.tile<queries, keys, f32>
    %c9 = arith.select %some, %c8, %c8 : !shed.tile<queries, keys, f32>
    %c10 = arith.select %some, %c9, %c9 : !shed.tile<queries, keys, f32>
    %c11 = arith.select %some, %c10, %c10 : !shed.tile<queries, keys, f32>
    %c12 = arith.select %some, %c11, %c11 : !shed.tile<queries, keys, f32>
    %c13 = arith.select %some, %c12, %c12 : !shed.tile<queries, keys, f32>
    %c14 = arith.select %some, %c13, %c13 : !shed.tile<queries, keys, f32>
    %c15 = arith.select %some, %c14, %c14 : !shed.tile<queries, keys, f32>
    %c16 = arith.select %some, %c15, %c15 : !shed.tile<queries, keys, f32>
    %c17 = arith.select %some, %c16, %c16 : !shed.tile<queries, keys, f32>
    %c18 = arith.select %some, %c17, %c17 : !shed.tile<queries, keys, f32>
    %c19 = arith.select %some, %c18, %c18 : !shed.tile<queries, keys, f32>
    %c20 = arith.select %some, %c19, %c19 : !shed.tile<queries, keys, f32>
    %c21 = arith.select %some, %c20, %c20 : !shed.tile<queries, keys, f32>
    %c22 = arith.select %some, %c21, %c21 : !shed.tile<queries, keys, f32>
    %c23 = arith.select %some, %c22, %c22 : !shed.tile<queries, keys, f32>
    %c24 = arith.select %some, %c23, %c23 : !shed.tile<queries, keys, f32>
    %c25 = arith.select %some, %c24, %c24 : !shed.tile<queries, keys, f32>
    %c26 = arith.select %some, %c25, %c25 : !shed.tile<queries, keys, f32>
    %c27 = arith.select %some, %c26, %c26 : !shed.tile<queries, keys, f32>
    %c28 = arith.select %some, %c27, %c27 : !shed.tile<queries, keys, f32>
    %c29 = arith.select %some, %c28, %c28 : !shed.tile<queries, keys, f32>
    %c30 = arith.select %some, %c29, %c29 : !shed.tile<queries, keys, f32>
    %c31 = arith.select %some, %c30, %c30 : !shed.tile<queries, keys, f32>
    %c32 = arith.select %some, %c31, %c31 : !shed.tile<queries, keys, f32>
    %c33 = arith.select %some, %c32, %c32 : !shed.tile<queries, keys, f32>
    %c34 = arith.select %some, %c33, %c33 : !shed.tile<queries, keys, f32>
    %c35 = arith.select %some, %c34, %c34 : !shed.tile<queries, keys, f32>
    %c36 = arith.select %some, %c35, %c35 : !shed.tile<queries, keys, f32>
    %c37 = arith.select %some, %c36, %c36 : !shed.tile<queries, keys, f32>
    %c38 = arith.select %some, %c37, %c37 : !shed.tile<queries, keys, f32>
    %c39 = arith.select %some, %c38, %c38 : !shed.tile<queries, keys, f32>
    %l = arith.select %some, %c39, %c39 : !shed.tile<queries, keys, f32>
    %v = shed.load_values %others : !shed.tile<keys, channels, bf16>
    %o = shed.softmax_init : !shed.softmax
    // expected-error@+1 {{takes values of other keys than its logits are of}}
    %s = shed.softmax_update %o, %l, %v : !shed.tile<keys, channels, bf16>
    shed.store %s
  }
  llvm.return
}

// -----

llvm.func @logits_of_themselves(%args: !llvm.ptr<1>, %i: i32, %x: f32, %some: i1) {
  shed.attention_task element(bf16) head_dim(32) tiling(<query_rows = 16, warps = 1, keys = 16, stages = 2>)
      layout(<queries = 0, keys = 1024, bytes = 5120, values = 3072>) args(%args : !llvm.ptr<1>) n(%i) head(%i)
      rows(%i to %i) factor(%x) shared(%i) warp(%i, %i, %i) lane(%i, %i, %i, %i) {
    %at = arith.constant 0 : index
    %keys = shed.keys_at rank %i of %i from %i stage %i partial
    %others = shed.keys_at rank %i of %i from %i stage %i
    %q = builtin.unrealized_conversion_cast %i : i32 to !shed.tile<queries, channels, bf16>
    %k = shed.load_keys %keys : !shed.tile<keys, channels, bf16>
    %d = shed.dot %q, %k : !shed.tile<queries, channels, bf16>, !shed.tile<keys, channels, bf16>
    // expected-error@+2 {{operand #1 does not dominate this use}}
    // expected-note@+1 {{operand defined here}}
    %l = arith.select %some, %l, %d : !shed.tile<queries, keys, f32>
    %v = shed.load_values %keys : !shed.tile<keys, channels, bf16>
    %o = shed.softmax_init : !shed.softmax
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
