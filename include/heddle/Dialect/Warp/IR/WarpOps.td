//===- WarpOps.td - Operations of the warp dialect --------*- tablegen -*--===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_DIALECT_WARP_IR_WARPOPS_TD
#define HEDDLE_DIALECT_WARP_IR_WARPOPS_TD

include "heddle/Dialect/Warp/IR/WarpBase.td"
include "mlir/Dialect/LLVMIR/LLVMTypes.td"
include "mlir/Interfaces/ControlFlowInterfaces.td"
include "mlir/Interfaces/InferTypeOpInterface.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

class Warp_Op<string mnemonic, list<Trait> traits = []>
    : Op<Warp_Dialect, mnemonic, traits>;

//===----------------------------------------------------------------------===//
// Fragments
//===----------------------------------------------------------------------===//

def Warp_SplatOp : Warp_Op<"splat", [Pure]> {
  let summary = "a fragment whose elements are all the same";
  let arguments = (ins F32:$value);
  let results = (outs Warp_Float32Fragment:$result);
  let assemblyFormat = "$value attr-dict `:` type($result)";
}

def Warp_MapOp : Warp_Op<"map", [Pure, SingleBlock]> {
  let summary = "computes each element from those at its place";
  let description = [{
    The region gets an element of each operand, then the element's row (0 to 63,
    of the warpgroup's) and column, both i32, and yields an element of each
    result. It holds ops of `arith` and `math`, once for all elements. All
    fragments have as many columns, but an operand with one column gives the
    value of the row.

    ```mlir
    %shifted = warp.map(%logits, %maximum) {
    ^bb0(%logit: f32, %most: f32, %row: i32, %column: i32):
      %0 = arith.subf %logit, %most : f32
      warp.yield %0 : f32
    } : (!warp.fragment<128, f32>, !warp.fragment<1, f32>) -> !warp.fragment<128, f32>
    ```
  }];
  let arguments = (ins Variadic<Warp_FragmentType>:$inputs);
  let results = (outs Variadic<Warp_FragmentType>:$results);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat =
      "`(` $inputs `)` $body attr-dict `:` functional-type($inputs, results)";
  let hasVerifier = 1;
  let hasRegionVerifier = 1;
}

def Warp_YieldOp : Warp_Op<"yield", [
    Pure, Terminator, ReturnLike, HasParent<"MapOp">]> {
  let summary = "the elements of a map's results";
  let arguments = (ins Variadic<AnyType>:$values);
  let assemblyFormat = "($values^ `:` type($values))? attr-dict";
}

def Warp_SliceOp : Warp_Op<"slice", [Pure]> {
  let summary = "some columns of a fragment";
  let arguments = (ins Warp_FragmentType:$source, I64Attr:$from);
  let results = (outs Warp_FragmentType:$result);
  let assemblyFormat =
      "$source `from` $from attr-dict `:` type($source) `->` type($result)";
  let hasVerifier = 1;
}

def Warp_ReduceOp : Warp_Op<"reduce", [Pure]> {
  let summary = "combines the columns that each thread holds of a row";
  let description = [{
    Each of a row's four lanes gets its part, with `init` combined into it where
    given; `warp.combine` makes the row's value of the parts.
  }];
  let arguments = (ins Warp_Combine:$kind, Warp_Float32Fragment:$source,
                       Optional<Warp_Float32Fragment>:$init);
  let results = (outs Warp_Float32Fragment:$result);
  let assemblyFormat = [{
    $kind $source (`into` $init^ `:` type($init))? attr-dict `:` type($source)
    `->` type($result)
  }];
  let hasVerifier = 1;
}

def Warp_CombineOp : Warp_Op<"combine", [Pure, SameOperandsAndResultType]> {
  let summary = "combines what the four lanes of each row hold";
  let arguments = (ins Warp_Combine:$kind, Warp_Float32Fragment:$source);
  let results = (outs Warp_Float32Fragment:$result);
  let assemblyFormat = "$kind $source attr-dict `:` type($source)";
  let hasVerifier = 1;
}

def Warp_AnyOp : Warp_Op<"any"> {
  let summary = "whether an element of this warp's rows is true";
  let description = [{
    Of all rows of the warpgroup with `warpgroup`, whose warps then meet: what they
    do together (products, and waits for them) stands in no branch by what one warp
    alone has found.
  }];
  let arguments = (ins Warp_FragmentType:$source, UnitAttr:$warpgroup);
  let results = (outs I1:$result);
  let assemblyFormat = "$source (`of` `warpgroup` $warpgroup^)? attr-dict `:` type($source)";
  let hasVerifier = 1;
}

def Warp_RoundOp : Warp_Op<"round", [Pure]> {
  let summary = "rounds to 16-bit elements, to nearest even";
  let arguments = (ins Warp_Float32Fragment:$source);
  let results = (outs Warp_PackedFragment:$result);
  let assemblyFormat = "$source attr-dict `:` type($source) `->` type($result)";
  let hasVerifier = 1;
}

//===----------------------------------------------------------------------===//
// Products
//===----------------------------------------------------------------------===//

def Warp_MultiplyOp : Warp_Op<"multiply", [AttrSizedOperandSegments]> {
  let summary = "starts the product of 64 rows and a tile";
  let description = [{
    result = sums + left . right, or left . right^T with `transposed`, in f32.
    `left` is a fragment or a tile, of which the 64 rows from `left_from` on are
    taken, a multiple of 8 and 0 without it. Of a tile on the right that is not
    transposed the rows from `from` on are taken, as many as `left` has columns.
    The product runs on its own; what it reads stays as it is until `warp.wait`.
    `sums` may be a fragment or products that are still on their way.
  }];
  let arguments = (ins AnyTypeOf<[Warp_TileType, Warp_FragmentType]>:$left,
                       Warp_TileType:$right,
                       Optional<AnyTypeOf<[Warp_Float32Fragment, Warp_FlyingType]>>:$sums,
                       Optional<I32>:$left_from,
                       UnitAttr:$transposed,
                       DefaultValuedAttr<I64Attr, "0">:$from);
  let results = (outs Warp_FlyingType:$result);
  let assemblyFormat = [{
    $left (`from` $left_from^)? `,` $right (`transposed` $transposed^)? (`from` $from^)?
    (`plus` $sums^ `:` type($sums))? attr-dict `:` type($left) `,` type($right)
    `->` type($result)
  }];
  let hasVerifier = 1;
}

def Warp_WaitOp : Warp_Op<"wait"> {
  let summary = "waits for all products of this warpgroup that were started";
  let arguments = (ins Warp_FlyingType:$flying);
  let results = (outs Warp_Float32Fragment:$result);
  let assemblyFormat = "$flying attr-dict `:` type($flying) `->` type($result)";
  let hasVerifier = 1;
}

def Warp_ResumeOp : Warp_Op<"resume", [
    Pure, AllTypesMatch<["flying", "result"]>]> {
  let summary = "products that were waited for, with other sums";
  let description = [{
    Where one branch had to wait for products and has changed their sums, and the
    other has not, both give products that may still be on their way.
  }];
  let arguments = (ins Warp_FlyingType:$flying, Warp_Float32Fragment:$sums);
  let results = (outs Warp_FlyingType:$result);
  let assemblyFormat =
      "$flying `with` $sums attr-dict `:` type($flying) `,` type($sums)";
  let hasVerifier = 1;
}

//===----------------------------------------------------------------------===//
// Global memory
//===----------------------------------------------------------------------===//

class Warp_RowsOp<string mnemonic, dag more, list<Trait> traits = []>
    : Warp_Op<mnemonic, traits> {
  let arguments = !con((ins LLVM_AnyPointer:$base, I32:$first, I64:$stride,
                            I32:$limit), more);
}

/// Where the 64 rows are of several matrices of a batch: so many of each, or
/// one of each in turn.
defvar Warp_batch = (ins Optional<I32>:$batch, Optional<I64>:$batch_stride,
                         OptionalAttr<I64Attr>:$batch_rows, UnitAttr:$in_turns);

def Warp_ActiveOp : Warp_Op<"active"> {
  let summary = "how many of the warpgroups that compute have work";
  let description = [{
    The first `count` of them, at least 1; the others do nothing.
  }];
  let arguments = (ins I32:$count);
  let assemblyFormat = "$count attr-dict";
}

def Warp_IdleOp : Warp_Op<"idle"> {
  let summary = "whether this warpgroup leaves out a turn's tiles";
  let description = [{
    In a loop of turns, in front of its loops over tiles: where `whether` holds
    the warpgroup computes none of their tiles, so these loops give what they
    begin with. Its block goes on as before: it waits for each tile and releases
    it like the others.
  }];
  let arguments = (ins I1:$whether);
  let assemblyFormat = "$whether attr-dict";
}

def Warp_WarpgroupOp : Warp_Op<"warpgroup", [Pure]> {
  let summary = "this warpgroup's number among those that compute";
  let results = (outs I32:$result);
  let assemblyFormat = "attr-dict";
}

def Warp_ReadRowsOp : Warp_Op<"read_rows", [MemoryEffects<[MemRead]>]> {
  let summary = "reads which rows a tile has from a list";
  let description = [{
    Row i of the tile is number `list`[min(first + i, count - 1)]: behind the end
    of the list its last one again, since something must be brought. Numbers are
    of `element`, i16 (without sign) or i32; `count` is at least 1.

    ```mlir
    %rows = warp.read_rows %list[%first] count(%kept) of i16 : !llvm.ptr<1>, !warp.rows<128>
    %k = warp.load %keys[%zero] rows(%rows : !warp.rows<128>) stride(%s) limit(%n) : ...
    ```
  }];
  let arguments = (ins LLVM_AnyPointer:$list, I32:$first, I32:$count,
                       TypeAttrOf<AnyTypeOf<[I16, I32]>>:$element);
  let results = (outs Warp_RowsType:$result);
  let assemblyFormat = [{
    $list `[` $first `]` `count` `(` $count `)` `of` $element attr-dict `:`
    type($list) `,` type($result)
  }];
}

def Warp_ReadOp : Warp_Op<"read", [
    MemoryEffects<[MemRead]>, AllTypesMatch<["indices", "result"]>]> {
  let summary = "reads the number at each index of a list";
  let description = [{
    Each element of the result is `list`[the index at its place]. Numbers are of
    `element`, i16 (without sign) or i32.

    ```mlir
    %positions = warp.read %list[%places] of i32 : !llvm.ptr<1>, !warp.fragment<1, i32>
    ```
  }];
  let arguments = (ins LLVM_AnyPointer:$list, Warp_FragmentType:$indices,
                       TypeAttrOf<AnyTypeOf<[I16, I32]>>:$element);
  let results = (outs Warp_FragmentType:$result);
  let assemblyFormat = [{
    $list `[` $indices `]` `of` $element attr-dict `:` type($list) `,`
    type($indices)
  }];
  let hasVerifier = 1;
}

def Warp_ReadColumnsOp : Warp_Op<"read_columns", [MemoryEffects<[MemRead]>]> {
  let summary = "reads a number for each column, the same in all rows";
  let description = [{
    Element (i, j) of the result is `base`[first + j], or `fill` where first + j
    is `limit`, at least 1, or more. A thread holds a register for each of its
    columns.

    ```mlir
    %lse = warp.read_columns %sums[%row] limit(%n) fill(%most) : !llvm.ptr<1>, !warp.fragment<128, f32>
    ```
  }];
  let arguments = (ins LLVM_AnyPointer:$base, I32:$first, I32:$limit,
                       F32:$fill);
  let results = (outs Warp_Float32Fragment:$result);
  let assemblyFormat = [{
    $base `[` $first `]` `limit` `(` $limit `)` `fill` `(` $fill `)` attr-dict
    `:` type($base) `,` type($result)
  }];
  let hasVerifier = 1;
}

def Warp_CountBelowOp : Warp_Op<"count_below", [
    MemoryEffects<[MemRead]>, AllTypesMatch<["bounds", "result"]>]> {
  let summary = "how many numbers of an ascending list are below each bound";
  let description = [{
    The `count` numbers at `list` are i32 and ascend; they and the bounds, one a
    row, are 0 or more.
  }];
  let arguments = (ins LLVM_AnyPointer:$list, I32:$count,
                       Warp_FragmentType:$bounds);
  let results = (outs Warp_FragmentType:$result);
  let assemblyFormat = [{
    $list `count` `(` $count `)` $bounds attr-dict `:` type($list) `,`
    type($bounds)
  }];
  let hasVerifier = 1;
}

def Warp_LoadOp : Warp_RowsOp<
    "load", !con((ins Optional<Warp_RowsType>:$rows,
                      Optional<LLVM_AnyPointer>:$map, Optional<I32>:$column,
                      OptionalAttr<I64Attr>:$offset), Warp_batch),
    [AttrSizedOperandSegments]> {
  let summary = "brings rows to a tile and waits for them";
  let description = [{
    Row i of the tile is row first + i of the matrix at `base`, whose rows are
    `stride` bytes apart; zero from row `limit` on. With `rows` it is row first +
    rows[i] instead, all of them below the limit. `offset`: where the tile lies in
    shared memory; a warpgroup that computes has its own, one after the other.

    With `batch` row i of the tile is row first + i % b of matrix i / b of a
    batch, b being `batch_rows`: the matrices begin `batch_stride` bytes apart,
    the first one at `base`. Rows of matrices from number `batch` on are zero.
    With `in_turns` matrices take turns instead: row i is row p / `batch` of
    matrix p % `batch`, p being first + i, and `limit` is one of p.

    ```mlir
    %q = warp.load %queries[%first] batch(%heads, %bytes) of 32 stride(%s) limit(%n) : ...
    %p = warp.load %queries[%first] batch(%heads, %bytes) in_turns stride(%s) limit(%all) : ...
    ```

    With `map` the same rows are also columns from `column` on of the matrix that
    a tensor map tells of, whose boxes are 64 columns of as many rows as the tile
    has; the matrix ends at row `limit` or later. A ring of such tiles is filled
    in bulk.
  }];
  let results = (outs Warp_TileType:$result);
  let assemblyFormat = [{
    $base `[` $first `]` (`rows` `(` $rows^ `:` type($rows) `)`)?
    `stride` `(` $stride `)` `limit` `(` $limit `)`
    (`batch` `(` $batch^ `,` $batch_stride `)`)? (`of` $batch_rows^)?
    (`in_turns` $in_turns^)?
    (`map` `(` $map^ `[` $column `]` `:` type($map) `)`)?
    attr-dict `:` type($base) `,` type($result)
  }];
  let hasVerifier = 1;
}

def Warp_NegateOp : Warp_Op<"negate"> {
  let summary = "flips the signs of this warpgroup's rows of a tile";
  let description = [{
    Of the 64 rows from `from` on (0 without it), where `condition`, the same in
    all threads, holds. No other warpgroup reads these rows.
  }];
  let arguments = (ins Warp_TileType:$tile, Optional<I32>:$from, I1:$condition);
  let assemblyFormat = [{
    $tile (`from` $from^)? `if` $condition attr-dict `:` type($tile)
  }];
}

def Warp_StoreOp : Warp_RowsOp<
    "store", !con((ins Warp_PackedFragment:$source), Warp_batch),
    [AttrSizedOperandSegments]> {
  let summary = "stores the rows of a fragment, none from row `limit` on";
  let description = [{
    With `batch` to several matrices, as `warp.load` has them.
  }];
  let assemblyFormat = [{
    $source `,` $base `[` $first `]` `stride` `(` $stride `)` `limit` `(` $limit `)`
    (`batch` `(` $batch^ `,` $batch_stride `)`)? (`of` $batch_rows^)?
    (`in_turns` $in_turns^)?
    attr-dict `:` type($source) `,` type($base)
  }];
  let hasVerifier = 1;
}

def Warp_StoreColumnOp : Warp_Op<"store_column", [AttrSizedOperandSegments]> {
  let summary = "stores a column, an element a row, none from row `limit` on";
  let description = [{
    Where `added` holds it adds to what is there. With `batch` to columns of
    several matrices, as `warp.load` has them.
  }];
  let arguments = !con((ins Warp_Float32Fragment:$source,
                            LLVM_AnyPointer:$base, I32:$first, I32:$limit,
                            Optional<I1>:$added), Warp_batch);
  let assemblyFormat = [{
    $source `,` $base `[` $first `]` `limit` `(` $limit `)`
    (`added` `(` $added^ `)`)?
    (`batch` `(` $batch^ `,` $batch_stride `)`)? (`of` $batch_rows^)?
    (`in_turns` $in_turns^)?
    attr-dict `:` type($source) `,` type($base)
  }];
  let hasVerifier = 1;
}

//===----------------------------------------------------------------------===//
// Pipelines
//===----------------------------------------------------------------------===//

def Warp_MeetOp : Warp_Op<"meet"> {
  let summary = "waits for the threads of all warpgroups that compute";
  let description = [{
    What they wrote before it, they all see after it.
  }];
  let assemblyFormat = "attr-dict";
}

class Warp_OrderOp<string mnemonic> : Warp_Op<mnemonic> {
  let assemblyFormat = "attr-dict";
}

def Warp_OrderBeginOp : Warp_OrderOp<"order_begin"> {
  let summary = "begins an order of the warpgroups that compute";
  let description = [{
    Behind it they come one after the other, the first one first: between
    `warp.order_wait` and `warp.order_arrive` there is one of them at a time, and
    each comes again when all others were there. So one has its products run
    while another computes exponentials (ping-pong).

    ```mlir
    warp.order_begin
    scf.for ... {
      %k = warp.await ...
      warp.order_wait
      %f = warp.multiply %q, %k ...
      warp.order_arrive
      %s = warp.wait %f ...
    }
    warp.order_end
    ```
  }];
}

def Warp_OrderWaitOp : Warp_OrderOp<"order_wait"> {
  let summary = "waits until this warpgroup is next in the order";
}

def Warp_OrderArriveOp : Warp_OrderOp<"order_arrive"> {
  let summary = "lets the next warpgroup of the order go on";
}

def Warp_OrderEndOp : Warp_OrderOp<"order_end"> {
  let summary = "ends the order, once the first warpgroup would be next";
}

def Warp_SpaceOp : Warp_Op<"space"> {
  let summary = "shared memory that the warpgroups which compute use as they like";
  let description = [{
    Its address, of `bytes` bytes for all of them together; `offset`: where it
    lies in shared memory. `over_tiles`: where tiles lay, none of which is needed
    any more; it waits for the threads that read them.
  }];
  let arguments = (ins I64Attr:$bytes, UnitAttr:$over_tiles,
                       OptionalAttr<I64Attr>:$offset);
  let results = (outs I32:$result);
  let assemblyFormat = "$bytes (`over_tiles` $over_tiles^)? attr-dict";
}

def Warp_PutOp : Warp_Op<"put"> {
  let summary = "writes a warpgroup's fragment to shared memory";
  let description = [{
    To `at`, as many bytes as its elements take. `warp.get` reads it again, in this
    block or another one of the cluster; how it lies there is known to no one else.

    ```mlir
    %space = warp.space 33792 over_tiles
    warp.put %sums, %space : !warp.fragment<128, f32>
    warp.meet_cluster
    %other = warp.get %space of %block from %column : !warp.fragment<32, f32>
    warp.meet_cluster
    ```
  }];
  let arguments = (ins Warp_Float32Fragment:$source, I32:$at);
  let assemblyFormat = "$source `,` $at attr-dict `:` type($source)";
}

def Warp_GetOp : Warp_Op<"get"> {
  let summary = "reads columns of what this warpgroup's counterpart has put";
  let description = [{
    The columns from `column`, a multiple of 8, on of the fragment that block
    number `block` of the cluster put at `at`.
  }];
  let arguments = (ins I32:$at, I32:$block, I32:$column);
  let results = (outs Warp_Float32Fragment:$result);
  let assemblyFormat = [{
    $at `of` $block `from` $column attr-dict `:` type($result)
  }];
}

def Warp_MeetClusterOp : Warp_Op<"meet_cluster"> {
  let summary = "waits for the threads that compute of all blocks of the cluster";
  let description = [{
    What they wrote before it, they all see after it. Threads that have ended, as
    producers have, are not waited for. A block whose memory others read meets
    them again before it ends.
  }];
  let assemblyFormat = "attr-dict";
}

def Warp_RolesOp : Warp_Op<"roles", [NoTerminator]> {
  let summary = "divides a block's warpgroups by what they do";
  let description = [{
    The first warpgroup fills rings; the `consumers` others read them, each with
    its number among them in the region's argument. All have the registers given
    for their role. With `active` only the first so many of them, at least 1,
    run the region. `cluster`: 0 where all threads of the first warpgroup copy
    tiles; else one of them fetches tiles in bulk, for so many blocks.
    `ping_pong`: the consumers' products are to be put in order (`warp-ping-pong`).
  }];
  let arguments = (ins Optional<I32>:$active, I64Attr:$consumers,
                       I64Attr:$producer_registers,
                       I64Attr:$consumer_registers,
                       DefaultValuedAttr<I64Attr, "0">:$cluster,
                       UnitAttr:$ping_pong);
  let regions = (region SizedRegion<1>:$producer, SizedRegion<1>:$consumer);
  let assemblyFormat = [{
    `producer` `registers` $producer_registers $producer
    `consumers` $consumers (`ping_pong` $ping_pong^)? (`active` `(` $active^ `)`)?
    `registers` $consumer_registers $consumer attr-dict
  }];
  let hasRegionVerifier = 1;
}

def Warp_RingOp : Warp_Op<"ring"> {
  let summary = "makes a ring, whose stages are all empty";
  let description = [{
    `offset`: of the tiles in shared memory, in bytes; `barriers`: of its barriers.
    `writers` threads publish each stage, `readers` warps release it, of all
    blocks that share it; with `active` only those of so many warpgroups.
    `loads`: so many loads of a loop have their tiles in it, in turns: of two, the
    tiles of turn t are number 2 t and 2 t + 1.
  }];
  let arguments = (ins Optional<I32>:$active, I64Attr:$offset,
                       I64Attr:$barriers, I64Attr:$writers, I64Attr:$readers,
                       DefaultValuedAttr<I64Attr, "1">:$loads);
  let results = (outs Warp_RingType:$result);
  let assemblyFormat =
      "(`active` `(` $active^ `)`)? attr-dict `:` type($result)";
}

class Warp_StageOp<string mnemonic, dag outputs = (outs)> : Warp_Op<mnemonic> {
  let arguments = (ins Warp_RingType:$ring, I32:$tile);
  let results = outputs;
  let assemblyFormat = "$ring `[` $tile `]` attr-dict `:` type($ring)"
      # !if(!empty(outputs), "", " `->` type($result)");
}

def Warp_AcquireOp : Warp_StageOp<"acquire", (outs Warp_TileType:$result)> {
  let summary = "waits until the stage of tile number `tile` is empty";
  let description = [{
    The tile may have fewer rows than those of the ring, from its stage's first
    byte on; what reads it then is of the same type.
  }];
  let hasVerifier = 1;
}

def Warp_CopyOp : Warp_RowsOp<"copy", (ins Optional<Warp_RowsType>:$rows,
                                           Warp_TileType:$into)> {
  let summary = "starts to copy rows to a tile, as `warp.load` would";
  let assemblyFormat = [{
    $base `[` $first `]` (`rows` `(` $rows^ `:` type($rows) `)`)?
    `stride` `(` $stride `)` `limit` `(` $limit `)`
    `into` $into attr-dict `:` type($base) `,` type($into)
  }];
  let hasVerifier = 1;
}

def Warp_PublishOp : Warp_StageOp<"publish"> {
  let summary = "the stage is full as soon as this thread's copies have landed";
  let hasVerifier = 1;
}

def Warp_AcquireMapOp : Warp_Op<"acquire_map"> {
  let summary = "makes a tensor map that the host wrote known to this thread's fetches";
  let arguments = (ins LLVM_AnyPointer:$map);
  let assemblyFormat = "$map attr-dict `:` type($map)";
}

def Warp_FetchOp : Warp_Op<"fetch"> {
  let summary = "has a tile brought in bulk, once its stage is empty";
  let description = [{
    Waits until the stage of tile number `tile` is empty and has the tile brought
    whose first element is (`row`, `column`) of the matrix that the tensor map
    tells of; what lies behind the matrix's last row is zero. The stage is full
    when all of it is there. Blocks that share a ring bring a part each, to all
    of them.
  }];
  let arguments = (ins Warp_RingType:$ring, I32:$tile, LLVM_AnyPointer:$map,
                       I32:$row, I32:$column);
  let assemblyFormat = [{
    $ring `[` $tile `]` `from` $map `[` $row `,` $column `]` attr-dict `:`
    type($ring) `,` type($map)
  }];
  let hasVerifier = 1;
}

def Warp_DrainOp : Warp_StageOp<"drain"> {
  let summary = "waits until all stages are empty again, before tile number `tile`";
  let description = [{
    After the last tile, number `tile` - 1. Blocks that share a ring end no sooner:
    the others' consumers release its stages, too.
  }];
  let hasVerifier = 1;
}

def Warp_AwaitOp : Warp_StageOp<"await", (outs Warp_TileType:$result)> {
  let summary = "waits until the stage of tile number `tile` is full";
  let description = [{
    A tile that threads copied may have fewer rows than those of the ring.
  }];
  let hasVerifier = 1;
}

def Warp_ReleaseOp : Warp_StageOp<"release"> {
  let summary = "this warp reads the stage no more";
}

#endif // HEDDLE_DIALECT_WARP_IR_WARPOPS_TD
