!T = f32

shed.row_kernel @rotate rotate element(!T) tiling(<threads = 256>) {
^bb0(%x: !shed.array<!T>, %cos: !shed.array<f32>, %sin: !shed.array<f32>,
     %position: !shed.array<i32>, %heads: i64, %half: i64, %stride: i64,
     %in_elements: i64):
  %c0 = arith.constant 0 : i64
  %rounds = arith.cmpi ne, %in_elements, %c0 : i64
  %r = shed.row
  %p = shed.read %position[%r] : !shed.array<i32>
  %p64 = arith.extsi %p : i32 to i64
  %row_offset = arith.muli %r, %stride : i64
  %angle_offset = arith.muli %p64, %half : i64
  %row = shed.advance %x by %row_offset : !shed.array<!T>
  %cos_row = shed.advance %cos by %angle_offset : !shed.array<f32>
  %sin_row = shed.advance %sin by %angle_offset : !shed.array<f32>
  %head_dim = arith.addi %half, %half : i64
  shed.for_columns %half in %heads pieces {
  ^bb0(%head: i64, %j: !shed.column):
    %head_offset = arith.muli %head, %head_dim : i64
    %low = shed.advance %row by %head_offset : !shed.array<!T>
    %high = shed.advance %low by %half : !shed.array<!T>
    %a = shed.read_column %low[%j] : !shed.array<!T>
    %b = shed.read_column %high[%j] : !shed.array<!T>
    %c = shed.read_column %cos_row[%j] : !shed.array<f32>
    %s = shed.read_column %sin_row[%j] : !shed.array<f32>
    %first, %second = scf.if %rounds -> (f32, f32) {
      %c_rounded = shed.round %c to !T
      %s_rounded = shed.round %s to !T
      %ac = arith.mulf %a, %c_rounded : f32
      %bs = arith.mulf %b, %s_rounded : f32
      %bc = arith.mulf %b, %c_rounded : f32
      %as = arith.mulf %a, %s_rounded : f32
      %ac_rounded = shed.round %ac to !T
      %bs_rounded = shed.round %bs to !T
      %bc_rounded = shed.round %bc to !T
      %as_rounded = shed.round %as to !T
      %first = arith.subf %ac_rounded, %bs_rounded : f32
      %second = arith.addf %bc_rounded, %as_rounded : f32
      scf.yield %first, %second : f32, f32
    } else {
      %ac = arith.mulf %a, %c : f32
      %bs = arith.mulf %b, %s : f32
      %bc = arith.mulf %b, %c : f32
      %as = arith.mulf %a, %s : f32
      %first = arith.subf %ac, %bs : f32
      %second = arith.addf %bc, %as : f32
      scf.yield %first, %second : f32, f32
    }
    shed.write_column %first, %low[%j] : !shed.array<!T>
    shed.write_column %second, %high[%j] : !shed.array<!T>
  }
}
