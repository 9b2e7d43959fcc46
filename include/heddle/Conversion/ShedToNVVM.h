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

#include "heddle/Dialect/Shed/IR/Shed.h"

#include "mlir/Transforms/DialectConversion.h"

namespace mlir::heddle {

/// What holds for all of an open kernel; see lib/Conversion/ShedToNVVM.
class AttentionFrame;
class SelectFrame;

/// How many scalars a thread has for values of each type, and a pattern for
/// each op. `frame` outlives the patterns.
void populateShedToNVVMPatterns(TypeConverter &converter,
                                RewritePatternSet &patterns,
                                const AttentionFrame &frame);
void populateShedToNVVMPatterns(TypeConverter &converter,
                                RewritePatternSet &patterns,
                                const SelectFrame &frame);

/// Adds patterns for ops of others, or with a greater benefit for those of
/// `shed`.
using MorePatterns =
    llvm::function_ref<void(const TypeConverter &, RewritePatternSet &)>;

/// Replaces a kernel that has an `mma_tiling` by one of the CUDA ABI. What
/// stands in it and works on tiles must be lowered. The dialects that
/// convert-shed-to-nvvm depends on are loaded.
LogicalResult lowerToNVVM(shed::KernelOp kernel, MorePatterns more = {});

} // namespace mlir::heddle

#endif // HEDDLE_CONVERSION_SHEDTONVVM_H
