//===- Shed.h - The shed dialect --------------------------------*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_DIALECT_SHED_IR_SHED_H
#define HEDDLE_DIALECT_SHED_IR_SHED_H

#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

#include <optional>

#include "heddle/Dialect/Shed/IR/ShedDialect.h.inc"
#include "heddle/Dialect/Shed/IR/ShedEnums.h.inc"

#define GET_ATTRDEF_CLASSES
#include "heddle/Dialect/Shed/IR/ShedAttrs.h.inc"

#define GET_TYPEDEF_CLASSES
#include "heddle/Dialect/Shed/IR/ShedTypes.h.inc"

namespace mlir::shed {
/// Head dims of kernels are multiples of the least; with warp-wide products
/// they end at `maxMmaHeadDim`.
constexpr int64_t minHeadDim = 32, maxHeadDim = 512, maxMmaHeadDim = 256;

/// The index list that a set of keys comes from.
struct IndexedSet {
  int64_t index; ///< among the kernel's lists
  int64_t group; ///< query rows that share a list
};
/// None for a set that comes from no list.
std::optional<IndexedSet> indexedSet(Attribute set);

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
