//===- MmaTiling.h - What an mma_tiling asks of its kernel ------*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_DIALECT_SHED_IR_MMATILING_H
#define HEDDLE_DIALECT_SHED_IR_MMATILING_H

#include "heddle/Dialect/Shed/IR/Shed.h"

namespace mlir::shed {

/// Whether the kernel can be cut as its `mma_tiling`, which it has, says: on
/// any GPU, however much memory and registers that has. Reports errors on it.
LogicalResult verifyMmaTiling(KernelOp kernel);

/// Whether blocks of few rows of an attention kernel could share their keys
/// among the warps: each warp has products of its own in a tile, and what half
/// of the warps found fits the place of the tiles. Lists have few keys; f32 is
/// not there to be fast.
bool canShareKeys(KernelOp kernel, MmaTilingAttr tiling);

} // namespace mlir::shed

#endif // HEDDLE_DIALECT_SHED_IR_MMATILING_H
