// REQUIRES: heddle-opt
// RUN: heddle-opt %s --split-input-file --verify-diagnostics

// What an op or a type of the warp level refuses by itself; what only a whole
// pipeline can be asked is in verify-pipelines.mlir.

// expected-error @+1 {{a tile has a multiple of 8 rows up to 256, not 12}}
func.func private @tile(!warp.tile<12, 128, bf16>)

// -----

// expected-error @+1 {{a tile has 64, 128, 192 or 256 columns, not 96}}
func.func private @columns(!warp.tile<64, 96, bf16>)

// -----

// expected-error @+1 {{a tile's elements are bf16 or f16, not 'f32'}}
func.func private @element(!warp.tile<64, 128, f32>)

// -----

// expected-error @+1 {{a ring has 1 to 8 stages, not 0}}
func.func private @ring(!warp.ring<0, !warp.tile<64, 128, bf16>>)

// -----

// expected-error @+1 {{a thread has a multiple of 8 registers from 24 to 240, not 100}}
func.func private @pipeline() attributes {p = #warp.pipeline<consumers = 3, stages = 2, producer_registers = 24, consumer_registers = 100>}

// -----

// expected-error @+1 {{ping_pong is for 2 to 4 consumers, not 1}}
func.func private @pipeline() attributes {p = #warp.pipeline<consumers = 1, stages = 2, producer_registers = 24, consumer_registers = 104, ping_pong = true>}

// -----

func.func @map(%x: !warp.fragment<64, f32>, %y: !warp.fragment<128, f32>) {
  // expected-error @+1 {{has fragments of 64 and of 128 columns}}
  %0 = warp.map(%x, %y) {
  ^bb0(%a: f32, %b: f32, %row: i32, %column: i32):
    warp.yield %a : f32
  } : (!warp.fragment<64, f32>, !warp.fragment<128, f32>) -> !warp.fragment<64, f32>
  return
}

// -----

func.func @narrow(%x: !warp.fragment<64, f32>) {
  // expected-error @+1 {{has a result of one column from operands of more; use warp.reduce}}
  %0 = warp.map(%x) {
  ^bb0(%a: f32, %row: i32, %column: i32):
    warp.yield %a : f32
  } : (!warp.fragment<64, f32>) -> !warp.fragment<1, f32>
  return
}

// -----

func.func @region(%x: !warp.fragment<64, f32>) {
  // expected-error @+1 {{has a region whose arguments are not an element of each operand, then the row and the column (i32)}}
  %0 = warp.map(%x) {
  ^bb0(%a: f32):
    warp.yield %a : f32
  } : (!warp.fragment<64, f32>) -> !warp.fragment<64, f32>
  return
}

// -----

func.func @depth(%p: !warp.fragment<64, bf16>, %v: !warp.tile<96, 128, bf16>) {
  // expected-error @+1 {{takes rows 64 to 128 of 96; the first is a multiple of 16}}
  %0 = warp.multiply %p, %v from 64 : !warp.fragment<64, bf16>, !warp.tile<96, 128, bf16> -> !warp.flying<128, held = 16>
  return
}

// -----

func.func @held(%p: !warp.fragment<64, bf16>, %v: !warp.tile<64, 128, bf16>) {
  // expected-error @+1 {{gives '!warp.flying<128, held = 16>', not '!warp.flying<128, held = 0>'}}
  %0 = warp.multiply %p, %v : !warp.fragment<64, bf16>, !warp.tile<64, 128, bf16> -> !warp.flying<128, held = 0>
  return
}

// -----

func.func @left(%q: !warp.tile<96, 128, bf16>, %k: !warp.tile<64, 128, bf16>) {
  %from = arith.constant 64 : i32
  // expected-error @+1 {{takes rows 64 to 128 of 96 on the left; the first is a multiple of 8}}
  %0 = warp.multiply %q from %from, %k transposed : !warp.tile<96, 128, bf16>, !warp.tile<64, 128, bf16> -> !warp.flying<64, held = 0>
  return
}

// -----

func.func @left_fragment(%p: !warp.fragment<64, bf16>, %v: !warp.tile<64, 128, bf16>, %from: i32) {
  // expected-error @+1 {{takes rows from another than the first one on of a left fragment, which has 64}}
  %0 = warp.multiply %p from %from, %v : !warp.fragment<64, bf16>, !warp.tile<64, 128, bf16> -> !warp.flying<128, held = 16>
  return
}

// -----

func.func @one_column(%list: !llvm.ptr<1>, %n: i32, %fill: f32) {
  // expected-error @+1 {{has a result of one column; use warp.read}}
  %0 = warp.read_columns %list[%n] limit(%n) fill(%fill) : !llvm.ptr<1>, !warp.fragment<1, f32>
  return
}

// -----

func.func @gathered(%keys: !llvm.ptr<1>, %zero: i32, %stride: i64, %rows: !warp.rows<64>) {
  // expected-error @+1 {{gathers 64 rows for a tile of 128}}
  %k = warp.load %keys[%zero] rows(%rows : !warp.rows<64>) stride(%stride) limit(%zero) : !llvm.ptr<1>, !warp.tile<128, 128, bf16>
  return
}

// -----

// expected-error @+1 {{2 blocks can't share panels of 64 columns, 64 each, in equal parts}}
func.func private @panels(!warp.ring<2, !warp.tile<128, 64, bf16>, cluster = 2>)

// -----

func.func @who(%ring: !warp.ring<2, !warp.tile<128, 128, bf16>, cluster = 1>, %t: i32) {
  // expected-error @+1 {{copies a tile that is fetched}}
  %k = warp.acquire %ring[%t] : !warp.ring<2, !warp.tile<128, 128, bf16>, cluster = 1> -> !warp.tile<128, 128, bf16>
  return
}

// -----

func.func @whom(%ring: !warp.ring<2, !warp.tile<128, 128, bf16>>, %map: !llvm.ptr<1>, %t: i32) {
  // expected-error @+1 {{fetches a tile that threads copy}}
  warp.fetch %ring[%t] from %map[%t, %t] : !warp.ring<2, !warp.tile<128, 128, bf16>>, !llvm.ptr<1>
  return
}

// -----

func.func @gathered_map(%keys: !llvm.ptr<1>, %zero: i32, %stride: i64, %rows: !warp.rows<128>) {
  // expected-error @+1 {{can't gather rows by a tensor map}}
  %k = warp.load %keys[%zero] rows(%rows : !warp.rows<128>) stride(%stride) limit(%zero) map(%keys[%zero] : !llvm.ptr<1>) : !llvm.ptr<1>, !warp.tile<128, 128, bf16>
  return
}

// -----

func.func @no_indices(%list: !llvm.ptr<1>, %some: !warp.fragment<64, f32>) {
  // expected-error @+1 {{has indices that are not i32}}
  %0 = warp.read %list[%some] of i16 : !llvm.ptr<1>, !warp.fragment<64, f32>
  return
}

// -----

func.func @no_column(%list: !llvm.ptr<1>, %n: i32, %some: !warp.fragment<64, i32>) {
  // expected-error @+1 {{has bounds of more than one column}}
  %0 = warp.count_below %list count(%n) %some : !llvm.ptr<1>, !warp.fragment<64, i32>
  return
}

// -----

func.func @other_tile(%keys: !llvm.ptr<1>, %zero: i32) {
  // expected-error @+1 {{a fragment's elements are f32, i32 or i1, or bf16 or f16 in more than 1 column, not 'i8'}}
  %0 = warp.read %keys[%zero] of i16 : !llvm.ptr<1>, !warp.fragment<64, i8>
  return
}

// -----

func.func @batch_without_stride(%queries: !llvm.ptr<1>, %zero: i32, %stride: i64) {
  // expected-error @+1 {{has a batch without its stride and one of 'of N' and 'in_turns', which say how rows are divided among matrices, or has these without a batch}}
  %q = warp.load %queries[%zero] stride(%stride) limit(%zero) {batch_rows = 32 : i64} : !llvm.ptr<1>, !warp.tile<64, 128, bf16>
  return
}

// -----

func.func @batch_undivided(%queries: !llvm.ptr<1>, %zero: i32, %stride: i64) {
  // expected-error @+1 {{has a batch without its stride and one of 'of N' and 'in_turns'}}
  %q = warp.load %queries[%zero] stride(%stride) limit(%zero) batch(%zero, %stride) : !llvm.ptr<1>, !warp.tile<64, 128, bf16>
  return
}

// -----

func.func @batch_divided_twice(%output: !llvm.ptr<1>, %rows: !warp.fragment<128, bf16>, %zero: i32, %stride: i64) {
  // expected-error @+1 {{has a batch without its stride and one of 'of N' and 'in_turns'}}
  warp.store %rows, %output[%zero] stride(%stride) limit(%zero) batch(%zero, %stride) of 32 in_turns : !warp.fragment<128, bf16>, !llvm.ptr<1>
  return
}

// -----

func.func @turns_alone(%output: !llvm.ptr<1>, %sums: !warp.fragment<1, f32>, %zero: i32) {
  // expected-error @+1 {{or has these without a batch}}
  warp.store_column %sums, %output[%zero] limit(%zero) in_turns : !warp.fragment<1, f32>, !llvm.ptr<1>
  return
}

// -----

func.func @batch_of_48(%queries: !llvm.ptr<1>, %zero: i32, %stride: i64) {
  // expected-error @+1 {{has matrices of 48 rows in its batch; they have 16, 32 or 64}}
  %q = warp.load %queries[%zero] stride(%stride) limit(%zero) batch(%zero, %stride) of 48 : !llvm.ptr<1>, !warp.tile<64, 128, bf16>
  return
}

// -----

func.func @batch_of_gathered(%keys: !llvm.ptr<1>, %rows: !warp.rows<64>, %zero: i32, %stride: i64) {
  // expected-error @+1 {{can't gather rows of a batch, nor bring them by a tensor map}}
  %k = warp.load %keys[%zero] rows(%rows : !warp.rows<64>) stride(%stride) limit(%zero) batch(%zero, %stride) of 32 : !llvm.ptr<1>, !warp.tile<64, 128, bf16>
  return
}

// -----

func.func @batch_of_8(%output: !llvm.ptr<1>, %rows: !warp.fragment<128, bf16>, %zero: i32, %stride: i64) {
  // expected-error @+1 {{has matrices of 8 rows in its batch}}
  warp.store %rows, %output[%zero] stride(%stride) limit(%zero) batch(%zero, %stride) of 8 : !warp.fragment<128, bf16>, !llvm.ptr<1>
  return
}

// -----

func.func @columns_of_a_batch(%output: !llvm.ptr<1>, %sums: !warp.fragment<1, f32>, %zero: i32, %stride: i64) {
  // expected-error @+1 {{has matrices of 128 rows in its batch}}
  warp.store_column %sums, %output[%zero] limit(%zero) batch(%zero, %stride) of 128 : !warp.fragment<1, f32>, !llvm.ptr<1>
  return
}

// -----

func.func @resumes_what_flies(%flying: !warp.flying<128, held = 16>, %sums: !warp.fragment<128, f32>) {
  // expected-error @+1 {{puts other sums in place of those of products that may be on their way; put a warp.wait for these products before it, in its block or one around it}}
  %0 = warp.resume %flying with %sums : !warp.flying<128, held = 16>, !warp.fragment<128, f32>
  %1 = warp.wait %flying : !warp.flying<128, held = 16> -> !warp.fragment<128, f32>
  return
}

// -----

func.func @waits_for_others(%flying: !warp.flying<128, held = 16>, %others: !warp.flying<128, held = 16>, %some: i1) {
  %sums = warp.wait %others : !warp.flying<128, held = 16> -> !warp.fragment<128, f32>
  scf.if %some {
    %0 = warp.wait %flying : !warp.flying<128, held = 16> -> !warp.fragment<128, f32>
  } else {
    // expected-error @+1 {{puts other sums in place of those of products that may be on their way}}
    %0 = warp.resume %flying with %sums : !warp.flying<128, held = 16>, !warp.fragment<128, f32>
  }
  return
}

// -----

func.func @resumes_wider(%flying: !warp.flying<128, held = 16>, %sums: !warp.fragment<64, f32>) {
  // expected-error @+1 {{changes the number of columns}}
  %0 = warp.resume %flying with %sums : !warp.flying<128, held = 16>, !warp.fragment<64, f32>
  return
}

// -----

func.func @larger(%ring: !warp.ring<2, !warp.tile<64, 128, bf16>>, %t: i32) {
  // expected-error @+1 {{gives '!warp.tile<128, 128, bf16>' from a ring of '!warp.tile<64, 128, bf16>'}}
  %k = warp.await %ring[%t] : !warp.ring<2, !warp.tile<64, 128, bf16>> -> !warp.tile<128, 128, bf16>
  return
}

// -----

func.func @narrower(%ring: !warp.ring<2, !warp.tile<64, 128, bf16>>, %t: i32) {
  // expected-error @+1 {{gives '!warp.tile<64, 64, bf16>' from a ring of '!warp.tile<64, 128, bf16>'}}
  %k = warp.acquire %ring[%t] : !warp.ring<2, !warp.tile<64, 128, bf16>> -> !warp.tile<64, 64, bf16>
  return
}

// -----

// A fetch brings whole tiles; what threads copy may have fewer rows.
func.func @fetched(%ring: !warp.ring<2, !warp.tile<128, 128, bf16>, cluster = 1>, %copied: !warp.ring<2, !warp.tile<128, 128, bf16>>, %t: i32) {
  %v = warp.await %copied[%t] : !warp.ring<2, !warp.tile<128, 128, bf16>> -> !warp.tile<64, 128, bf16>
  // expected-error @+1 {{gives '!warp.tile<64, 128, bf16>' from a ring of '!warp.tile<128, 128, bf16>'}}
  %k = warp.await %ring[%t] : !warp.ring<2, !warp.tile<128, 128, bf16>, cluster = 1> -> !warp.tile<64, 128, bf16>
  return
}
