//===- CheckForms.h - Ops that a lowering has no pattern for ----*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_CONVERSION_CHECKFORMS_H
#define HEDDLE_CONVERSION_CHECKFORMS_H

#include "heddle/Dialect/Shed/IR/Shed.h"

#include "mlir/Rewrite/FrozenRewritePatternSet.h"
#include "mlir/Transforms/DialectConversion.h"

namespace mlir::heddle {

/// Refuses, each at its place, ops of a kernel that no pattern is for. (The
/// driver would name the loop around them.) `where`: "on vectors".
inline LogicalResult checkForms(MutableArrayRef<Region> kernel,
                                const ConversionTarget &target,
                                const FrozenRewritePatternSet &patterns,
                                StringRef where) {
  const auto &forms = patterns.getOpSpecificNativePatterns();
  bool good = true;
  for (Region &region : kernel)
    region.walk<WalkOrder::PreOrder>([&](Operation *op) {
      // A yield is its loop's or its function's.
      if (!target.isLegal(op) && !forms.contains(op->getName()) &&
          !isa<shed::YieldOp>(op)) {
        op->emitOpError() << "has no form " << where
                          << "; compile for a target that has one, or add a "
                             "pattern for it";
        good = false;
      }
      // What is inside of scores is their pattern's.
      return isa<shed::ScoresOp>(op) ? WalkResult::skip()
                                     : WalkResult::advance();
    });
  return success(good);
}

} // namespace mlir::heddle

#endif // HEDDLE_CONVERSION_CHECKFORMS_H
