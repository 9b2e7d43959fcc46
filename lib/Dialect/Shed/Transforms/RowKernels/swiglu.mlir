!T = f32

shed.row_kernel @swiglu swiglu element(!T) tiling(<threads = 512>) {
^bb0(%x: !shed.array<!T>, %y: !shed.array<!T>, %width: i64):
  %one = arith.constant 1.0 : f32
  %r = shed.row
  %y_offset = arith.muli %r, %width : i64
  %x_offset = arith.addi %y_offset, %y_offset : i64
  %gates = shed.advance %x by %x_offset : !shed.array<!T>
  %ups = shed.advance %gates by %width : !shed.array<!T>
  %y_row = shed.advance %y by %y_offset : !shed.array<!T>
  shed.for_columns %width {
  ^bb0(%j: !shed.column):
    %gate = shed.read_column %gates[%j] : !shed.array<!T>
    %up = shed.read_column %ups[%j] : !shed.array<!T>
    %minus = arith.negf %gate : f32
    %power = math.exp %minus : f32
    %divisor = arith.addf %power, %one : f32
    %silu = arith.divf %gate, %divisor fastmath<afn> : f32
    %rounded = shed.round %silu to !T
    %result = arith.mulf %rounded, %up : f32
    shed.write_column %result, %y_row[%j] : !shed.array<!T>
  }
}
