//===- ShedToNVVM.h - Patterns from tiles to CUDA threads -------*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A kernel is first opened: its function stands, arguments are loaded, loops
// over tiles and asynchronous copies are explicit. What is computed on tiles
// are still the ops of `shed`. Then patterns lower each of these for what its
// operands are; a tile or softmax becomes the scalars that a thread has of it.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_CONVERSION_SHEDTONVVM_H
#define HEDDLE_CONVERSION_SHEDTONVVM_H

#include "heddle/Conversion/MorePatterns.h"
#include "heddle/Dialect/Shed/IR/Shed.h"

namespace mlir::heddle {

/// Replaces a kernel that has an `mma_tiling` by one of the CUDA ABI. What
/// stands in it and works on tiles must be lowered. The dialects that
/// convert-shed-to-nvvm depends on are loaded.
LogicalResult lowerShedToNVVM(shed::KernelOp kernel, MorePatterns more = {});

} // namespace mlir::heddle

#endif // HEDDLE_CONVERSION_SHEDTONVVM_H
