//===- Warp.h - The warp dialect -------------------------------*- C++ -*--===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_DIALECT_WARP_IR_WARP_H
#define HEDDLE_DIALECT_WARP_IR_WARP_H

#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/Dialect/LLVMIR/LLVMTypes.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/Interfaces/ControlFlowInterfaces.h"
#include "mlir/Interfaces/InferTypeOpInterface.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

#include "heddle/Dialect/Warp/IR/WarpDialect.h.inc"
#include "heddle/Dialect/Warp/IR/WarpEnums.h.inc"

#define GET_ATTRDEF_CLASSES
#include "heddle/Dialect/Warp/IR/WarpAttrs.h.inc"

#define GET_TYPEDEF_CLASSES
#include "heddle/Dialect/Warp/IR/WarpTypes.h.inc"

namespace mlir::warp {
/// Rows of a warpgroup, and its threads.
constexpr int64_t warpgroupRows = 64, warpgroupThreads = 128;

/// Tiles begin at multiples of so many bytes.
constexpr int64_t tileAlignment = 1024;

/// Registers that the threads of a block share.
constexpr int64_t blockRegisters = 65536;

/// The attribute of a function that holds its `#warp.pipeline`.
constexpr char pipelineName[] = "warp.pipeline";
} // namespace mlir::warp

#define GET_OP_CLASSES
#include "heddle/Dialect/Warp/IR/WarpOps.h.inc"

#endif // HEDDLE_DIALECT_WARP_IR_WARP_H
