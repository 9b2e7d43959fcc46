// REQUIRES: heddle-opt
// RUN: heddle-opt %s --shed-choose-tiles="vector-bytes=64 vector-registers=32" --convert-shed-to-vector | FileCheck %s --check-prefix=HOST
// RUN: heddle-opt %s --shed-choose-mma-tiles --shed-pipeline-copies --convert-shed-to-nvvm --mlir-print-op-generic=false | FileCheck %s --check-prefix=GPU

// On CPUs logits are worked on in vectors along query rows; on GPUs each
// thread's in its registers, bf16 with the machine's own tanh. Division by a
// constant is a product, and the last product goes into the softmax's.
// HOST-LABEL: func.func @cap(
// HOST: scf.if {{.*}} -> (vector<16xf32>)
// HOST: vector.fma
// HOST-NOT: shed.
// GPU-LABEL: llvm.func @cap(
// GPU: tanh.approx.f32
shed.kernel @cap attention element(bf16) head_dim(64) {
  %q = shed.load_queries : !shed.tile<queries, channels, bf16>
  %s = shed.softmax_init : !shed.softmax
  %r = shed.for_keys over #shed.all init(%s) : !shed.softmax {
  ^bb0(%keys: !shed.keys, %c: !shed.softmax):
    %k = shed.load_keys %keys : !shed.tile<keys, channels, bf16>
    %v = shed.load_values %keys : !shed.tile<keys, channels, bf16>
    %l = shed.dot %q, %k : !shed.tile<queries, channels, bf16>, !shed.tile<keys, channels, bf16>
    %f = shed.scores %l at %keys (%logit) {
      %cap = arith.constant 30.0 : f32
      %share = arith.divf %logit, %cap : f32
      %bound = math.tanh %share : f32
      %capped = arith.mulf %bound, %cap : f32
      shed.yield %capped : f32
    }
    %n = shed.softmax_update %c, %f, %v : !shed.tile<keys, channels, bf16>
    shed.yield %n : !shed.softmax
  }
  shed.store %r
}
