//===- ShedRowOps.td - Operations on rows --------------------*- tablegen -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What a model and its sampler do to rows beside attention and products. A
// shed.row_kernel is the work on one row: scalar code in arith, math and scf,
// and passes over the row's columns whose bodies are about one column. Nothing
// here knows threads or vectors; the lowerings share columns out among them.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_DIALECT_SHED_IR_SHEDROWOPS_TD
#define HEDDLE_DIALECT_SHED_IR_SHEDROWOPS_TD

include "heddle/Dialect/Shed/IR/ShedOps.td"

//===----------------------------------------------------------------------===//
// Attributes
//===----------------------------------------------------------------------===//

def Shed_RowOperation : Shed_BundleEnum<"RowOp", "an operation of bundle/abi/RowOps.h">;

def Shed_Reduction : Shed_Enum<"Reduction", "how contributions are combined", [
    I32EnumAttrCase<"Add", 0, "add">,
    I32EnumAttrCase<"Max", 1, "max">,
    I32EnumAttrCase<"ArgMax", 2, "argmax">]>;
def Shed_ReductionArrayAttr
    : TypedArrayAttrBase<Shed_Reduction, "reductions">;

def Shed_RowTilingAttr : Shed_Attr<"RowTiling", "row_tiling"> {
  let summary = "how a GPU shares out the columns of a row";
  let description = [{
    * `threads`: of the block that does a row, a power of two from 32;
    * `columns`: consecutive columns that a thread loads and stores at once: 8,
      or 1 where rows need not be aligned;
    * `kept`: groups of `columns` that a thread can keep in registers between
      two passes.
  }];
  let parameters = (ins "int64_t":$threads,
                        DefaultValuedParameter<"int64_t", "8">:$columns,
                        DefaultValuedParameter<"int64_t", "0">:$kept);
  let assemblyFormat = "`<` struct(params) `>`";
  let genVerifyDecl = 1;
}

//===----------------------------------------------------------------------===//
// Types
//===----------------------------------------------------------------------===//

def Shed_ArrayType : Shed_Type<"Array", "array"> {
  let summary = "an array in the machine's memory, or null";
  let description = [{
    Elements of bf16 and f16 are widened to f32 when read and rounded to nearest
    even when written.
  }];
  let parameters = (ins "::mlir::Type":$element);
  let assemblyFormat = "`<` $element `>`";
  let genVerifyDecl = 1;
}
def Shed_ColumnType : Shed_Type<"Column", "column"> {
  let summary = "the column that a pass is at";
}
def Shed_Column : Shed_Simple<Shed_ColumnType, "ColumnType">;
def Shed_KeptType : Shed_Type<"Kept", "kept"> {
  let summary = "one value for each column, kept by a pass for later ones";
  let parameters = (ins "::mlir::Type":$element);
  let assemblyFormat = "`<` $element `>`";
  let genVerifyDecl = 1;
}

/// What an element is in a kernel's arithmetic.
class Shed_ValueMatches<string container, string value, string type>
    : TypesMatchWith<"the value has the arithmetic type of the elements",
                     container, value,
                     "::mlir::shed::arithmeticType(::llvm::cast<::mlir::shed::"
                     # type # ">($_self).getElement())">;

//===----------------------------------------------------------------------===//
// The kernel
//===----------------------------------------------------------------------===//

def Shed_RowKernelOp : Shed_Op<"row_kernel", [
    IsolatedFromAbove, NoTerminator, SingleBlock, Symbol]> {
  let summary = "the work on one row";
  let description = [{
    The block's arguments are the fields of the operation's argument block in
    `bundle/abi/RowAbi.h`, in order; arrays of T have the element type `element`.
    Code outside of passes over columns runs once, in order. A kernel never
    reads what it has written, except through `shed.recall`; its passes may
    read what they themselves overwrite in the same column.

    ```mlir
    shed.row_kernel @row_swiglu_bf16 swiglu element(bf16)
        tiling(<threads = 512>) {
    ^bb0(%x: !shed.array<bf16>, %y: !shed.array<bf16>, %width: i64):
      ...
      shed.for_columns %width {
      ^bb0(%j: !shed.column):
        %g = shed.read_column %gates[%j] : !shed.array<bf16>
        ...
        shed.write_column %h, %hidden[%j] : !shed.array<bf16>
      }
    }
    ```
  }];
  let arguments = (ins SymbolNameAttr:$sym_name,
                       Shed_RowOperation:$kind,
                       TypeAttrOf<AnyTypeOf<[F32, BF16, F16]>>:$element,
                       Shed_RowTilingAttr:$tiling);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = [{
    $sym_name custom<RowOp>($kind) `element` `(` $element `)`
    `tiling` `(` $tiling `)` attr-dict-with-keyword $body
  }];
  let hasRegionVerifier = 1;
}

def Shed_RowOp : Shed_Op<"row", [Pure]> {
  let summary = "the number of the row at hand, from 0";
  let results = (outs I64:$result);
  let assemblyFormat = "attr-dict";
}

//===----------------------------------------------------------------------===//
// Memory
//===----------------------------------------------------------------------===//

def Shed_IsNullOp : Shed_Op<"is_null", [Pure]> {
  let summary = "whether an array is null";
  let arguments = (ins Shed_ArrayType:$array);
  let results = (outs I1:$result);
  let assemblyFormat = "$array attr-dict `:` type($array)";
}

def Shed_AdvanceOp : Shed_Op<"advance", [
    Pure, AllTypesMatch<["array", "result"]>]> {
  let summary = "the array that begins `offset` elements further on";
  let arguments = (ins Shed_ArrayType:$array, I64:$offset);
  let results = (outs Shed_ArrayType:$result);
  let assemblyFormat = "$array `by` $offset attr-dict `:` type($array)";
}

def Shed_ReadOp : Shed_Op<"read", [
    MemoryEffects<[MemRead]>, Shed_ValueMatches<"array", "result", "ArrayType">]> {
  let summary = "element `index` of an array";
  let arguments = (ins Shed_ArrayType:$array, I64:$index);
  let results = (outs AnyType:$result);
  let assemblyFormat = "$array `[` $index `]` attr-dict `:` type($array)";
}

def Shed_WriteOp : Shed_Op<"write", [
    MemoryEffects<[MemWrite]>, Shed_ValueMatches<"array", "value", "ArrayType">]> {
  let summary = "writes element `index` of an array";
  let arguments = (ins AnyType:$value, Shed_ArrayType:$array, I64:$index);
  let assemblyFormat =
      "$value `,` $array `[` $index `]` attr-dict `:` type($array)";
}

def Shed_RaiseOp : Shed_Op<"raise", [
    MemoryEffects<[MemRead, MemWrite]>,
    Shed_ValueMatches<"array", "value", "ArrayType">]> {
  let summary = "element `index` becomes the greater of itself and `value`";
  let description = "Rows that raise the same element do so one at a time.";
  let arguments = (ins AnyType:$value, Shed_ArrayType:$array, I64:$index);
  let assemblyFormat =
      "$value `,` $array `[` $index `]` attr-dict `:` type($array)";
  let hasVerifier = 1;
}

def Shed_ReadColumnOp : Shed_Op<"read_column", [
    MemoryEffects<[MemRead]>, Shed_ValueMatches<"array", "result", "ArrayType">]> {
  let summary = "the element of the column at hand";
  let arguments = (ins Shed_ArrayType:$array, Shed_Column:$column);
  let results = (outs AnyType:$result);
  let assemblyFormat = "$array `[` $column `]` attr-dict `:` type($array)";
}

def Shed_WriteColumnOp : Shed_Op<"write_column", [
    MemoryEffects<[MemWrite]>, Shed_ValueMatches<"array", "value", "ArrayType">]> {
  let summary = "writes the element of the column at hand";
  let arguments = (ins AnyType:$value, Shed_ArrayType:$array, Shed_Column:$column);
  let assemblyFormat =
      "$value `,` $array `[` $column `]` attr-dict `:` type($array)";
}

//===----------------------------------------------------------------------===//
// Columns
//===----------------------------------------------------------------------===//

def Shed_ForColumnsOp : Shed_Op<"for_columns", [
    AttrSizedOperandSegments, RecursiveMemoryEffects,
    SingleBlockImplicitTerminator<"ContributeOp">]> {
  let summary = "passes over the columns of a row";
  let description = [{
    Runs the body once for each of the `width` columns, or, with `pieces`, for
    each column of each piece: the body then has the piece's number as its first
    argument. Columns are independent of each other and in no order.

    The body contributes one value to each reduction, then, with `keep`, a value
    to keep. Results: of `add` the sum, of `max` the greatest contribution, of
    `argmax` the greatest and its column (i64), the lowest one of ties; 0, the
    least value or no meaning where there are no columns. Sums are taken in an
    order that depends on the width and the tiling only. Kept values are rounded
    to the element type of `keep`'s array, which holds those that registers
    don't: nothing else may read or write its `width` elements between the passes.

    Rows are aligned and `width` is a multiple of the tiling's columns, unless
    the pass is `ragged`, where `width` is any number.
  }];
  let arguments = (ins UnitAttr:$ragged, I64:$width, Optional<I64>:$pieces,
                       DefaultValuedAttr<Shed_ReductionArrayAttr, "{}">:$reductions,
                       Optional<Shed_ArrayType>:$home);
  let results = (outs Variadic<AnyType>:$results);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = [{
    (`ragged` $ragged^)? $width (`in` $pieces^ `pieces`)?
    (`reduce` `` custom<Reductions>($reductions)^)? (`keep` `(` $home^ `:` type($home) `)`)?
    (`->` type($results)^)? attr-dict-with-keyword $body
  }];
  let hasRegionVerifier = 1;
}

def Shed_NumberColumnsOp : Shed_Op<"number_columns", [
    RecursiveMemoryEffects,
    SingleBlockImplicitTerminator<"ContributeOp">]> {
  let summary = "numbers the columns that a condition chooses";
  let description = [{
    `where` contributes an i1 for each column. For those that are chosen, `body`
    runs with the column and its number: `start` for the lowest one, then
    counting up. The result is the number after the last.
  }];
  let arguments = (ins I64:$width, I64:$start);
  let results = (outs I64:$result);
  let regions = (region SizedRegion<1>:$where, SizedRegion<1>:$body);
  let assemblyFormat = [{
    $width `from` $start attr-dict-with-keyword `where` $where `do` $body
  }];
  let hasRegionVerifier = 1;
}

def Shed_ContributeOp : Shed_Op<"contribute", [
    Pure, Terminator, ParentOneOf<["ForColumnsOp", "NumberColumnsOp"]>]> {
  let summary = "what a column gives to its pass";
  let arguments = (ins Variadic<AnyType>:$values);
  let assemblyFormat = "($values^ `:` type($values))? attr-dict";
  let builders = [OpBuilder<(ins),
      "build($_builder, $_state, ::mlir::ValueRange());">];
}

def Shed_ColumnNumberOp : Shed_Op<"column_number", [Pure]> {
  let summary = "the number of a column in its row, from 0";
  let arguments = (ins Shed_Column:$column);
  let results = (outs I64:$result);
  let assemblyFormat = "$column attr-dict";
}

def Shed_RecallOp : Shed_Op<"recall", [
    MemoryEffects<[MemRead]>, Shed_ValueMatches<"kept", "result", "KeptType">]> {
  let summary = "what an earlier pass kept for the column at hand";
  let arguments = (ins Shed_KeptType:$kept, Shed_Column:$column);
  let results = (outs AnyType:$result);
  let assemblyFormat = "$kept `[` $column `]` attr-dict `:` type($kept)";
  let hasVerifier = 1;
}

//===----------------------------------------------------------------------===//
// Scalars
//===----------------------------------------------------------------------===//

def Shed_RoundOp : Shed_Op<"round", [Pure]> {
  let summary = "rounds to nearest even to a narrower type, kept in f32";
  let arguments = (ins F32:$value, TypeAttrOf<AnyTypeOf<[F32, BF16, F16]>>:$to);
  let results = (outs F32:$result);
  let assemblyFormat = "$value `to` $to attr-dict";
}

def Shed_RandomOp : Shed_Op<"random", [Pure]> {
  let summary = "52 random bits with a name";
  let description = [{
    A function of its operands, in [0, 2^52): Philox4x32-10 of the counter
    (index / 2, position, step, stream), each modulo 2^32, under the key `seed`,
    least significant word first. An even index takes the first two words of the
    result, an odd one the last two; the upper 52 bits of their 64 are given.
    Source: Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1,
    2, 3", SC 2011.
  }];
  let arguments = (ins ConfinedAttr<I64Attr, [IntNonNegative]>:$stream,
                       I64:$seed, I64:$step, I64:$position, I64:$index);
  let results = (outs I64:$result);
  let assemblyFormat = [{
    `stream` `(` $stream `)` `seed` $seed `step` $step `position` $position
    `index` $index attr-dict
  }];
}

#endif // HEDDLE_DIALECT_SHED_IR_SHEDROWOPS_TD
