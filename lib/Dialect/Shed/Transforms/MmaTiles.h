//===- MmaTiles.h - What a tiling for warp-wide products takes --*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_DIALECT_SHED_TRANSFORMS_MMATILES_H
#define HEDDLE_LIB_DIALECT_SHED_TRANSFORMS_MMATILES_H

#include "heddle/Dialect/Shed/IR/Shed.h"

namespace mlir::shed {

/// Shared memory of a block in bytes: never less than the lowering takes.
int64_t mmaSharedBytes(KernelOp kernel, MmaTilingAttr tiling);

/// Registers of a thread that hold tiles: the running context, logits, and
/// queries if kept.
int64_t mmaTileRegisters(KernelOp kernel, MmaTilingAttr tiling);

/// Whether each of a machine's limits, an option of a pass by its name, is at
/// least 1. Reports an error on `op`.
LogicalResult checkLimits(Operation *op,
                          ArrayRef<std::pair<StringRef, int64_t>> limits);

} // namespace mlir::shed

#endif // HEDDLE_LIB_DIALECT_SHED_TRANSFORMS_MMATILES_H
