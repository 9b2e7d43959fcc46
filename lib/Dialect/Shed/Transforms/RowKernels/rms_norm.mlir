!T = f32

shed.row_kernel @rms_norm rms_norm element(!T)
    tiling(<threads = 512, kept = 2>) {
^bb0(%x: !shed.array<!T>, %delta: !shed.array<!T>, %weight: !shed.array<!T>,
     %y: !shed.array<!T>, %index: !shed.array<i32>, %shift: i64, %width: i64,
     %eps64: f64):
  %c0_i32 = arith.constant 0 : i32
  %i = shed.row
  %all = shed.is_null %index : !shed.array<i32>
  %r, %wanted = scf.if %all -> (i64, i1) {
    %true = arith.constant true
    scf.yield %i, %true : i64, i1
  } else {
    %listed = shed.read %index[%i] : !shed.array<i32>
    %wanted = arith.cmpi sge, %listed, %c0_i32 : i32
    %listed64 = arith.extsi %listed : i32 to i64
    %r = arith.addi %listed64, %shift : i64
    scf.yield %r, %wanted : i64, i1
  }
  scf.if %wanted {
    %x_offset = arith.muli %r, %width : i64
    %y_offset = arith.muli %i, %width : i64
    %x_row = shed.advance %x by %x_offset : !shed.array<!T>
    %delta_row = shed.advance %delta by %x_offset : !shed.array<!T>
    %y_row = shed.advance %y by %y_offset : !shed.array<!T>
    %plain = shed.is_null %delta : !shed.array<!T>

    %squares, %kept = shed.for_columns %width reduce(add)
        keep(%y_row : !shed.array<!T>) -> f32, !shed.kept<!T> {
    ^bb0(%j: !shed.column):
      %value = shed.read_column %x_row[%j] : !shed.array<!T>
      %t = scf.if %plain -> f32 {
        scf.yield %value : f32
      } else {
        %added = shed.read_column %delta_row[%j] : !shed.array<!T>
        %sum = arith.addf %value, %added : f32
        %rounded = shed.round %sum to !T
        scf.if %all {
          shed.write_column %rounded, %x_row[%j] : !shed.array<!T>
        }
        scf.yield %rounded : f32
      }
      %square = arith.mulf %t, %t : f32
      shed.contribute %square, %t : f32, f32
    }

    %one = arith.constant 1.0 : f32
    %eps = arith.truncf %eps64 : f64 to f32
    %count = arith.sitofp %width : i64 to f32
    %mean = arith.divf %squares, %count : f32
    %moved = arith.addf %mean, %eps : f32
    %root = math.sqrt %moved : f32
    %scale = arith.divf %one, %root : f32

    shed.for_columns %width {
    ^bb0(%j: !shed.column):
      %t = shed.recall %kept[%j] : !shed.kept<!T>
      %w = shed.read_column %weight[%j] : !shed.array<!T>
      %scaled = arith.mulf %t, %scale : f32
      %rounded = shed.round %scaled to !T
      %result = arith.mulf %rounded, %w : f32
      shed.write_column %result, %y_row[%j] : !shed.array<!T>
    }
  }
}
