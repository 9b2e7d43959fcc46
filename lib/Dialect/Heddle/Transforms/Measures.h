//===- Measures.h - What the phases of a plan measure -----------*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_DIALECT_HEDDLE_TRANSFORMS_MEASURES_H
#define HEDDLE_LIB_DIALECT_HEDDLE_TRANSFORMS_MEASURES_H

#include "heddle/Dialect/Heddle/IR/Heddle.h"

namespace mlir::heddle {

/// Adds the signals that cadences by drift go by to the phases of a plan that
/// has none of them, once all else is there.
void addMeasures(PlanOp plan);

} // namespace mlir::heddle

#endif // HEDDLE_LIB_DIALECT_HEDDLE_TRANSFORMS_MEASURES_H
