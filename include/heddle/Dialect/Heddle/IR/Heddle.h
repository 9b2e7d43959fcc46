//===- Heddle.h - The heddle dialect ----------------------------*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_DIALECT_HEDDLE_IR_HEDDLE_H
#define HEDDLE_DIALECT_HEDDLE_IR_HEDDLE_H

#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/IR/PatternMatch.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

#include "heddle/Dialect/Heddle/IR/HeddleDialect.h.inc"
#include "heddle/Dialect/Heddle/IR/HeddleEnums.h.inc"

#define GET_ATTRDEF_CLASSES
#include "heddle/Dialect/Heddle/IR/HeddleAttrs.h.inc"

#define GET_TYPEDEF_CLASSES
#include "heddle/Dialect/Heddle/IR/HeddleTypes.h.inc"

#define GET_OP_CLASSES
#include "heddle/Dialect/Heddle/IR/HeddleOps.h.inc"

namespace mlir::heddle {

/// Group sizes that kernels exist for: powers of two in this range (P2). The
/// bundle's, which PlanOps.cpp holds them to: its namespace `heddle` does not
/// come into every file of the compiler.
inline constexpr int64_t minGroup = 16;
inline constexpr int64_t maxGroup = 1024;

/// The symbol of a kernel's form for an element type ("f32") and head dim, from
/// the tile level to the bundle: "attention_dense_f32_d128".
std::string variantSymbol(StringRef kernel, StringRef elementType,
                          int64_t headDim);

/// The selection that a kernel's term reads; null for a window or sinks.
FlatSymbolRefAttr selectionOf(Attribute term);

} // namespace mlir::heddle

#endif // HEDDLE_DIALECT_HEDDLE_IR_HEDDLE_H
