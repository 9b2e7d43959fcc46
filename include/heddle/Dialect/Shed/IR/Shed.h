//===- Shed.h - The shed dialect --------------------------------*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_DIALECT_SHED_IR_SHED_H
#define HEDDLE_DIALECT_SHED_IR_SHED_H

#include "bundle/program/Manifest.h"
#include "heddle/Dialect/Shed/IR/PairArithmetic.h"

#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/Dialect/LLVMIR/LLVMTypes.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

#include <optional>

namespace mlir::shed {
using Encoding = ::heddle::bundle::Encoding;
using KernelKind = ::heddle::bundle::Kernel::Kind;
} // namespace mlir::shed

#include "heddle/Dialect/Shed/IR/ShedDialect.h.inc"
#include "heddle/Dialect/Shed/IR/ShedEnums.h.inc"

namespace mlir::shed {
/// The lists of a set: one for `group` rows that follow each other.
struct KeyEntries {
  int64_t index;     ///< among the kernel's lists
  int64_t group;     ///< rows, by their places
  int64_t blockKeys; ///< of the block that an entry names; 0: it names a key
  bool operator==(const KeyEntries &) const = default;
};
} // namespace mlir::shed

#include "heddle/Dialect/Shed/IR/ShedAttrInterfaces.h.inc"

#define GET_ATTRDEF_CLASSES
#include "heddle/Dialect/Shed/IR/ShedAttrs.h.inc"

#define GET_TYPEDEF_CLASSES
#include "heddle/Dialect/Shed/IR/ShedTypes.h.inc"

namespace mlir::shed {
/// Head dims of kernels are multiples of the least; with warp-wide products
/// they end at `maxMmaHeadDim`.
constexpr int64_t minHeadDim = 32, maxHeadDim = 512, maxMmaHeadDim = 256;

/// The lists that a set of keys goes by; none for another set.
std::optional<KeyEntries> entriesOf(Attribute set);

/// The set on tiles that a kernel's term is; of one that reads a list, that
/// list's keys, whatever they are within: its number and the size of its
/// groups.
KeySet keySetOf(MLIRContext *context, const ::heddle::bundle::Term &term,
                int64_t list, int64_t group);

/// What a mask keeps of the pairs of a term that reads a list; null for all.
KeySet boundSetOf(MLIRContext *context, const ::heddle::bundle::Term &term);

/// What an element of an array is in a kernel's arithmetic: f32 for bf16 and
/// f16, the element itself otherwise.
Type arithmeticType(Type element);

/// The form of the reductions of shed.for_columns: (add, argmax).
ParseResult parseReductions(OpAsmParser &parser, ArrayAttr &reductions);
void printReductions(OpAsmPrinter &printer, Operation *op,
                     ArrayAttr reductions);
} // namespace mlir::shed

#define GET_OP_CLASSES
#include "heddle/Dialect/Shed/IR/ShedOps.h.inc"

#endif // HEDDLE_DIALECT_SHED_IR_SHED_H
