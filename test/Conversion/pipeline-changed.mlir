// REQUIRES: heddle-opt
// RUN: heddle-opt %s --shed-pipeline-copies -o %t

// A task's facts are what the copies and loops around its ops go by: changed by
// hand, they are refused where they do not agree.
// RUN: sed 's/stages = 2/stages = 3/' %t | not heddle-opt --convert-shed-to-nvvm 2>&1 | FileCheck %s --check-prefix=STAGES
// STAGES: error: 'shed.attention_task' op has the layout #shed.shared_layout<queries = 0, keys = 1024, bytes = 5120, values = 3072>; its facts and the ops in it take #shed.shared_layout<queries = 0, keys = 1024, bytes = 7168, values = 4096>; change the kernel and run shed-pipeline-copies again
// RUN: sed 's/bytes = 5120/bytes = 99999999984/' %t | not heddle-opt --convert-shed-to-nvvm 2>&1 | FileCheck %s --check-prefix=BYTES
// BYTES: error: 'shed.attention_task' op has the layout {{.*}} bytes = 99999999984
// RUN: sed 's/values = 3072/values = 0/' %t | not heddle-opt --convert-shed-to-nvvm 2>&1 | FileCheck %s --check-prefix=OVERLAP
// OVERLAP: error: 'shed.attention_task' op has the layout {{.*}} bytes = 5120>; {{.*}} bytes = 5120, values = 3072>
// RUN: sed 's/head_dim(32)/head_dim(64)/' %t | not heddle-opt --convert-shed-to-nvvm 2>&1 | FileCheck %s --check-prefix=DIM
// DIM: error: 'shed.attention_task' op has the layout {{.*}}; its facts and the ops in it take #shed.shared_layout<queries = 0, keys = 2048,
// RUN: sed 's/stages = 2>/stages = 2, blocks = 3>/' %t | not heddle-opt --convert-shed-to-nvvm 2>&1 | FileCheck %s --check-prefix=BLOCKS
// BLOCKS: error: 'shed.attention_task' op stands in a function whose nvvm.minctasm is 1 : i32; its facts take 3 : i32
// RUN: sed 's/heddle.shared_bytes = 5120/heddle.shared_bytes = 1024/' %t | not heddle-opt --convert-shed-to-nvvm 2>&1 | FileCheck %s --check-prefix=SHARED
// SHARED: error: 'shed.attention_task' op stands in a function whose heddle.shared_bytes is 1024 : i64; its facts take 5120 : i64
// RUN: sed 's/stages = 2>/stages = 2, keep_queries = true>/' %t | not heddle-opt --convert-shed-to-nvvm 2>&1 | FileCheck %s --check-prefix=KEPT
// KEPT: error: 'builtin.unrealized_conversion_cast' op has 1 value(s) for '!shed.tile<queries, channels, bf16>'; by the task's facts a thread has 9
// RUN: sed 's/, nvvm.minctasm = 1 : i32//' %t | not heddle-opt --convert-shed-to-nvvm 2>&1 | FileCheck %s --check-prefix=WITHOUT
// WITHOUT: error: 'shed.attention_task' op stands in a function without nvvm.minctasm; its facts take 1 : i32
// RUN: sed 's/\(unrealized_conversion_cast .*\) : i32 to !shed.tile/\1 : f32 to !shed.tile/; s/unrealized_conversion_cast %[0-9a-z_]* : f32/unrealized_conversion_cast %real : f32/; s/^\( *\)shed.attention_task/\1%real = arith.constant 0.0 : f32\n&/' %t | not heddle-opt --convert-shed-to-nvvm 2>&1 | FileCheck %s --check-prefix=TYPE
// TYPE: error: 'builtin.unrealized_conversion_cast' op has 'f32' for value 0 of '!shed.tile<queries, channels, bf16>'; a thread has 'i32'

shed.kernel @dense attention element(bf16) head_dim(32)
    tiling(#shed.mma_tiling<query_rows = 16, warps = 1, keys = 16, stages = 2>) {
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
