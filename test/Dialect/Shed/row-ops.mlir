// REQUIRES: heddle-opt
// RUN: heddle-opt %s | heddle-opt | FileCheck %s
// RUN: heddle-opt %s --mlir-print-op-generic | heddle-opt | FileCheck %s

// CHECK-LABEL: shed.row_kernel @norm rms_norm element(bf16) tiling(<threads = 512, kept = 2>)
// CHECK: ^bb0(%{{.+}}: !shed.array<bf16>, {{.*}} !shed.array<i32>, {{.*}} i64, {{.*}} i64, {{.*}} f64):
shed.row_kernel @norm rms_norm element(bf16) tiling(<threads = 512, columns = 8, kept = 2>) {
^bb0(%x: !shed.array<bf16>, %delta: !shed.array<bf16>, %weight: !shed.array<bf16>,
     %y: !shed.array<bf16>, %index: !shed.array<i32>, %shift: i64, %width: i64, %eps: f64):
  // CHECK: %[[ROW:.+]] = shed.row
  %i = shed.row
  // CHECK: shed.is_null %{{.+}} : <i32>
  %all = shed.is_null %index : !shed.array<i32>
  %offset = arith.muli %i, %width : i64
  // CHECK: %[[X:.+]] = shed.advance %{{.+}} by %{{.+}} : <bf16>
  %row = shed.advance %x by %offset : !shed.array<bf16>
  %out = shed.advance %y by %offset : !shed.array<bf16>
  // CHECK: %[[PASS:.+]]:4 = shed.for_columns %{{.+}} reduce(add, argmax) keep(%{{.+}} : !shed.array<bf16>) -> f32, f32, i64, !shed.kept<bf16> {
  // CHECK: ^bb0(%[[J:.+]]: !shed.column):
  %sum, %most, %where, %kept = shed.for_columns %width reduce(add, argmax)
      keep(%out : !shed.array<bf16>) -> f32, f32, i64, !shed.kept<bf16> {
  ^bb0(%j: !shed.column):
    // CHECK: shed.read_column %[[X]][%[[J]]] : <bf16>
    %v = shed.read_column %row[%j] : !shed.array<bf16>
    // CHECK: shed.round %{{.+}} to bf16
    %r = shed.round %v to bf16
    // CHECK: shed.contribute %{{.+}}, %{{.+}}, %{{.+}} : f32, f32, f32
    shed.contribute %v, %v, %r : f32, f32, f32
  }
  // A body that contributes nothing needs no terminator.
  // CHECK: shed.for_columns %{{.+}} {
  // CHECK-NOT: contribute
  // CHECK: shed.recall %[[PASS]]#3[%{{.+}}] : <bf16>
  // CHECK: shed.write_column %{{.+}}, %{{.+}}[%{{.+}}] : <bf16>
  shed.for_columns %width {
  ^bb0(%j: !shed.column):
    %v = shed.recall %kept[%j] : !shed.kept<bf16>
    shed.write_column %v, %out[%j] : !shed.array<bf16>
  }
}

// CHECK-LABEL: shed.row_kernel @rotate rotate element(f16) tiling(<threads = 64>)
shed.row_kernel @rotate rotate element(f16) tiling(<threads = 64>) {
^bb0(%x: !shed.array<f16>, %cos: !shed.array<f32>, %sin: !shed.array<f32>,
     %position: !shed.array<i32>, %heads: i64, %half: i64, %stride: i64,
     %in_elements: i64):
  // CHECK: shed.for_columns %{{.+}} in %{{.+}} pieces {
  // CHECK: ^bb0(%{{.+}}: i64, %{{.+}}: !shed.column):
  shed.for_columns %half in %heads pieces {
  ^bb0(%head: i64, %j: !shed.column):
    %c = shed.read_column %cos[%j] : !shed.array<f32>
  }
  // CHECK: shed.for_columns ragged %{{.+}} reduce(max) -> f32 {
  %m = shed.for_columns ragged %half reduce(max) -> f32 {
  ^bb0(%j: !shed.column):
    %c = shed.read_column %cos[%j] : !shed.array<f32>
    shed.contribute %c : f32
  }
}

// CHECK-LABEL: shed.row_kernel @list candidates element(f32) tiling(<threads = 128, columns = 1>)
shed.row_kernel @list candidates element(f32) tiling(<threads = 128, columns = 1>) {
^bb0(%tokens: !shed.array<i32>, %first: !shed.array<i64>, %end: !shed.array<i64>,
     %rows: !shed.array<i32>, %sequence_of: !shed.array<i32>, %offsets: !shed.array<i32>,
     %count: !shed.array<i32>, %sequences: i64, %capacity: i64, %mask: i64):
  %c0 = arith.constant 0 : i64
  // CHECK: shed.number_columns %{{.+}} from %{{.+}} where {
  %after = shed.number_columns %sequences from %c0 where {
  ^bb0(%j: !shed.column):
    %n = shed.column_number %j
    // CHECK: shed.random stream(1) seed %{{.+}} step %{{.+}} position %{{.+}} index %{{.+}}
    %bits = shed.random stream(1) seed %mask step %c0 position %c0 index %n
    %chosen = arith.cmpi eq, %bits, %c0 : i64
    // CHECK: shed.contribute %{{.+}} : i1
    shed.contribute %chosen : i1
  // CHECK: } do {
  } do {
  // CHECK: ^bb0(%{{.+}}: !shed.column, %{{.+}}: i64):
  ^bb0(%j: !shed.column, %number: i64):
    %token = shed.read %tokens[%number] : !shed.array<i32>
    shed.write %token, %rows[%number] : !shed.array<i32>
  }
  %n = arith.trunci %after : i64 to i32
  // CHECK: shed.raise %{{.+}}, %{{.+}}[%{{.+}}] : <i32>
  shed.raise %n, %count[%c0] : !shed.array<i32>
}
