//===- Pipelines.h - The passes of the first levels -------------*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// One function a level; each ends with the pass that checks what the next one
// relies on.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_PIPELINES_PIPELINES_H
#define HEDDLE_PIPELINES_PIPELINES_H

#include "bundle/format/Crossovers.h"

#include "mlir/Pass/PassManager.h"

namespace mlir::heddle {

/// Afterwards each schedule is in canonical form: unions flat and sorted,
/// values that nothing reads are gone. The module holds schedules only.
void populateSchedulePipeline(OpPassManager &pm);

/// Afterwards each schedule is a `heddle.plan`: phases partition the steps,
/// every read of a selection has an earlier write, each distinct kernel is
/// named once. Selections that keep more than is faster on all targets, by the
/// table, have fallen back to dense attention.
void populatePlanPipeline(OpPassManager &pm,
                          ArrayRef<::heddle::bundle::Crossover> crossovers = {},
                          ArrayRef<::heddle::bundle::Target> targets = {});

// What follows is each machine's own: Backend::populateTilePasses(),
// populatePipelinePasses() and populateMachinePasses().

} // namespace mlir::heddle

#endif // HEDDLE_PIPELINES_PIPELINES_H
