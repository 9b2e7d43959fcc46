//===- KeySets.td - Sets of pairs on tiles -------------------*- tablegen -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What passes over keys and masks ask of a set of pairs, and the sets.
// lib/Dialect/Shed/IR/PairSets.cpp implements them.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_DIALECT_SHED_IR_KEYSETS_TD
#define HEDDLE_DIALECT_SHED_IR_KEYSETS_TD

include "heddle/Dialect/PairSets.td"
include "heddle/Dialect/Shed/IR/ShedBase.td"

def Shed_KeySet : AttrInterface<"KeySet"> {
  let cppNamespace = "::mlir::shed";
  let description = [{
    A set of pairs (query, key), as a kernel on tiles asks for it. Nobody asks
    which set it is, but for all keys, which need no mask. It goes by positions:
    then the keys that a tile may need are a range, of which a mask keeps a row's
    own. Or it goes by the entries of lists, one for some rows, each of which
    stands for a key or a block of keys.

    Arithmetic is built once for all machines, by a PairArithmetic: on scalars of
    any width or on vectors of them.
  }];
  let methods = [
    InterfaceMethod<"Whether all rows of a tile have the same keys.",
        "bool", "isUniform", (ins), "", "return true;">,
    InterfaceMethod<"The lists that it goes by; none if it goes by positions.",
        "::std::optional<::mlir::shed::KeyEntries>", "getEntries", (ins), "",
        "return ::std::nullopt;">,
    InterfaceMethod<"Whether it has few keys for a tile of any sequence.",
        "bool", "isShort", (ins), "", "return false;">,
    InterfaceMethod<"What was stated in a schedule; none if nothing was.",
        "::std::optional<::heddle::bundle::Term>", "getTerm", (ins), "",
        "return ::std::nullopt;">,

    // Of sets that go by positions.
    InterfaceMethod<[{
        The positions of the keys that some row at a position from `first` to
        `last` has. A uniform set's begin at 0, and the rows may be null.
      }],
        "::mlir::shed::PositionRange", "getKeys",
        (ins "::mlir::shed::PairArithmetic &":$a, "::mlir::Value":$first,
             "::mlir::Value":$last), "", "return {};">,
    InterfaceMethod<"Whether each row's keys are no range, so that every pair "
                    "is asked for.",
        "bool", "hasGaps", (ins), "", "return false;">,
    InterfaceMethod<"The keys that all of these rows have, of a set without "
                    "gaps.",
        "::mlir::shed::PositionRange", "getCommonKeys",
        (ins "::mlir::shed::PairArithmetic &":$a, "::mlir::Value":$first,
             "::mlir::Value":$last), "",
        "return $_attr.getKeys(a, first, last);">,
    InterfaceMethod<"Whether it pairs a row at position `query` with a key at "
                    "`key`: i1, or a vector of them.",
        "::mlir::Value", "keeps",
        (ins "::mlir::shed::PairArithmetic &":$a, "::mlir::Value":$query,
             "::mlir::Value":$key), "", [{
          llvm_unreachable("masked sets say which pairs they keep");
        }]>,
    InterfaceMethod<[{
        Whether rows at positions `rows` may have some of the keys at positions
        `keys`, both [begin, end): i1. Null: they mostly do.
      }],
        "::mlir::Value", "keepsSome",
        (ins "::mlir::shed::PairArithmetic &":$a,
             "::mlir::shed::PositionRange":$rows,
             "::mlir::shed::PositionRange":$keys), "", "return {};">,
    InterfaceMethod<"Whether keepsSome() says no for most tiles.",
        "bool", "isSparse", (ins), "", "return false;">,
  ];
}

// A set of keys that is the same for all rows of a tile.
def Shed_UniformSet : Attr<And<[
    Shed_KeySet.predicate,
    CPred<"::llvm::cast<::mlir::shed::KeySet>($_self).isUniform()">]>,
    "a set of keys that is the same for all rows of a tile">;
def Shed_UniformSetArrayAttr : TypedArrayAttrBase<Shed_UniformSet,
    "sets of keys that are the same for all rows of a tile">;

// A set by which a mask may keep pairs: one that goes by positions.
def Shed_MaskedSet : Attr<And<[
    Shed_KeySet.predicate,
    CPred<"!::llvm::cast<::mlir::shed::KeySet>($_self).isUniform()">]>,
    "a set of pairs whose keys differ by row"> {
  let storageType = "::mlir::shed::KeySet";
  let returnType = "::mlir::shed::KeySet";
  let convertFromStorage = "$_self";
}
def Shed_MaskedSetArrayAttr : TypedArrayAttrBase<Shed_MaskedSet,
    "sets of pairs whose keys differ by row">;

// A set that goes by the entries of lists.
def Shed_ListedSet : Attr<And<[
    Shed_KeySet.predicate,
    CPred<"::llvm::cast<::mlir::shed::KeySet>($_self).getEntries().has_value()">]>,
    "a set that goes by lists"> {
  let storageType = "::mlir::shed::KeySet";
  let returnType = "::mlir::shed::KeySet";
  let convertFromStorage = "$_self";
}

//===----------------------------------------------------------------------===//
// The sets
//===----------------------------------------------------------------------===//

class Shed_PairSet<string name, string attrMnemonic, list<string> methods>
    : Shed_Attr<name, attrMnemonic,
                [DeclareAttrInterfaceMethods<Shed_KeySet, methods>]>;

def Shed_AllAttr : Shed_PairSet<"All", "all", []> {
  let summary = "every key, 0 <= j < n";
}

// Those of arithmetic.
foreach set = pairSets in
def Shed_#set.name#Attr
    : Shed_PairSet<set.name, set.word, !listconcat(["getTerm"], set.methods)> {
  let summary = set.summary;
  let parameters = set.parameters;
  let assemblyFormat = set.format;
  let genVerifyDecl = !ne(!size(set.parameters), 0);
}

def Shed_BothAttr : Shed_PairSet<"Both", "both", [
    "isUniform", "isShort", "isSparse", "getTerm", "hasGaps", "getKeys",
    "getCommonKeys", "keeps", "keepsSome"]> {
  let summary = "the pairs that all of some sets have";
  let description = [{
    Of sets that go by positions and that schedules state, each by asking all of
    them. A single one is the set itself, as a mask may keep it: `sinks` alone are
    none, since all rows have the same.
  }];
  let parameters = (ins ArrayRefParameter<"::mlir::shed::KeySet">:$sets);
  let assemblyFormat = "`<` `[` $sets `]` `>`";
  let genVerifyDecl = 1;
}

def Shed_ListAttr : Shed_PairSet<"List", "list", ["getEntries"]> {
  let summary = "the keys of an index list, one list for `group` query rows";
  let description = [{
    `index` counts the kernel's lists (`AttentionArgs::lists`); the keys of group
    g = place / group are ascending and distinct.
  }];
  let parameters = (ins "int64_t":$index, "int64_t":$group);
  let assemblyFormat = "`<` $index `,` `group` `=` $group `>`";
  let genVerifyDecl = 1;
}

def Shed_BlocksAttr : Shed_PairSet<"Blocks", "blocks", ["getEntries"]> {
  let summary = "the keys of the blocks that an index list names, one list for `size` query rows";
  let description = [{
    `index` counts the kernel's lists, with those of `list`. A block has `size`
    consecutive keys, fewer at the end of a span (`IndexList::split`).
  }];
  let parameters = (ins "int64_t":$index, "int64_t":$size);
  let assemblyFormat = "`<` $index `,` `size` `=` $size `>`";
  let genVerifyDecl = 1;
}

#endif // HEDDLE_DIALECT_SHED_IR_KEYSETS_TD
