!T = f32

shed.row_kernel @embed embed element(!T) tiling(<threads = 256>) {
^bb0(%tokens: !shed.array<i32>, %table: !shed.array<!T>, %y: !shed.array<!T>,
     %width: i64):
  %r = shed.row
  %token = shed.read %tokens[%r] : !shed.array<i32>
  %from = arith.extsi %token : i32 to i64
  %from_offset = arith.muli %from, %width : i64
  %to_offset = arith.muli %r, %width : i64
  %table_row = shed.advance %table by %from_offset : !shed.array<!T>
  %y_row = shed.advance %y by %to_offset : !shed.array<!T>
  shed.for_columns %width {
  ^bb0(%j: !shed.column):
    %value = shed.read_column %table_row[%j] : !shed.array<!T>
    shed.write_column %value, %y_row[%j] : !shed.array<!T>
  }
}
