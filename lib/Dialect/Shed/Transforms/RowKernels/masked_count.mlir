!T = f32

shed.row_kernel @masked_count masked_count element(!T)
    tiling(<threads = 512, columns = 1>) {
^bb0(%tokens: !shed.array<i32>, %first: !shed.array<i64>,
     %end: !shed.array<i64>, %count: !shed.array<i32>, %mask64: i64):
  %s = shed.row
  %mask = arith.trunci %mask64 : i64 to i32
  %from = shed.read %first[%s] : !shed.array<i64>
  %to = shed.read %end[%s] : !shed.array<i64>
  %rows = arith.subi %to, %from : i64
  %range = shed.advance %tokens by %from : !shed.array<i32>
  %masked = shed.for_columns %rows reduce(add) -> i32 {
  ^bb0(%j: !shed.column):
    %token = shed.read_column %range[%j] : !shed.array<i32>
    %hit = arith.cmpi eq, %token, %mask : i32
    %one = arith.extui %hit : i1 to i32
    shed.contribute %one : i32
  }
  shed.write %masked, %count[%s] : !shed.array<i32>
}
