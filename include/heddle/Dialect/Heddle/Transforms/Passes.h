//===- Passes.h - Passes on schedules and plans -----------------*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_DIALECT_HEDDLE_TRANSFORMS_PASSES_H
#define HEDDLE_DIALECT_HEDDLE_TRANSFORMS_PASSES_H

#include "bundle/format/Crossovers.h"

#include "mlir/Pass/Pass.h"

#include <memory>

namespace mlir {
class ModuleOp;
} // namespace mlir

namespace mlir::heddle {

#define GEN_PASS_DECL
#include "heddle/Dialect/Heddle/Transforms/Passes.h.inc"

/// `heddle-plan-steps` by a table, for machines.
std::unique_ptr<Pass>
createHeddlePlanSteps(ArrayRef<::heddle::bundle::Crossover> table,
                      ArrayRef<::heddle::bundle::Target> targets);

#define GEN_PASS_REGISTRATION
#include "heddle/Dialect/Heddle/Transforms/Passes.h.inc"

} // namespace mlir::heddle

#endif // HEDDLE_DIALECT_HEDDLE_TRANSFORMS_PASSES_H
