!T = f32

shed.row_kernel @commit commit element(!T)
    tiling(<threads = 128, columns = 1>) {
^bb0(%tokens: !shed.array<i32>, %rows: !shed.array<i32>,
     %sequence_of: !shed.array<i32>, %offsets: !shed.array<i32>,
     %token: !shed.array<i32>, %confidence: !shed.array<f64>,
     %masked: !shed.array<i32>, %clock: !shed.array<i64>,
     %status: !shed.array<i32>, %committed: !shed.array<i8>, %steps: i64,
     %shift: i64):
  %c0 = arith.constant 0 : i64
  %c1 = arith.constant 1 : i64
  %c0_i32 = arith.constant 0 : i32
  %i = shed.row
  %row = shed.read %rows[%i] : !shed.array<i32>
  %state = shed.read %status[%c0] : !shed.array<i32>
  %listed = arith.cmpi sge, %row, %c0_i32 : i32
  %sound = arith.cmpi eq, %state, %c0_i32 : i32
  %wanted = arith.andi %listed, %sound : i1
  %chosen = scf.if %wanted -> i1 {
    %s32 = shed.read %sequence_of[%i] : !shed.array<i32>
    %s = arith.extsi %s32 : i32 to i64
    %after = arith.addi %s, %c1 : i64
    %from32 = shed.read %offsets[%s] : !shed.array<i32>
    %to32 = shed.read %offsets[%after] : !shed.array<i32>
    %from = arith.extsi %from32 : i32 to i64
    %to = arith.extsi %to32 : i32 to i64

    // The share of this step: the first `masked % steps` get one more.
    %base32 = shed.read %masked[%s] : !shed.array<i32>
    %base = arith.extsi %base32 : i32 to i64
    %step = shed.read %clock[%c1] : !shed.array<i64>
    %floor = arith.divui %base, %steps : i64
    %over = arith.remui %base, %steps : i64
    %early = arith.cmpi slt, %step, %over : i64
    %one_more = arith.extui %early : i1 to i64
    %quota = arith.addi %floor, %one_more : i64

    // How many of the sequence come before this one.
    %own = shed.read %confidence[%i] : !shed.array<f64>
    %others = shed.advance %confidence by %from : !shed.array<f64>
    %width = arith.subi %to, %from : i64
    %place = arith.subi %i, %from : i64
    %before = shed.for_columns %width reduce(add) -> i64 {
    ^bb0(%j: !shed.column):
      %other = shed.read_column %others[%j] : !shed.array<f64>
      %number = shed.column_number %j
      %larger = arith.cmpf ogt, %other, %own : f64
      %equal = arith.cmpf oeq, %other, %own : f64
      %lower = arith.cmpi slt, %number, %place : i64
      %tie = arith.andi %equal, %lower : i1
      %first = arith.ori %larger, %tie : i1
      %one = arith.extui %first : i1 to i64
      shed.contribute %one : i64
    }
    %chosen = arith.cmpi slt, %before, %quota : i64
    scf.if %chosen {
      %drawn = shed.read %token[%i] : !shed.array<i32>
      %row64 = arith.extsi %row : i32 to i64
      shed.write %drawn, %tokens[%row64] : !shed.array<i32>
      %guided = arith.cmpi sgt, %shift, %c0 : i64
      scf.if %guided {
        %second = arith.addi %row64, %shift : i64
        shed.write %drawn, %tokens[%second] : !shed.array<i32>
      }
    }
    scf.yield %chosen : i1
  } else {
    %false = arith.constant false
    scf.yield %false : i1
  }
  %flag = arith.extui %chosen : i1 to i8
  shed.write %flag, %committed[%i] : !shed.array<i8>
}
