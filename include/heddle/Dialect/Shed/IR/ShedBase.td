//===- ShedBase.td - The shed dialect ------------------------*- tablegen -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_DIALECT_SHED_IR_SHEDBASE_TD
#define HEDDLE_DIALECT_SHED_IR_SHEDBASE_TD

include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/EnumAttr.td"
include "mlir/IR/OpBase.td"

def Shed_Dialect : Dialect {
  let name = "shed";
  let cppNamespace = "::mlir::shed";
  let summary = "One kernel on tiles";
  let description = [{
    A `shed.kernel` is what one task of a kernel does: it holds a tile of query
    rows of one head and passes over tiles of keys, with the online softmax
    spelled out. Which keys, in what order and under which mask is explicit; how
    a tile is cut for a machine is the `tiling` attribute, written by
    `shed-choose-tiles` and obeyed by the lowerings.

    ```mlir
    shed.kernel @attention_mixed attention element(f32) head_dim(128) writes_lse {
      %q = shed.load_queries : !shed.tile<queries, channels, f32>
      %s0 = shed.softmax_init : !shed.softmax
      %s1 = shed.for_keys over #shed.list<0, group = 128> init(%s0) : !shed.softmax {
      ^bb0(%keys: !shed.keys, %s: !shed.softmax):
        %k = shed.load_keys %keys : !shed.tile<keys, channels, f32>
        %v = shed.load_values %keys : !shed.tile<keys, channels, f32>
        %l = shed.dot %q, %k : !shed.tile<queries, channels, f32>, !shed.tile<keys, channels, f32>
        %n = shed.softmax_update %s, %l, %v : !shed.tile<keys, channels, f32>
        shed.yield %n : !shed.softmax
      }
      shed.store %s1
    }
    ```

    Tiles name their axes, `queries`, `keys` and `channels`; the tiling gives
    each axis its static size. Pairs of a union are counted once: a later pass
    over keys skips the lists and sinks of the earlier ones and masks their
    windows.
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect",
                           "::mlir::math::MathDialect"];
  let useDefaultAttributePrinterParser = 1;
  let useDefaultTypePrinterParser = 1;
  let extraClassDeclaration = [{
    void registerAttributes();
    void registerTypes();
  }];
}

//===----------------------------------------------------------------------===//
// Enumerations
//===----------------------------------------------------------------------===//

class Shed_Enum<string name, string summary, list<I32EnumAttrCase> cases>
    : I32EnumAttr<name, summary, cases> {
  let cppNamespace = "::mlir::shed";
}

def Shed_Axis : Shed_Enum<"Axis", "an axis of a tile", [
    I32EnumAttrCase<"Queries", 0, "queries">,
    I32EnumAttrCase<"Keys", 1, "keys">,
    I32EnumAttrCase<"Channels", 2, "channels">]>;

def Shed_DotKind : Shed_Enum<"DotKind", "the instruction that multiplies tiles", [
    I32EnumAttrCase<"Fma", 0, "fma">,
    I32EnumAttrCase<"Pairs", 1, "pairs">,
    I32EnumAttrCase<"Tiles", 2, "tiles">]>;

/// A value of an enumeration of the bundle, which states the values and their
/// names (BundleEnums.h).
class Shed_BundleEnum<string type, string words>
    : Attr<CPred<"::llvm::isa<::mlir::StringAttr>($_self) && "
                 "::heddle::bundle::detail::valueOf<::heddle::bundle::" # type #
                 ">(::llvm::cast<::mlir::StringAttr>($_self).getValue())">,
           words> {
  let storageType = "::mlir::StringAttr";
  let returnType = "::heddle::bundle::" # type;
  let convertFromStorage =
      "*::heddle::bundle::detail::valueOf<::heddle::bundle::" # type #
      ">($_self.getValue())";
  let constBuilderCall =
      "$_builder.getStringAttr(::heddle::bundle::detail::nameOf($0))";
}

def Shed_KernelKind : Shed_BundleEnum<"Kernel::Kind", "attention or select">;
def Shed_Encoding : Shed_BundleEnum<"Encoding", "int32, uint16 or bitmap">;

//===----------------------------------------------------------------------===//
// Attributes
//===----------------------------------------------------------------------===//

class Shed_Attr<string name, string attrMnemonic, list<Trait> traits = []>
    : AttrDef<Shed_Dialect, name, traits> {
  let mnemonic = attrMnemonic;
}

def Shed_TilingAttr : Shed_Attr<"Tiling", "tiling"> {
  let summary = "how a vector machine cuts a kernel";
  let description = [{
    * `query_rows`: rows of one task; divides every group of the kernel;
    * `panel`: query rows that are worked on together, a multiple of `lanes`;
    * `keys`: keys of one tile, a multiple of `block_keys`;
    * `lanes`: 32-bit lanes of a vector;
    * `block_keys`: keys of a register block of the score product, times
      panel / lanes vectors of accumulators;
    * `block_channels`: likewise, channels of a block of the context product;
    * `dot`: `fma` (fp32 multiply-add), `pairs` (bf16 dot products of pairs) or
      `tiles` (bf16 matrix tiles);
    * `pack_keys`, `pack_values`: whether a tile of keys or values is first
      copied (and, without bf16 dot products, widened) to contiguous scratch;
    * `fetch_ahead`: how many tiles ahead the rows that a list names are fetched:
      1 into the nearest cache, 2 into the second, 0 not at all.
  }];
  let parameters = (ins
      "int64_t":$query_rows, "int64_t":$panel, "int64_t":$keys,
      "int64_t":$lanes, "int64_t":$block_keys, "int64_t":$block_channels,
      EnumParameter<Shed_DotKind>:$dot,
      DefaultValuedParameter<"bool", "false">:$pack_keys,
      DefaultValuedParameter<"bool", "false">:$pack_values,
      DefaultValuedParameter<"int64_t", "0">:$fetch_ahead);
  let assemblyFormat = "`<` struct(params) `>`";
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    /// Vectors across a panel.
    int64_t getVectors() const { return getPanel() / getLanes(); }
    /// Panels of a task.
    int64_t getPanels() const {
      return (getQueryRows() + getPanel() - 1) / getPanel();
    }
  }];
}

def Shed_MmaTilingAttr : Shed_Attr<"MmaTiling", "mma_tiling"> {
  let summary = "how a GPU with warp-wide matrix products cuts a kernel";
  let description = [{
    * `query_rows`: rows of one block, 16 or 32 for each warp; divides every
      group of the kernel. Of one that scores by mean logits they
      are eight for each group that a block scores together;
    * `warps`: warps of a block;
    * `keys`: keys of one tile, a multiple of 16;
    * `stages`: tiles of keys and values in shared memory, at least 2: all but
      one are on their way while that one is worked on;
    * `blocks`: blocks that should fit a multiprocessor; bounds the registers of
      a thread;
    * `keep_queries`: whether a warp keeps its queries in registers rather than
      reading them from shared memory for every tile of keys;
    * `share_keys`: whether blocks of at most half of `query_rows` rows share
      their keys among the warps, which else would have none of the rows. In
      the end they add up what each found in the place of the tiles of keys.
  }];
  let parameters = (ins
      "int64_t":$query_rows, "int64_t":$warps, "int64_t":$keys,
      "int64_t":$stages, DefaultValuedParameter<"int64_t", "1">:$blocks,
      DefaultValuedParameter<"bool", "false">:$keep_queries,
      DefaultValuedParameter<"bool", "false">:$share_keys);
  let assemblyFormat = "`<` struct(params) `>`";
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    int64_t getThreads() const { return 32 * getWarps(); }
    int64_t getRowsPerWarp() const { return getQueryRows() / getWarps(); }
  }];
}

def Shed_WgmmaTilingAttr : Shed_Attr<"WgmmaTiling", "wgmma_tiling"> {
  let summary = "how a GPU with warpgroup-wide matrix products cuts a kernel";
  let description = [{
    One warpgroup brings tiles, the others compute.
    * `consumers`: warpgroups that compute, 1 to 4, each with 64 query rows, or
      where keys are scored with a group's rows;
    * `keys`: keys of one tile, a multiple of 16 up to 256;
    * `stages`: tiles of keys and of values in shared memory, 2 to 8;
    * `parts`: in how many parts the probabilities of a tile meet its values: the
      products of one run under the exponentials of the next; each is a
      multiple of 16 keys;
    * `producer_registers`, `consumer_registers`: of a thread;
    * `blocks`: blocks that a multiprocessor is to hold at once;
    * `tma`: whether one thread has tiles of consecutive keys brought in bulk,
      by tensor maps, or all threads of the producer copy them;
    * `cluster`: blocks, 1 or 2, with neighbouring query tiles that share the
      tiles which tensor maps bring: of all keys, or with `query_stages` of
      ranges, too;
    * `key_shares`: blocks, 1, 2, 4, 8 or 16, that divide the keys of the same
      query tile among them, as a cluster, and add up what they found: for few
      rows;
    * `least_keys`: with `key_shares`, keys from which on sequences take it
      (`bundle/program/Forms.h`);
    * `query_stages`: 0, or a grid of as many blocks as the device holds at once:
      a block goes on to further tiles of rows, whose queries are brought ahead
      to a ring of so many stages, up to 4. Not where heads share lists;
    * `packed`: with `key_shares`, a tile's rows are of all query heads that share
      a key head, those of a row of the sequence one after the other, so that few
      rows fill tiles and keys are read once for these heads;
    * `check_sums`: what weights are relative to is raised where a row's sum gets
      large, not by the maxima of each tile's logits;
    * `ping_pong`: consumers, two or more, start products in order, so that one's
      run under another's softmax. Their tiles are of all keys, a list or blocks.
      Source: Shah et al., "FlashAttention-3", 2024, section 3.1;
    * `one_ring`: whether keys and values have their tiles in one ring of `stages`,
      in turns, or a ring each;
    * `tail_keys`: 0, or keys of the smaller tiles, in one part, that have what is
      left of a list after its whole tiles: a multiple of 16 below `keys`.
  }];
  let parameters = (ins
      "int64_t":$consumers, "int64_t":$keys, "int64_t":$stages,
      "int64_t":$parts, "int64_t":$producer_registers,
      "int64_t":$consumer_registers,
      DefaultValuedParameter<"int64_t", "1">:$blocks,
      DefaultValuedParameter<"bool", "false">:$tma,
      DefaultValuedParameter<"int64_t", "1">:$cluster,
      DefaultValuedParameter<"int64_t", "1">:$key_shares,
      DefaultValuedParameter<"int64_t", "0">:$least_keys,
      DefaultValuedParameter<"int64_t", "0">:$query_stages,
      DefaultValuedParameter<"bool", "false">:$packed,
      DefaultValuedParameter<"bool", "false">:$check_sums,
      DefaultValuedParameter<"bool", "false">:$ping_pong,
      DefaultValuedParameter<"int64_t", "0">:$tail_keys,
      DefaultValuedParameter<"bool", "false">:$one_ring);
  let assemblyFormat = "`<` struct(params) `>`";
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    int64_t getQueryRows() const { return 64 * getConsumers(); }
  }];
}

def Shed_AnyTilingAttr : AnyAttrOf<
    [Shed_TilingAttr, Shed_MmaTilingAttr, Shed_WgmmaTilingAttr], "a tiling">;

//===----------------------------------------------------------------------===//
// Types
//===----------------------------------------------------------------------===//

class Shed_Type<string name, string typeMnemonic>
    : TypeDef<Shed_Dialect, name> {
  let mnemonic = typeMnemonic;
}

def Shed_TileType : Shed_Type<"Tile", "tile"> {
  let summary = "a tile with two named axes";
  let parameters = (ins EnumParameter<Shed_Axis>:$rows,
                        EnumParameter<Shed_Axis>:$columns,
                        "::mlir::Type":$element);
  let assemblyFormat = "`<` $rows `,` $columns `,` $element `>`";
  let genVerifyDecl = 1;
}
class Shed_TileOf<string rows, string columns> : Type<
    And<[CPred<"::llvm::isa<::mlir::shed::TileType>($_self)">,
         CPred<"::llvm::cast<::mlir::shed::TileType>($_self).getRows() == ::mlir::shed::Axis::" # rows>,
         CPred<"::llvm::cast<::mlir::shed::TileType>($_self).getColumns() == ::mlir::shed::Axis::" # columns>]>,
    rows # " x " # columns # " tile", "::mlir::shed::TileType">;
def Shed_QueryTile : Shed_TileOf<"Queries", "Channels">;
def Shed_KeyTile : Shed_TileOf<"Keys", "Channels">;
def Shed_LogitTile : Shed_TileOf<"Queries", "Keys">, BuildableType<
    "::mlir::shed::TileType::get($_builder.getContext(), ::mlir::shed::Axis::Queries, ::mlir::shed::Axis::Keys, $_builder.getF32Type())">;

def Shed_SoftmaxType : Shed_Type<"Softmax", "softmax"> {
  let summary = "a running softmax: maximum, sum and context of each query row";
}
def Shed_KeysType : Shed_Type<"Keys", "keys"> {
  let summary = "the positions of one tile of keys";
}
def Shed_MassType : Shed_Type<"Mass", "mass"> {
  let summary = "the probability that a group of rows gives to each of the n keys";
}
def Shed_LseType : Shed_Type<"Lse", "lse"> {
  let summary = "the log-sum-exp of each query row, base 2";
}
class Shed_Simple<TypeDef type, string cpp>
    : TypeAlias<type>, BuildableType<"::mlir::shed::" # cpp # "::get($_builder.getContext())">;
def Shed_Softmax : Shed_Simple<Shed_SoftmaxType, "SoftmaxType">;
def Shed_Keys : Shed_Simple<Shed_KeysType, "KeysType">;
def Shed_Mass : Shed_Simple<Shed_MassType, "MassType">;
def Shed_Lse : Shed_Simple<Shed_LseType, "LseType">;
def Shed_Carried : AnyTypeOf<[Shed_SoftmaxType, Shed_MassType], "softmax or mass">;

#endif // HEDDLE_DIALECT_SHED_IR_SHEDBASE_TD
