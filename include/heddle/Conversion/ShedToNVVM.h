//===- ShedToNVVM.h - Patterns from tiles to CUDA threads -------*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A kernel is first pipelined: its function stands, arguments are loaded, loops
// over tiles and asynchronous copies are explicit. What is computed on tiles
// are still the ops of `shed`, in a task. Then patterns lower each of these for
// what its operands are; a tile or softmax becomes the scalars that a thread
// has of it.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_CONVERSION_SHEDTONVVM_H
#define HEDDLE_CONVERSION_SHEDTONVVM_H

#include "heddle/Conversion/MorePatterns.h"
#include "heddle/Dialect/Shed/IR/Shed.h"

namespace mlir::heddle {

/// Replaces a kernel that has an `mma_tiling` by a function of the CUDA ABI
/// with its tasks, as shed-pipeline-copies does; the dialects that the pass
/// depends on are loaded.
LogicalResult pipelineCopies(shed::KernelOp kernel);

/// Lowers the tasks below `root`, as convert-shed-to-nvvm does. What stands in
/// them and works on tiles must be lowered.
LogicalResult lowerShedToNVVM(Operation *root, MorePatterns more = {});

} // namespace mlir::heddle

#endif // HEDDLE_CONVERSION_SHEDTONVVM_H
