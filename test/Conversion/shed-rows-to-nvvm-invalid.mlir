// REQUIRES: heddle-opt
// RUN: heddle-opt %s --convert-shed-rows-to-nvvm --split-input-file --verify-diagnostics

shed.row_kernel @a swiglu element(f32) tiling(<threads = 32>) {
^bb0(%x: !shed.array<f32>, %y: !shed.array<f32>, %width: i64):
  shed.for_columns %width {
  ^bb0(%j: !shed.column):
    %v = shed.read_column %x[%j] : !shed.array<f32>
    // expected-error@+1 {{can't be lowered in a pass over columns}}
    %t = math.tanh %v : f32
    shed.write_column %t, %y[%j] : !shed.array<f32>
  }
}

// -----

shed.row_kernel @b swiglu element(f32) tiling(<threads = 32>) {
^bb0(%x: !shed.array<f32>, %y: !shed.array<f32>, %width: i64):
  %c0 = arith.constant 0 : i64
  %c1 = arith.constant 1 : i64
  shed.for_columns %width {
  ^bb0(%j: !shed.column):
    // expected-error@+1 {{can't be lowered in a pass over columns}}
    scf.for %i = %c0 to %width step %c1 : i64 {
    }
  }
}

// -----

func.func private @helper(%x: f64) -> f64 {
  return %x : f64
}
shed.row_kernel @c swiglu element(f32) tiling(<threads = 32>) {
^bb0(%x: !shed.array<f32>, %y: !shed.array<f32>, %width: i64):
  %one = arith.constant 1.0 : f64
  // expected-error@+1 {{can't be lowered in a row kernel}}
  %two = func.call @helper(%one) : (f64) -> f64
}
