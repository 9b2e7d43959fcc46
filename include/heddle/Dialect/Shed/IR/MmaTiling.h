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

} // namespace mlir::shed

#endif // HEDDLE_DIALECT_SHED_IR_MMATILING_H
