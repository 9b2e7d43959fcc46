//===- WarpBase.td - The warp dialect ---------------------*- tablegen -*--===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_DIALECT_WARP_IR_WARPBASE_TD
#define HEDDLE_DIALECT_WARP_IR_WARPBASE_TD

include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/EnumAttr.td"
include "mlir/IR/OpBase.td"

def Warp_Dialect : Dialect {
  let name = "warp";
  let cppNamespace = "::mlir::warp";
  let summary = "What a block of threads does, warpgroup by warpgroup";
  let description = [{
    Below `shed`, above `nvvm`. A warpgroup is four warps, 128 threads. It holds
    fragments of matrices in registers, reads tiles in shared memory and
    multiplies both by asynchronous products; tiles are brought by asynchronous
    copies. These ops stand in a kernel function among those of `arith`, `scf`
    and `llvm`.

    First a kernel says what is computed, with one stream of control: it loads a
    tile where it needs it.

    ```mlir
    scf.for %t = %zero to %tiles step %one {
      %k = warp.load %keys[%first] stride(%s) limit(%n) : !llvm.ptr<1>, !warp.tile<128, 128, bf16>
      %f = warp.multiply %q, %k transposed : ...
      %logits = warp.wait %f : ...
    }
    ```

    `warp-specialize-roles` then makes a pipeline of it, as the function's
    `#warp.pipeline` says: some warps only bring tiles, through rings of a few
    stages, and others only compute. A ring keeps a full and an empty barrier a
    stage. A tile number tells the stage and, counted from 0 on both sides, the
    phase of its barriers, so sides that count alike cannot get out of phase.

    ```mlir
    %ring = warp.ring {offset = 49152, barriers = 180224} : !warp.ring<2, !warp.tile<128, 128, bf16>>
    warp.roles producer registers 32 {
      scf.for %t = %zero to %tiles step %one : i32 {
        %k = warp.acquire %ring[%t] : ...        // waits until the stage is empty
        warp.copy %keys[%first] stride(%s) limit(%n) into %k : ...
        warp.publish %ring[%t] : ...             // full once the copies have landed
      }
    } consumers 3 registers 160 {
    ^bb0(%warpgroup: i32):
      scf.for %t = %zero to %tiles step %one : i32 {
        %k = warp.await %ring[%t] : ...          // waits until the stage is full
        %f = warp.multiply %q, %k transposed : ...
        %logits = warp.wait %f : ...
        warp.release %ring[%t] : ...             // after the wait: nobody reads it
      }
    }
    ```

    Where a tensor map says where the rows are, one thread of the producer has
    each tile brought in bulk, for several blocks of a cluster at once if they
    read the same:

    ```mlir
    %ring = warp.ring {...} : !warp.ring<2, !warp.tile<128, 128, bf16>, cluster = 2>
    warp.roles producer registers 32 {
      warp.acquire_map %map : !llvm.ptr<1>
      scf.for %t = %zero to %tiles step %one : i32 {
        warp.fetch %ring[%t] from %map[%first, %column] : ...  // waits, then brings
      }
    } consumers 3 registers 160 {...} {cluster = 2 : i64}
    ```

    A loop of turns may stand around those over tiles, in both roles. It carries
    how many tiles there were, so that numbers and phases go on; what is loaded
    once a turn has a ring of its own, whose tiles are the turns:

    ```mlir
    scf.for %turn = %zero to %turns step %one iter_args(%before = %zero) -> (i32) : i32 {
      %q = warp.await %queries[%turn] : ...
      scf.for %t = %zero to %tiles step %one : i32 {
        %number = arith.addi %t, %before : i32
        %k = warp.await %ring[%number] : ...
        ...
      }
      warp.release %queries[%turn] : ...
      %more = arith.maxsi %tiles, %zero : i32
      %all = arith.addi %before, %more : i32
      scf.yield %all : i32
    }
    ```
  }];
  let useDefaultAttributePrinterParser = 1;
  let useDefaultTypePrinterParser = 1;
  let extraClassDeclaration = [{
    void registerAttributes();
    void registerTypes();
  }];
}

//===----------------------------------------------------------------------===//
// Attributes
//===----------------------------------------------------------------------===//

def Warp_Combine : I32EnumAttr<"Combine", "how elements are combined", [
    I32EnumAttrCase<"Max", 0, "max">, I32EnumAttrCase<"Add", 1, "add">]> {
  let cppNamespace = "::mlir::warp";
}

def Warp_PipelineAttr : AttrDef<Warp_Dialect, "Pipeline"> {
  let mnemonic = "pipeline";
  let summary = "how the warps of a block share the work of a kernel";
  let description = [{
    * `consumers`: warpgroups that compute, each with 64 rows;
    * `stages`: tiles of each ring;
    * `producer_registers`, `consumer_registers`: of a thread, multiples of 8
      from 24 to 240. The producer is one warpgroup;
    * `blocks`: blocks that a multiprocessor is to hold at once;
    * `cluster`: blocks, 1 or 2, next to each other in the grid's x, that share
      the tiles that are brought by tensor maps;
    * `turn_stages`: of rings for what a loop of turns loads once a turn; with 0
      the warpgroups that compute load that themselves;
    * `ping_pong`: whether these, two or more, start their products in order;
    * `one_ring`: whether all loads of a loop have their tiles in one ring, in
      turns, or each has its own.
    A function has it as its attribute `warp.pipeline`.
  }];
  let parameters = (ins "int64_t":$consumers, "int64_t":$stages,
                        "int64_t":$producer_registers,
                        "int64_t":$consumer_registers,
                        DefaultValuedParameter<"int64_t", "1">:$blocks,
                        DefaultValuedParameter<"int64_t", "1">:$cluster,
                        DefaultValuedParameter<"int64_t", "0">:$turn_stages,
                        DefaultValuedParameter<"bool", "false">:$ping_pong,
                        DefaultValuedParameter<"bool", "false">:$one_ring);
  let assemblyFormat = "`<` struct(params) `>`";
  let genVerifyDecl = 1;
}

//===----------------------------------------------------------------------===//
// Types
//===----------------------------------------------------------------------===//

class Warp_Type<string name, string typeMnemonic>
    : TypeDef<Warp_Dialect, name> {
  let mnemonic = typeMnemonic;
}

def Warp_TileType : Warp_Type<"Tile", "tile"> {
  let summary = "rows of 16-bit elements in shared memory";
  let description = [{
    Rows are cut into panels of 64 columns, 128 bytes; a panel has its rows one
    after the other. The 16-byte chunk c of row r of a panel lies at chunk c ^ (r
    % 8), as matrix products with a 128-byte swizzle expect. A tile begins at a
    multiple of 1,024 bytes.

    Worked example: of a tile of 128 x 128, element (9, 80) is in panel 1, row 9,
    column 16, chunk 2; the chunk lies at 2 ^ 1 = 3, so the element's first byte
    is 128 * 128 + 9 * 128 + 3 * 16 + 0.
  }];
  let parameters = (ins "int64_t":$rows, "int64_t":$columns,
                        "::mlir::Type":$element);
  let assemblyFormat = "`<` $rows `,` $columns `,` $element `>`";
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    int64_t getPanelBytes() const { return getRows() * 128; }
    /// Whether its place has room for `other`, a tile of as many rows or fewer.
    bool hasRoomFor(TileType other) const {
      return other.getRows() <= getRows() &&
             other.getColumns() == getColumns() &&
             other.getElement() == getElement();
    }
    int64_t getBytes() const { return getRows() * getColumns() * 2; }
  }];
}

def Warp_RowsType : Warp_Type<"Rows", "rows"> {
  let summary = "which rows of a matrix a tile has, one after the other";
  let description = [{
    For the warpgroup that brings the tile: lane l of warp w has rows
    16 i + 4 w + l / 8, for all i, as the eight lanes of a row bring it together.
  }];
  let parameters = (ins "int64_t":$rows);
  let assemblyFormat = "`<` $rows `>`";
  let genVerifyDecl = 1;
}

def Warp_RingType : Warp_Type<"Ring", "ring"> {
  let summary = "tiles that one role fills and another one reads, in turn";
  let description = [{
    `cluster`: 0 where threads copy the tiles. Else they are fetched in bulk, and
    so many blocks of a cluster share them: each brings a part to all.
  }];
  let parameters = (ins "int64_t":$stages, "::mlir::warp::TileType":$tile,
                        DefaultValuedParameter<"int64_t", "0">:$cluster);
  let assemblyFormat =
      "`<` $stages `,` $tile (`,` `cluster` `=` $cluster^)? `>`";
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    int64_t getBytes() const { return getStages() * getTile().getBytes(); }
    bool isFetched() const { return getCluster() > 0; }
    /// Of the barriers: a full one a stage, then an empty one a stage.
    int64_t getBarrierBytes() const { return 16 * getStages(); }
  }];
}

def Warp_FragmentType : Warp_Type<"Fragment", "fragment"> {
  let summary = "64 rows in the registers of a warpgroup";
  let description = [{
    Laid out as the accumulators of products: warp w has the rows from 16 w on;
    of each 16 x 8 square of them lane l has columns 2 (l % 4) and the next one
    of rows l / 4 and l / 4 + 8. Pairs of 16-bit elements share a register. With
    one column, all four lanes of a row have its value, or each a part of it
    where an op says so.

    A thread's elements in order: square by square, in a square (row, column),
    (row, column + 1), (row + 8, column), (row + 8, column + 1); with one column,
    (row), (row + 8).
  }];
  let parameters = (ins "int64_t":$columns, "::mlir::Type":$element);
  let assemblyFormat = "`<` $columns `,` $element `>`";
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    bool isColumn() const { return getColumns() == 1; }
    bool isPacked() const { return getElement().isBF16() || getElement().isF16(); }
    /// Values that a thread holds.
    int64_t getElements() const { return isColumn() ? 2 : getColumns() / 2; }
    /// Registers that hold them.
    int64_t getRegisters() const {
      return isPacked() ? getElements() / 2 : getElements();
    }
  }];
}

def Warp_FlyingType : Warp_Type<"Flying", "flying"> {
  let summary = "the sums of products that may still be on their way";
  let description = [{
    `held`: registers of left operands that these products may still read. Only
    `warp.wait` gives a fragment that can be read.
  }];
  let parameters = (ins "int64_t":$columns, "int64_t":$held);
  let assemblyFormat = "`<` $columns `,` `held` `=` $held `>`";
  let genVerifyDecl = 1;
}

def Warp_Float32Fragment : Type<
    And<[CPred<"::llvm::isa<::mlir::warp::FragmentType>($_self)">,
         CPred<"::llvm::cast<::mlir::warp::FragmentType>($_self).getElement().isF32()">]>,
    "fragment of f32", "::mlir::warp::FragmentType">;
def Warp_PackedFragment : Type<
    And<[CPred<"::llvm::isa<::mlir::warp::FragmentType>($_self)">,
         CPred<"::llvm::cast<::mlir::warp::FragmentType>($_self).isPacked()">]>,
    "fragment of bf16 or f16", "::mlir::warp::FragmentType">;

#endif // HEDDLE_DIALECT_WARP_IR_WARPBASE_TD
