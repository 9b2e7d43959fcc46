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

// -----

shed.row_kernel @d swiglu element(f16) tiling(<threads = 32>) {
^bb0(%x: !shed.array<f16>, %y: !shed.array<f16>, %width: i64):
  %one = arith.constant 1.0 : f16
  // expected-error@+1 {{can't be lowered in a row kernel}}
  %root = math.sqrt %one : f16
}

// -----

// What a pass keeps is in registers that only it knows.
shed.row_kernel @kept_in_loop rms_norm element(f16) tiling(<threads = 64, kept = 2>) {
^bb0(%x: !shed.array<f16>, %delta: !shed.array<f16>, %weight: !shed.array<f16>,
     %y: !shed.array<f16>, %index: !shed.array<i32>, %shift: i64, %width: i64, %eps: f64):
  %c0 = arith.constant 0 : i64
  %c1 = arith.constant 1 : i64
  %kept = shed.for_columns %width keep(%y : !shed.array<f16>) -> !shed.kept<f16> {
  ^bb0(%j: !shed.column):
    %v = shed.read_column %x[%j] : !shed.array<f16>
    shed.contribute %v : f32
  }
  %last = scf.for %i = %c0 to %shift step %c1 iter_args(%k = %kept) -> (!shed.kept<f16>) : i64 {
    // expected-error@+1 {{has operand 0 of type '!shed.kept<f16>', which only operations on columns take}}
    scf.yield %k : !shed.kept<f16>
  }
}

// -----

shed.row_kernel @column_of_if swiglu element(f32) tiling(<threads = 32>) {
^bb0(%x: !shed.array<f32>, %y: !shed.array<f32>, %width: i64):
  %c0 = arith.constant 0 : i64
  %some = arith.cmpi sgt, %width, %c0 : i64
  shed.for_columns %width {
  ^bb0(%j: !shed.column):
    %same = scf.if %some -> (!shed.column) {
      // expected-error@+1 {{has operand 0 of type '!shed.column', which only operations on columns take}}
      scf.yield %j : !shed.column
    } else {
      scf.yield %j : !shed.column
    }
    %v = shed.read_column %x[%same] : !shed.array<f32>
    shed.write_column %v, %y[%j] : !shed.array<f32>
  }
}

// -----

shed.row_kernel @column_selected swiglu element(f32) tiling(<threads = 32>) {
^bb0(%x: !shed.array<f32>, %y: !shed.array<f32>, %width: i64):
  %true = arith.constant true
  shed.for_columns %width {
  ^bb0(%j: !shed.column):
    // expected-error@+1 {{has operand 1 of type '!shed.column', which only operations on columns take}}
    %same = arith.select %true, %j, %j : !shed.column
    %v = shed.read_column %x[%same] : !shed.array<f32>
    shed.write_column %v, %y[%j] : !shed.array<f32>
  }
}

// -----

shed.row_kernel @tiles swiglu element(f32) tiling(<threads = 32>) {
^bb0(%x: !shed.array<f32>, %y: !shed.array<f32>, %width: i64):
  // expected-error@+1 {{can't be lowered in a row kernel}}
  %s = shed.softmax_init : !shed.softmax
}

// -----

shed.row_kernel @two_results swiglu element(f32) tiling(<threads = 32>) {
^bb0(%x: !shed.array<f32>, %y: !shed.array<f32>, %width: i64):
  // expected-error@+1 {{can't be lowered in a row kernel}}
  %low, %high = arith.mului_extended %width, %width : i64
}
