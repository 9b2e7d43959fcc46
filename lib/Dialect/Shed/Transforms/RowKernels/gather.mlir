!T = f32

shed.row_kernel @gather gather element(!T) tiling(<threads = 256>) {
^bb0(%x: !shed.array<!T>, %index: !shed.array<i32>, %y: !shed.array<!T>,
     %width: i64):
  %c0_i32 = arith.constant 0 : i32
  %i = shed.row
  %r = shed.read %index[%i] : !shed.array<i32>
  %there = arith.cmpi sge, %r, %c0_i32 : i32
  %r64 = arith.extsi %r : i32 to i64
  %from = arith.muli %r64, %width : i64
  %to = arith.muli %i, %width : i64
  %x_row = shed.advance %x by %from : !shed.array<!T>
  %y_row = shed.advance %y by %to : !shed.array<!T>
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
