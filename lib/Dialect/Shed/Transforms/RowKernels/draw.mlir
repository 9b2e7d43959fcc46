!T = f32

// The logit of a column: u + factor * (l - u), each operation rounded. Without
// an unconditional row both are the same and so is the result.
func.func private @guide(%l: f32, %u: f32, %factor: f32) -> f32 {
  %difference = arith.subf %l, %u : f32
  %scaled = arith.mulf %factor, %difference : f32
  %sum = arith.addf %u, %scaled : f32
  return %sum : f32
}

func.func private @logit(%own: !shed.array<!T>, %other: !shed.array<!T>,
                         %factor: f32, %j: !shed.column) -> f32 {
  %l = shed.read_column %own[%j] : !shed.array<!T>
  %u = shed.read_column %other[%j] : !shed.array<!T>
  %logit = func.call @guide(%l, %u, %factor) : (f32, f32, f32) -> f32
  return %logit : f32
}

// (bits + 0.5) * 2^-52, exactly.
func.func private @uniform(%bits: i64) -> f64 {
  %half = arith.constant 0.5 : f64
  %unit = arith.constant 0x3CB0000000000000 : f64
  %whole = arith.uitofp %bits : i64 to f64
  %middle = arith.addf %whole, %half : f64
  %u = arith.mulf %middle, %unit : f64
  return %u : f64
}

// The Gumbel noise -ln(-ln u) within 2e-5. -ln u comes from log2 where u is
// below 7/8, else from its series in v = 1 - u, of which the bits say more than
// an fp32 u can.
func.func private @estimate_noise(%bits: i64) -> f32 {
  %ones = arith.constant 0xFFFFFFFFFFFFF : i64
  %unit = arith.constant 0x25800000 : f32
  %half_unit = arith.constant 0x25000000 : f32
  %minus_ln2 = arith.constant -0.693147182 : f32
  %eighth = arith.constant 0.125 : f32
  %c1 = arith.constant 1.0 : f32
  %c2 = arith.constant 0.5 : f32
  %c3 = arith.constant 0.333333343 : f32
  %c4 = arith.constant 0.25 : f32
  %c5 = arith.constant 0.2 : f32
  %c6 = arith.constant 0.166666672 : f32

  %rest = arith.xori %bits, %ones : i64
  %bits_f = arith.uitofp %bits : i64 to f32
  %rest_f = arith.uitofp %rest : i64 to f32
  %u = math.fma %bits_f, %unit, %half_unit : f32
  %v = math.fma %rest_f, %unit, %half_unit : f32

  %log2_u = math.log2 %u : f32
  %far = arith.mulf %log2_u, %minus_ln2 : f32

  %p5 = math.fma %v, %c6, %c5 : f32
  %p4 = math.fma %v, %p5, %c4 : f32
  %p3 = math.fma %v, %p4, %c3 : f32
  %p2 = math.fma %v, %p3, %c2 : f32
  %p1 = math.fma %v, %p2, %c1 : f32
  %near = arith.mulf %v, %p1 : f32

  %is_near = arith.cmpf olt, %v, %eighth : f32
  %e = arith.select %is_near, %near, %far : f32
  %log2_e = math.log2 %e : f32
  %noise = arith.mulf %log2_e, %minus_ln2 : f32
  return %noise : f32
}

// A few passes over the row cost less than keeping its 126,464 logits would.
shed.row_kernel @draw draw element(!T) tiling(<threads = 512>) {
^bb0(%logits: !shed.array<!T>, %unconditional: !shed.array<!T>, %vocab: i64,
     %stride: i64, %first: i64, %rows: !shed.array<i32>,
     %sequence_of: !shed.array<i32>, %sequence_start: !shed.array<i64>,
     %clock: !shed.array<i64>, %temperature: f64, %cfg_scale: f64, %seed: i64,
     %flags: i64, %eos32: i32, %eot32: i32, %token: !shed.array<i32>,
     %confidence: !shed.array<f64>, %status: !shed.array<i32>):
  %c0 = arith.constant 0 : i64
  %c0_i32 = arith.constant 0 : i32
  %c1_i32 = arith.constant 1 : i32
  %zero = arith.constant 0.0 : f64
  %i = shed.row
  %candidate = arith.addi %first, %i : i64
  %row = shed.read %rows[%candidate] : !shed.array<i32>
  %listed = arith.cmpi sge, %row, %c0_i32 : i32
  scf.if %listed {
    // Options: which tokens are barred from the draw and from the softmax.
    %none = arith.constant -1 : i64
    %random_bit = arith.constant 1 : i64
    %eos_bit = arith.constant 2 : i64
    %confidence_bit = arith.constant 4 : i64
    %count_bit = arith.constant 8 : i64
    %eos = arith.extsi %eos32 : i32 to i64
    %eot = arith.extsi %eot32 : i32 to i64
    %random_flag = arith.andi %flags, %random_bit : i64
    %eos_flag = arith.andi %flags, %eos_bit : i64
    %confidence_flag = arith.andi %flags, %confidence_bit : i64
    %is_random = arith.cmpi ne, %random_flag, %c0 : i64
    %bars_eos = arith.cmpi ne, %eos_flag, %c0 : i64
    %bars_confidence = arith.cmpi ne, %confidence_flag, %c0 : i64
    %greedy = arith.cmpf oeq, %temperature, %zero : f64
    %bars_both = arith.andi %bars_confidence, %greedy : i1
    %count_flag = arith.andi %flags, %count_bit : i64
    %does_not_count = arith.cmpi eq, %count_flag, %c0 : i64
    %drops_eos = arith.andi %bars_eos, %does_not_count : i1
    %bars_eos_at_all = arith.ori %drops_eos, %bars_both : i1
    %undrawn = arith.select %bars_eos, %eos, %none : i64
    %unsure_eos = arith.select %bars_eos_at_all, %eos, %none : i64
    %unsure_eot = arith.select %bars_confidence, %eot, %none : i64

    %one = arith.constant 1.0 : f64
    %factor64 = arith.addf %cfg_scale, %one : f64
    %factor = arith.truncf %factor64 : f64 to f32
    %row_offset = arith.muli %i, %stride : i64
    %alone = shed.is_null %unconditional : !shed.array<!T>
    %other_logits = arith.select %alone, %logits, %unconditional
        : !shed.array<!T>
    %own = shed.advance %logits by %row_offset : !shed.array<!T>
    %other = shed.advance %other_logits by %row_offset : !shed.array<!T>

    %infinity = arith.constant 0x7F800000 : f32
    %minus_infinity = arith.constant 0xFF800000 : f32
    %broken, %best, %best_token, %top = shed.for_columns ragged %vocab
        reduce(max, argmax, max) -> i32, f32, i64, f32 {
    ^bb0(%j: !shed.column):
      %l = func.call @logit(%own, %other, %factor, %j)
          : (!shed.array<!T>, !shed.array<!T>, f32, !shed.column) -> f32
      %size = math.absf %l : f32
      %is_broken = arith.cmpf uge, %size, %infinity : f32
      %broken = arith.extui %is_broken : i1 to i32
      %n = shed.column_number %j
      %is_undrawn = arith.cmpi eq, %n, %undrawn : i64
      %is_eos = arith.cmpi eq, %n, %unsure_eos : i64
      %is_eot = arith.cmpi eq, %n, %unsure_eot : i64
      %is_unsure = arith.ori %is_eos, %is_eot : i1
      %drawable = arith.select %is_undrawn, %minus_infinity, %l : f32
      %sure = arith.select %is_unsure, %minus_infinity, %l : f32
      shed.contribute %broken, %drawable, %sure : i32, f32, f32
    }

    %sound = arith.cmpi eq, %broken, %c0_i32 : i32
    scf.if %sound {
      %s32 = shed.read %sequence_of[%candidate] : !shed.array<i32>
      %s = arith.extsi %s32 : i32 to i64
      %start = shed.read %sequence_start[%s] : !shed.array<i64>
      %row64 = arith.extsi %row : i32 to i64
      %position = arith.subi %row64, %start : i64
      %step = shed.read %clock[%c0] : !shed.array<i64>

      %drawn = scf.if %greedy -> i64 {
        scf.yield %best_token : i64
      } else {
        // First the largest estimate, then the fp64 values of the entries whose
        // estimate is as large within the errors of both.
        %t = arith.truncf %temperature : f64 to f32
        %largest = shed.for_columns ragged %vocab reduce(max) -> f32 {
        ^bb0(%j: !shed.column):
          %l = func.call @logit(%own, %other, %factor, %j)
              : (!shed.array<!T>, !shed.array<!T>, f32, !shed.column) -> f32
          %n = shed.column_number %j
          %is_undrawn = arith.cmpi eq, %n, %undrawn : i64
          %drawable = arith.select %is_undrawn, %minus_infinity, %l : f32
          %bits = shed.random stream(0) seed %seed step %step
              position %position index %n
          %noise = func.call @estimate_noise(%bits) : (i64) -> f32
          %estimate = math.fma %t, %noise, %drawable : f32
          shed.contribute %estimate : f32
        }
        %noise_error = arith.constant 5.0e-5 : f32
        %rounding_error = arith.constant 5.0e-7 : f32
        %size = math.absf %largest : f32
        %of_noise = arith.mulf %t, %noise_error : f32
        %error = math.fma %size, %rounding_error, %of_noise : f32
        %least = arith.subf %largest, %error : f32
        %value, %winner = shed.for_columns ragged %vocab reduce(argmax)
            -> f64, i64 {
        ^bb0(%j: !shed.column):
          %l = func.call @logit(%own, %other, %factor, %j)
              : (!shed.array<!T>, !shed.array<!T>, f32, !shed.column) -> f32
          %n = shed.column_number %j
          %is_undrawn = arith.cmpi eq, %n, %undrawn : i64
          %drawable = arith.select %is_undrawn, %minus_infinity, %l : f32
          %bits = shed.random stream(0) seed %seed step %step
              position %position index %n
          %noise = func.call @estimate_noise(%bits) : (i64) -> f32
          %estimate = math.fma %t, %noise, %drawable : f32
          %can_win = arith.cmpf oge, %estimate, %least : f32
          %exact = scf.if %can_win -> f64 {
            %u = func.call @uniform(%bits) : (i64) -> f64
            %log_u = math.log %u : f64
            %exponential = arith.negf %log_u : f64
            %minus_gumbel = math.log %exponential : f64
            %scaled = arith.mulf %temperature, %minus_gumbel : f64
            %drawable64 = arith.extf %drawable : f32 to f64
            %exact = arith.subf %drawable64, %scaled : f64
            scf.yield %exact : f64
          } else {
            %lost = arith.constant 0xFFF0000000000000 : f64
            scf.yield %lost : f64
          }
          shed.contribute %exact : f64
        }
        scf.yield %winner : i64
      }

      %sureness = scf.if %is_random -> f64 {
        %bits = shed.random stream(1) seed %seed step %step
            position %position index %c0
        %u = func.call @uniform(%bits) : (i64) -> f64
        scf.yield %u : f64
      } else {
        %sum = shed.for_columns ragged %vocab reduce(add) -> f64 {
        ^bb0(%j: !shed.column):
          %l = func.call @logit(%own, %other, %factor, %j)
              : (!shed.array<!T>, !shed.array<!T>, f32, !shed.column) -> f32
          %n = shed.column_number %j
          %is_eos = arith.cmpi eq, %n, %unsure_eos : i64
          %is_eot = arith.cmpi eq, %n, %unsure_eot : i64
          %is_unsure = arith.ori %is_eos, %is_eot : i1
          %sure = arith.select %is_unsure, %minus_infinity, %l : f32
          %below = arith.subf %sure, %top : f32
          %power = math.exp %below : f32
          %power64 = arith.extf %power : f32 to f64
          shed.contribute %power64 : f64
        }
        %is_eos = arith.cmpi eq, %drawn, %unsure_eos : i64
        %is_eot = arith.cmpi eq, %drawn, %unsure_eot : i64
        %is_unsure = arith.ori %is_eos, %is_eot : i1
        %probability = scf.if %is_unsure -> f64 {
          scf.yield %zero : f64
        } else {
          %l = shed.read %own[%drawn] : !shed.array<!T>
          %u = shed.read %other[%drawn] : !shed.array<!T>
          %logit = func.call @guide(%l, %u, %factor) : (f32, f32, f32) -> f32
          %below = arith.subf %logit, %top : f32
          %power = math.exp %below : f32
          %power64 = arith.extf %power : f32 to f64
          %probability = arith.divf %power64, %sum : f64
          scf.yield %probability : f64
        }
        scf.yield %probability : f64
      }
      %drawn32 = arith.trunci %drawn : i64 to i32
      shed.write %drawn32, %token[%candidate] : !shed.array<i32>
      shed.write %sureness, %confidence[%candidate] : !shed.array<f64>
    } else {
      %no_token = arith.constant -1 : i32
      %candidate32 = arith.trunci %candidate : i64 to i32
      %mark = arith.addi %candidate32, %c1_i32 : i32
      shed.write %no_token, %token[%candidate] : !shed.array<i32>
      shed.write %zero, %confidence[%candidate] : !shed.array<f64>
      shed.raise %mark, %status[%c0] : !shed.array<i32>
    }
  }
}
