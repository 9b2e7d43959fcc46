// REQUIRES: heddle-opt
// RUN: heddle-opt %s --convert-shed-to-nvvm --split-input-file --verify-diagnostics

// expected-error@+1 {{is not pipelined; run shed-pipeline-copies first}}
shed.kernel @kernel attention element(bf16) head_dim(64)
    tiling(#shed.mma_tiling<query_rows = 64, warps = 4, keys = 64, stages = 2>) {
  %q = shed.load_queries : !shed.tile<queries, channels, bf16>
  %s = shed.softmax_init : !shed.softmax
  shed.store %s
}

// -----

llvm.func @outside() {
  // expected-error@+1 {{stands in no task}}
  %s = shed.softmax_init : !shed.softmax
  llvm.return
}
