//--- late.mlir
llvm.func @late(%keys: !llvm.ptr<1>, %count: i32, %n: i32, %stride: i64)
    attributes {nvvm.kernel, warp.pipeline = #warp.pipeline<consumers = 3, stages = 2, producer_registers = 32, consumer_registers = 160>} {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c7 = arith.constant 7 : i32
  %zero = arith.constant 0.0 : f32
  %q = warp.load %keys[%c0] stride(%stride) limit(%n) batch(%n, %stride) of 32 : !llvm.ptr<1>, !warp.tile<64, 128, bf16>
  warp.active %count
  %sum = warp.splat %zero : !warp.fragment<1, f32>
  %r = scf.for %t = %c0 to %n step %c1 iter_args(%c = %sum) -> (!warp.fragment<1, f32>) : i32 {
    %first = arith.shli %t, %c7 : i32
    %k = warp.load %keys[%first] stride(%stride) limit(%n) : !llvm.ptr<1>, !warp.tile<128, 128, bf16>
    %f = warp.multiply %q, %k transposed : !warp.tile<64, 128, bf16>, !warp.tile<128, 128, bf16> -> !warp.flying<128, held = 0>
    %s = warp.wait %f : !warp.flying<128, held = 0> -> !warp.fragment<128, f32>
    %m = warp.reduce add %s into %c : !warp.fragment<1, f32> : !warp.fragment<128, f32> -> !warp.fragment<1, f32>
    scf.yield %m : !warp.fragment<1, f32>
  }
  warp.store_column %r, %keys[%c0] limit(%n) batch(%n, %stride) of 32 : !warp.fragment<1, f32>, !llvm.ptr<1>
  llvm.return
}
//--- meets.mlir
llvm.func @meets(%keys: !llvm.ptr<1>, %count: i32, %n: i32, %stride: i64)
    attributes {nvvm.kernel, warp.pipeline = #warp.pipeline<consumers = 3, stages = 2, producer_registers = 32, consumer_registers = 160>} {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c7 = arith.constant 7 : i32
  %zero = arith.constant 0.0 : f32
  warp.active %count
  %q = warp.load %keys[%c0] stride(%stride) limit(%n) batch(%n, %stride) of 32 : !llvm.ptr<1>, !warp.tile<64, 128, bf16>
  %sum = warp.splat %zero : !warp.fragment<1, f32>
  %r = scf.for %t = %c0 to %n step %c1 iter_args(%c = %sum) -> (!warp.fragment<1, f32>) : i32 {
    %first = arith.shli %t, %c7 : i32
    %k = warp.load %keys[%first] stride(%stride) limit(%n) : !llvm.ptr<1>, !warp.tile<128, 128, bf16>
    %f = warp.multiply %q, %k transposed : !warp.tile<64, 128, bf16>, !warp.tile<128, 128, bf16> -> !warp.flying<128, held = 0>
    %s = warp.wait %f : !warp.flying<128, held = 0> -> !warp.fragment<128, f32>
    %m = warp.reduce add %s into %c : !warp.fragment<1, f32> : !warp.fragment<128, f32> -> !warp.fragment<1, f32>
    scf.yield %m : !warp.fragment<1, f32>
  }
  warp.store_column %r, %keys[%c0] limit(%n) batch(%n, %stride) of 32 : !warp.fragment<1, f32>, !llvm.ptr<1>
  warp.meet
  llvm.return
}
//--- idle.mlir
llvm.func @idle(%keys: !llvm.ptr<1>, %none: i1, %n: i32, %stride: i64)
    attributes {nvvm.kernel, warp.pipeline = #warp.pipeline<consumers = 3, stages = 2, producer_registers = 32, consumer_registers = 160>} {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %q = warp.load %keys[%c0] stride(%stride) limit(%n) : !llvm.ptr<1>, !warp.tile<64, 128, bf16>
  warp.idle %none
  scf.for %t = %c0 to %n step %c1 : i32 {
    %k = warp.load %keys[%t] stride(%stride) limit(%n) : !llvm.ptr<1>, !warp.tile<128, 128, bf16>
    %f = warp.multiply %q, %k transposed : !warp.tile<64, 128, bf16>, !warp.tile<128, 128, bf16> -> !warp.flying<128, held = 0>
    %s = warp.wait %f : !warp.flying<128, held = 0> -> !warp.fragment<128, f32>
  }
  llvm.return
}
//--- idle-meets.mlir
llvm.func @idle_meets(%keys: !llvm.ptr<1>, %none: i1, %n: i32, %stride: i64)
    attributes {nvvm.kernel, warp.pipeline = #warp.pipeline<consumers = 3, stages = 2, producer_registers = 32, consumer_registers = 160>} {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  scf.for %turn = %c0 to %n step %c1 : i32 {
    warp.idle %none
    %q = warp.load %keys[%turn] stride(%stride) limit(%n) : !llvm.ptr<1>, !warp.tile<64, 128, bf16>
    scf.for %t = %c0 to %n step %c1 : i32 {
      %k = warp.load %keys[%t] stride(%stride) limit(%n) : !llvm.ptr<1>, !warp.tile<128, 128, bf16>
      %f = warp.multiply %q, %k transposed : !warp.tile<64, 128, bf16>, !warp.tile<128, 128, bf16> -> !warp.flying<128, held = 0>
      %s = warp.wait %f : !warp.flying<128, held = 0> -> !warp.fragment<128, f32>
      warp.meet
    }
  }
  llvm.return
}
//--- more-rows.mlir
llvm.func @more_rows(%keys: !llvm.ptr<1>, %map: !llvm.ptr<1>, %n: i32, %stride: i64)
    attributes {nvvm.kernel, warp.pipeline = #warp.pipeline<consumers = 1, stages = 2, producer_registers = 40, consumer_registers = 232>} {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %q = warp.load %keys[%c0] stride(%stride) limit(%n) : !llvm.ptr<1>, !warp.tile<64, 128, bf16>
  scf.for %t = %c0 to %n step %c1 : i32 {
    %k = warp.load %keys[%t] stride(%stride) limit(%n) : !llvm.ptr<1>, !warp.tile<64, 128, bf16>
    %f = warp.multiply %q, %k transposed : !warp.tile<64, 128, bf16>, !warp.tile<64, 128, bf16> -> !warp.flying<64, held = 0>
    %s = warp.wait %f : !warp.flying<64, held = 0> -> !warp.fragment<64, f32>
  }
  scf.for %t = %c0 to %n step %c1 : i32 {
    %k = warp.load %keys[%t] stride(%stride) limit(%n) : !llvm.ptr<1>, !warp.tile<128, 128, bf16>
    %f = warp.multiply %q, %k transposed : !warp.tile<64, 128, bf16>, !warp.tile<128, 128, bf16> -> !warp.flying<128, held = 0>
    %s = warp.wait %f : !warp.flying<128, held = 0> -> !warp.fragment<128, f32>
  }
  llvm.return
}

//--- other-fetch.mlir
llvm.func @other_fetch(%keys: !llvm.ptr<1>, %map: !llvm.ptr<1>, %n: i32, %stride: i64)
    attributes {nvvm.kernel, warp.pipeline = #warp.pipeline<consumers = 1, stages = 2, producer_registers = 40, consumer_registers = 232>} {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %q = warp.load %keys[%c0] stride(%stride) limit(%n) : !llvm.ptr<1>, !warp.tile<64, 128, bf16>
  scf.for %t = %c0 to %n step %c1 : i32 {
    %k = warp.load %keys[%t] stride(%stride) limit(%n) map(%map[%c0] : !llvm.ptr<1>) : !llvm.ptr<1>, !warp.tile<128, 128, bf16>
    %f = warp.multiply %q, %k transposed : !warp.tile<64, 128, bf16>, !warp.tile<128, 128, bf16> -> !warp.flying<128, held = 0>
    %s = warp.wait %f : !warp.flying<128, held = 0> -> !warp.fragment<128, f32>
  }
  scf.for %t = %c0 to %n step %c1 : i32 {
    %k = warp.load %keys[%t] stride(%stride) limit(%n) map(%map[%c0] : !llvm.ptr<1>) : !llvm.ptr<1>, !warp.tile<64, 128, bf16>
    %f = warp.multiply %q, %k transposed : !warp.tile<64, 128, bf16>, !warp.tile<64, 128, bf16> -> !warp.flying<64, held = 0>
    %s = warp.wait %f : !warp.flying<64, held = 0> -> !warp.fragment<64, f32>
  }
  llvm.return
}

//--- unread.mlir
llvm.func @unread(%keys: !llvm.ptr<1>, %n: i32, %stride: i64)
    attributes {nvvm.kernel, warp.pipeline = #warp.pipeline<consumers = 1, stages = 2, producer_registers = 40, consumer_registers = 232>} {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  scf.for %t = %c0 to %n step %c1 : i32 {
    %k = warp.load %keys[%t] stride(%stride) limit(%n) : !llvm.ptr<1>, !warp.tile<64, 128, bf16>
  }
  llvm.return
}
