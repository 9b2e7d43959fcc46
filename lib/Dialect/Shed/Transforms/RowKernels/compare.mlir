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

shed.row_kernel @compare compare element(!T) tiling(<threads = 256>) {
^bb0(%x: !shed.array<!T>, %from: !shed.array<i32>, %x_stride: i64,
     %cache: !shed.array<!T>, %at: !shed.array<i32>, %y: !shed.array<!T>,
     %to: !shed.array<i32>, %y_stride: i64, %similarity: !shed.array<f32>,
     %width: i64, %flags: i64):
  %c0 = arith.constant 0 : i64
  %add_bit = arith.constant 1 : i64
  %store_bit = arith.constant 2 : i64
  %add_flag = arith.andi %flags, %add_bit : i64
  %store_flag = arith.andi %flags, %store_bit : i64
  %adds = arith.cmpi ne, %add_flag, %c0 : i64
  %stores = arith.cmpi ne, %store_flag, %c0 : i64
  %alone = shed.is_null %y : !shed.array<!T>
  %unasked = shed.is_null %similarity : !shed.array<f32>

  %i = shed.row
  %source = func.call @row_of(%from, %i) : (!shed.array<i32>, i64) -> i64
  %kept = func.call @row_of(%at, %i) : (!shed.array<i32>, i64) -> i64
  %target = func.call @row_of(%to, %i) : (!shed.array<i32>, i64) -> i64
  %x_offset = arith.muli %source, %x_stride : i64
  %cache_offset = arith.muli %kept, %width : i64
  %y_offset = arith.muli %target, %y_stride : i64
  %x_row = shed.advance %x by %x_offset : !shed.array<!T>
  %cache_row = shed.advance %cache by %cache_offset : !shed.array<!T>
  %y_row = shed.advance %y by %y_offset : !shed.array<!T>

  // The same order of operations for all three sums: where t is c, they are
  // equal.
  %ab, %aa, %bb = shed.for_columns %width reduce(add, add, add)
      -> f32, f32, f32 {
  ^bb0(%j: !shed.column):
    %given = shed.read_column %x_row[%j] : !shed.array<!T>
    %c = shed.read_column %cache_row[%j] : !shed.array<!T>
    %t = scf.if %adds -> f32 {
      %sum = arith.addf %c, %given : f32
      scf.yield %sum : f32
    } else {
      scf.yield %given : f32
    }
    scf.if %stores {
      shed.write_column %t, %cache_row[%j] : !shed.array<!T>
    }
    scf.if %alone {
    } else {
      shed.write_column %t, %y_row[%j] : !shed.array<!T>
    }
    %tc = arith.mulf %t, %c : f32
    %tt = arith.mulf %t, %t : f32
    %cc = arith.mulf %c, %c : f32
    shed.contribute %tc, %tt, %cc : f32, f32, f32
  }
  scf.if %unasked {
  } else {
    // In f64 the product of two sums is exact, and so is the root of a square:
    // equal rows have a cosine of exactly 1.
    %least = arith.constant 1.0e-8 : f32
    %aa_small = arith.cmpf olt, %aa, %least : f32
    %bb_small = arith.cmpf olt, %bb, %least : f32
    %a = arith.select %aa_small, %least, %aa : f32
    %b = arith.select %bb_small, %least, %bb : f32
    %a64 = arith.extf %a : f32 to f64
    %b64 = arith.extf %b : f32 to f64
    %ab64 = arith.extf %ab : f32 to f64
    %product = arith.mulf %a64, %b64 : f64
    %norm = math.sqrt %product : f64
    %cosine64 = arith.divf %ab64, %norm : f64
    %cosine = arith.truncf %cosine64 : f64 to f32
    shed.write %cosine, %similarity[%i] : !shed.array<f32>
  }
}
