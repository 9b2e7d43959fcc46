// REQUIRES: heddle-opt
// RUN: heddle-opt %s --split-input-file --verify-diagnostics

// expected-error@+1 {{of operation embed has 2 arguments; expected 4}}
shed.row_kernel @a embed element(f32) tiling(<threads = 32>) {
^bb0(%tokens: !shed.array<i32>, %table: !shed.array<f32>):
}

// -----

// expected-error@+1 {{of operation embed has argument 1 of type '!shed.array<f32>'; expected '!shed.array<bf16>'}}
shed.row_kernel @b embed element(bf16) tiling(<threads = 32>) {
^bb0(%tokens: !shed.array<i32>, %table: !shed.array<f32>, %y: !shed.array<bf16>, %width: i64):
}

// -----

// expected-error@+1 {{threads = 48 is not a power of two from 32 to 1024}}
shed.row_kernel @c embed element(f32) tiling(<threads = 48>) {
^bb0(%tokens: !shed.array<i32>, %table: !shed.array<f32>, %y: !shed.array<f32>, %width: i64):
}

// -----

// expected-error@+1 {{a thread takes 1 or 8 columns at once, not 4}}
shed.row_kernel @d embed element(f32) tiling(<threads = 32, columns = 4>) {
^bb0(%tokens: !shed.array<i32>, %table: !shed.array<f32>, %y: !shed.array<f32>, %width: i64):
}

// -----

// expected-error@+1 {{single columns can't be kept in registers}}
shed.row_kernel @e embed element(f32) tiling(<threads = 32, columns = 1, kept = 1>) {
^bb0(%tokens: !shed.array<i32>, %table: !shed.array<f32>, %y: !shed.array<f32>, %width: i64):
}

// -----

// expected-error@+1 {{an array's elements are f32, bf16, f16, f64, i8, i32 or i64, not 'i16'}}
func.func private @f(!shed.array<i16>)

// -----

func.func private @g(%width: i64, %x: !shed.array<f32>) {
  // expected-error@+1 {{unknown reduction 'min'; expected add, max or argmax}}
  shed.for_columns %width reduce(min) {
  ^bb0(%j: !shed.column):
  }
  return
}

// -----

func.func private @h(%width: i64) {
  // expected-error@+1 {{has a region with arguments ('i64'); expected ('!shed.column')}}
  shed.for_columns %width {
  ^bb0(%j: i64):
  }
  return
}

// -----

func.func private @i(%width: i64) {
  %m = shed.for_columns %width reduce(add) -> f32 {
  ^bb0(%j: !shed.column):
    // expected-error@+1 {{gives 0 values to a pass with 1 reductions}}
    shed.contribute
  }
  return
}

// -----

func.func private @j(%width: i64) {
  %m = shed.for_columns %width reduce(max) -> i64 {
  ^bb0(%j: !shed.column):
    %n = shed.column_number %j
    // expected-error@+1 {{gives 'i64' to the reduction max}}
    shed.contribute %n : i64
  }
  return
}

// -----

func.func private @k(%width: i64, %x: !shed.array<f32>) {
  // expected-error@+1 {{has results ('f32'); expected ('f32', 'i64')}}
  %m = shed.for_columns %width reduce(argmax) -> f32 {
  ^bb0(%j: !shed.column):
    %v = shed.read_column %x[%j] : !shed.array<f32>
    shed.contribute %v : f32
  }
  return
}

// -----

func.func private @l(%width: i64, %x: !shed.array<f32>) {
  // expected-error@+1 {{takes the argmax over pieces}}
  %m, %n = shed.for_columns %width in %width pieces reduce(argmax) -> f32, i64 {
  ^bb0(%piece: i64, %j: !shed.column):
    %v = shed.read_column %x[%j] : !shed.array<f32>
    shed.contribute %v : f32
  }
  return
}

// -----

func.func private @m(%width: i64, %x: !shed.array<f32>) {
  // expected-error@+1 {{keeps values of a ragged row}}
  %m = shed.for_columns ragged %width keep(%x : !shed.array<f32>) -> !shed.kept<f32> {
  ^bb0(%j: !shed.column):
    %v = shed.read_column %x[%j] : !shed.array<f32>
    shed.contribute %v : f32
  }
  return
}

// -----

func.func private @n(%width: i64, %other: i64, %x: !shed.array<f32>) {
  %m = shed.for_columns %width keep(%x : !shed.array<f32>) -> !shed.kept<f32> {
  ^bb0(%j: !shed.column):
    %v = shed.read_column %x[%j] : !shed.array<f32>
    shed.contribute %v : f32
  }
  shed.for_columns %other {
  ^bb0(%j: !shed.column):
    // expected-error@+1 {{recalls what a pass of another width kept}}
    %v = shed.recall %m[%j] : !shed.kept<f32>
  }
  return
}

// -----

func.func private @o(%width: i64) {
  %n = shed.number_columns %width from %width where {
  ^bb0(%j: !shed.column):
    // expected-error@+1 {{of a condition gives one i1, not ()}}
    shed.contribute
  } do {
  ^bb0(%j: !shed.column, %n: i64):
  }
  return
}

// -----

func.func private @p(%x: !shed.array<f32>, %i: i64, %v: f32) {
  // expected-error@+1 {{raises elements of i32, not 'f32'}}
  shed.raise %v, %x[%i] : !shed.array<f32>
  return
}

// -----

shed.row_kernel @q swiglu element(f32) tiling(<threads = 32>) {
^bb0(%x: !shed.array<f32>, %y: !shed.array<f32>, %width: i64):
  shed.for_columns %width {
  ^bb0(%j: !shed.column):
    // expected-error@+1 {{is inside another pass over columns}}
    shed.for_columns %width {
    ^bb0(%k: !shed.column):
    }
  }
}
