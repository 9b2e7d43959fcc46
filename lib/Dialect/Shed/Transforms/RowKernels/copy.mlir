!T = f32

// The row that an index names for row i: i itself where there is no index.
func.func private @row_of(%index: !shed.array<i32>, %i: i64) -> i64 {
  %all = shed.is_null %index : !shed.array<i32>
  %row = scf.if %all -> i64 {
    scf.yield %i : i64
  } else {
    %listed = shed.read %index[%i] : !shed.array<i32>
    %listed64 = arith.extsi %listed : i32 to i64
    scf.yield %listed64 : i64
  }
  return %row : i64
}

shed.row_kernel @copy copy element(!T) tiling(<threads = 256>) {
^bb0(%x: !shed.array<!T>, %from: !shed.array<i32>, %x_stride: i64,
     %y: !shed.array<!T>, %to: !shed.array<i32>, %y_stride: i64, %width: i64):
  %c0 = arith.constant 0 : i64
  %i = shed.row
  %source = func.call @row_of(%from, %i) : (!shed.array<i32>, i64) -> i64
  %target = func.call @row_of(%to, %i) : (!shed.array<i32>, i64) -> i64
  %x_offset = arith.muli %source, %x_stride : i64
  %y_offset = arith.muli %target, %y_stride : i64
  %x_row = shed.advance %x by %x_offset : !shed.array<!T>
  %y_row = shed.advance %y by %y_offset : !shed.array<!T>
  %there = arith.cmpi sge, %source, %c0 : i64
  scf.if %there {
    shed.for_columns %width {
    ^bb0(%j: !shed.column):
      %value = shed.read_column %x_row[%j] : !shed.array<!T>
      shed.write_column %value, %y_row[%j] : !shed.array<!T>
    }
  } else {
    %zero = arith.constant 0.0 : f32
    shed.for_columns %width {
    ^bb0(%j: !shed.column):
      shed.write_column %zero, %y_row[%j] : !shed.array<!T>
    }
  }
}
