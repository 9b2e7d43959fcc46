//===- MorePatterns.h - Patterns beside those of a lowering -----*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_CONVERSION_MOREPATTERNS_H
#define HEDDLE_CONVERSION_MOREPATTERNS_H

#include "mlir/Transforms/DialectConversion.h"

namespace mlir::heddle {

/// Adds patterns for ops of others, or with a greater benefit for those of
/// `shed`, of a lowering whose converter this is.
using MorePatterns =
    llvm::function_ref<void(const TypeConverter &, RewritePatternSet &)>;

} // namespace mlir::heddle

#endif // HEDDLE_CONVERSION_MOREPATTERNS_H
