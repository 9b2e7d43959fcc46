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

// 2^(l - most), 0 where l is minus infinity, whatever `most`.
func.func private @weight(%l: f32, %most: f32) -> f32 {
  %zero = arith.constant 0.0 : f32
  %none = arith.constant 0xFF800000 : f32
  %ln2 = arith.constant 0.693147182 : f32
  %below = arith.subf %l, %most : f32
  %scaled = arith.mulf %below, %ln2 : f32
  %power = math.exp %scaled : f32
  %missing = arith.cmpf oeq, %l, %none : f32
  %weight = arith.select %missing, %zero, %power : f32
  return %weight : f32
}

shed.row_kernel @merge merge element(!T) tiling(<threads = 256>) {
^bb0(%x: !shed.array<!T>, %from: !shed.array<i32>, %x_stride: i64,
     %lse: !shed.array<f32>, %lse_at: !shed.array<i64>,
     %lse_stride: !shed.array<i32>, %cache: !shed.array<!T>,
     %at: !shed.array<i32>, %kept_lse: !shed.array<f32>,
     %new_lse: !shed.array<f32>, %y: !shed.array<!T>, %to: !shed.array<i32>,
     %y_stride: i64, %heads: i64, %head_dim: i64):
  %zero = arith.constant 0.0 : f32
  %none = arith.constant 0xFF800000 : f32
  %nothing_kept = shed.is_null %kept_lse : !shed.array<f32>
  %lse_unasked = shed.is_null %new_lse : !shed.array<f32>
  %to_cache = shed.is_null %y : !shed.array<!T>

  %i = shed.row
  %source = func.call @row_of(%from, %i) : (!shed.array<i32>, i64) -> i64
  %kept = func.call @row_of(%at, %i) : (!shed.array<i32>, i64) -> i64
  %target = func.call @row_of(%to, %i) : (!shed.array<i32>, i64) -> i64
  %width = arith.muli %heads, %head_dim : i64
  %x_offset = arith.muli %source, %x_stride : i64
  %cache_offset = arith.muli %kept, %width : i64
  %lse_offset = arith.muli %kept, %heads : i64
  %y_offset = arith.muli %target, %y_stride : i64
  %x_row = shed.advance %x by %x_offset : !shed.array<!T>
  %cache_row = shed.advance %cache by %cache_offset : !shed.array<!T>
  %kept_row = shed.advance %kept_lse by %lse_offset : !shed.array<f32>
  %new_row = shed.advance %new_lse by %lse_offset : !shed.array<f32>
  %y_row = shed.advance %y by %y_offset : !shed.array<!T>
  %first = shed.read %lse_at[%i] : !shed.array<i64>
  %step32 = shed.read %lse_stride[%i] : !shed.array<i32>
  %step = arith.extsi %step32 : i32 to i64

  shed.for_columns %head_dim in %heads pieces {
  ^bb0(%head: i64, %j: !shed.column):
    %head_offset = arith.muli %head, %head_dim : i64
    %x_head = shed.advance %x_row by %head_offset : !shed.array<!T>
    %cache_head = shed.advance %cache_row by %head_offset : !shed.array<!T>
    %y_head = shed.advance %y_row by %head_offset : !shed.array<!T>
    %now = shed.read_column %x_head[%j] : !shed.array<!T>
    %t = scf.if %nothing_kept -> f32 {
      scf.yield %now : f32
    } else {
      %before = shed.read_column %cache_head[%j] : !shed.array<!T>
      %now_offset = arith.muli %head, %step : i64
      %now_at = arith.addi %first, %now_offset : i64
      %now_lse = shed.read %lse[%now_at] : !shed.array<f32>
      %before_lse = shed.read %kept_row[%head] : !shed.array<f32>
      %most = arith.maximumf %now_lse, %before_lse : f32
      %a = func.call @weight(%now_lse, %most) : (f32, f32) -> f32
      %b = func.call @weight(%before_lse, %most) : (f32, f32) -> f32
      %sum = arith.addf %a, %b : f32
      // What has no key may be anything.
      %no_now = arith.cmpf oeq, %a, %zero : f32
      %no_before = arith.cmpf oeq, %b, %zero : f32
      %no_key = arith.cmpf oeq, %sum, %zero : f32
      %of_now = arith.mulf %a, %now : f32
      %of_before = arith.mulf %b, %before : f32
      %now_part = arith.select %no_now, %zero, %of_now : f32
      %before_part = arith.select %no_before, %zero, %of_before : f32
      %all = arith.addf %now_part, %before_part : f32
      %mean = arith.divf %all, %sum : f32
      %merged = arith.select %no_key, %zero, %mean : f32
      scf.yield %merged : f32
    }
    scf.if %to_cache {
      shed.write_column %t, %cache_head[%j] : !shed.array<!T>
    } else {
      shed.write_column %t, %y_head[%j] : !shed.array<!T>
    }
  }
  scf.if %lse_unasked {
  } else {
    shed.for_columns ragged %heads {
    ^bb0(%j: !shed.column):
      %head = shed.column_number %j
      %now_offset = arith.muli %head, %step : i64
      %now_at = arith.addi %first, %now_offset : i64
      %now_lse = shed.read %lse[%now_at] : !shed.array<f32>
      %l = scf.if %nothing_kept -> f32 {
        scf.yield %now_lse : f32
      } else {
        %before_lse = shed.read_column %kept_row[%j] : !shed.array<f32>
        %most = arith.maximumf %now_lse, %before_lse : f32
        %a = func.call @weight(%now_lse, %most) : (f32, f32) -> f32
        %b = func.call @weight(%before_lse, %most) : (f32, f32) -> f32
        %sum = arith.addf %a, %b : f32
        %no_key = arith.cmpf oeq, %sum, %zero : f32
        %log = math.log2 %sum : f32
        %both = arith.addf %most, %log : f32
        %merged = arith.select %no_key, %none, %both : f32
        scf.yield %merged : f32
      }
      shed.write_column %l, %new_row[%j] : !shed.array<f32>
    }
  }
}
