// REQUIRES: heddle-opt
// RUN: heddle-opt %s --heddle-verify-machine --split-input-file --verify-diagnostics

func.func @kernel(%args: !llvm.ptr, %n: index) attributes {heddle.query_rows = 64 : i64} {
  %zero = arith.constant dense<0.0> : vector<8xf32>
  %one = arith.constant 1 : index
  scf.for %i = %one to %n step %one {
    %sum = vector.reduction <add>, %zero : vector<8xf32> into f32
    llvm.store %sum, %args : f32, !llvm.ptr
  }
  return
}

// -----

func.func @left_over() {
  // expected-error @+1 {{'shed.softmax_init' op does not belong at the machine level, which holds the dialects arith, builtin, func, llvm, scf, vector}}
  %state = shed.softmax_init : !shed.softmax
  return
}

// -----

func.func @another_dialect(%x: f32) -> f32 {
  // expected-error @+1 {{'math.exp2' op does not belong at the machine level}}
  %y = math.exp2 %x : f32
  return %y : f32
}
