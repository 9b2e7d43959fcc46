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
    // expected-error@+1 {{has a form that the task's layout has no place for}}
    %keys = shed.keys_at %i rank %i of %i from %i stage %i form(listed)
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
  %keys = shed.keys_at %i rank %i of %i from %i stage %i form(whole)
  llvm.return
}
