//===- FallBackToDense.h - Attend to all keys where faster ------*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_DIALECT_HEDDLE_TRANSFORMS_FALLBACKTODENSE_H
#define HEDDLE_LIB_DIALECT_HEDDLE_TRANSFORMS_FALLBACKTODENSE_H

#include "bundle/format/Crossovers.h"
#include "heddle/Dialect/Heddle/IR/Heddle.h"

namespace mlir::heddle {

/// A selection in whose place all keys are attended to.
struct Fallen {
  SelectOp select;
  ::heddle::bundle::Ratio above; ///< lists of more take longer
};

/// Writes `dense` in place of the sets of pairs whose lists take longer on all
/// targets. What read them still verifies.
SmallVector<Fallen> fallBackToDense(ScheduleOp schedule,
                                    ArrayRef<::heddle::bundle::Crossover> table,
                                    ArrayRef<::heddle::bundle::Target> targets);

} // namespace mlir::heddle

#endif // HEDDLE_LIB_DIALECT_HEDDLE_TRANSFORMS_FALLBACKTODENSE_H
