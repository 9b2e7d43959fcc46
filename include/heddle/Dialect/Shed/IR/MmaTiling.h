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

/// Whether blocks of few rows of attention without lists could share their keys
/// among the warps: each warp has products of its own in a tile, and what half
/// of the warps found fits the place of the tiles. Lists have few keys; f32 is
/// not there to be fast.
bool canShareKeys(Type element, int64_t headDim, MmaTilingAttr tiling);

/// Whether `op` can select for groups of `group` rows by the tiling. Reports
/// errors on it.
LogicalResult verifySelectTiling(Operation *op, int64_t group,
                                 MmaTilingAttr tiling);

/// Of a kernel that scores by mean logits: rows of its tiling for each group
/// that a block scores, and the shared memory for the means of `count` groups,
/// or, where it chooses `blocks`, of groups or blocks.
inline constexpr int64_t rowsForMean = 8;
int64_t meanBytes(int64_t channels, bool blocks, int64_t count);

/// Blocks of keys whose means a warp has at once there.
inline constexpr int64_t blocksTogether = 4;

} // namespace mlir::shed

#endif // HEDDLE_DIALECT_SHED_IR_MMATILING_H
