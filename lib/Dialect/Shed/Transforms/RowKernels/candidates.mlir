!T = f32

shed.row_kernel @candidates candidates element(!T)
    tiling(<threads = 1024, columns = 1>) {
^bb0(%tokens: !shed.array<i32>, %first: !shed.array<i64>,
     %end: !shed.array<i64>, %rows: !shed.array<i32>,
     %sequence_of: !shed.array<i32>, %offsets: !shed.array<i32>,
     %count: !shed.array<i32>, %sequences: i64, %capacity: i64, %mask64: i64):
  %c0 = arith.constant 0 : i64
  %c1 = arith.constant 1 : i64
  %mask = arith.trunci %mask64 : i64 to i32
  %total = scf.for %s = %c0 to %sequences step %c1
      iter_args(%start = %c0) -> (i64) : i64 {
    %listed = arith.minsi %start, %capacity : i64
    %listed32 = arith.trunci %listed : i64 to i32
    shed.write %listed32, %offsets[%s] : !shed.array<i32>
    %s32 = arith.trunci %s : i64 to i32
    %from = shed.read %first[%s] : !shed.array<i64>
    %to = shed.read %end[%s] : !shed.array<i64>
    %width = arith.subi %to, %from : i64
    %range = shed.advance %tokens by %from : !shed.array<i32>
    %next = shed.number_columns %width from %start where {
    ^bb0(%j: !shed.column):
      %token = shed.read_column %range[%j] : !shed.array<i32>
      %masked = arith.cmpi eq, %token, %mask : i32
      shed.contribute %masked : i1
    } do {
    ^bb0(%j: !shed.column, %number: i64):
      %fits = arith.cmpi slt, %number, %capacity : i64
      scf.if %fits {
        %position = shed.column_number %j
        %row = arith.addi %from, %position : i64
        %row32 = arith.trunci %row : i64 to i32
        shed.write %row32, %rows[%number] : !shed.array<i32>
        shed.write %s32, %sequence_of[%number] : !shed.array<i32>
      }
    }
    scf.yield %next : i64
  }
  %listed = arith.minsi %total, %capacity : i64
  %listed32 = arith.trunci %listed : i64 to i32
  %total32 = arith.trunci %total : i64 to i32
  shed.write %listed32, %offsets[%sequences] : !shed.array<i32>
  shed.write %total32, %count[%c0] : !shed.array<i32>
  %none = arith.constant -1 : i32
  %left = arith.subi %capacity, %listed : i64
  %rest = shed.advance %rows by %listed : !shed.array<i32>
  shed.for_columns %left {
  ^bb0(%j: !shed.column):
    shed.write_column %none, %rest[%j] : !shed.array<i32>
  }
}
