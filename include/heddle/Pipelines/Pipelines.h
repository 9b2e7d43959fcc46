//===- Pipelines.h - The passes of each level -------------------*- C++ -*-===//
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

#include "heddle/Support/TargetInfo.h"

#include "mlir/Pass/PassManager.h"

#include <string>

namespace mlir::heddle {

/// Afterwards each schedule is in canonical form: unions flat and sorted,
/// values that nothing reads are gone. The module holds schedules only.
void populateSchedulePipeline(OpPassManager &pm);

/// Afterwards each schedule is a `heddle.plan`: phases partition the steps,
/// every read of a selection has an earlier write, each distinct kernel is
/// named once.
void populatePlanPipeline(OpPassManager &pm);

/// Which forms of each kernel are made.
struct ShedPipelineOptions {
  /// One for each pair of an element type ("f32", "bf16") and a head dim.
  SmallVector<std::string> elementTypes;
  SmallVector<int64_t> headDims;
};

/// Afterwards the module also holds a `shed.kernel` for every kernel of its
/// plans, element type and head dim, all with static tile shapes that fit the
/// machine `target`.
void populateShedPipeline(OpPassManager &pm,
                          const ::heddle::HostTargetInfo &target,
                          const ShedPipelineOptions &options);

/// Afterwards each `shed.kernel` is a function of the kernel ABI in upstream
/// dialects (func, scf, arith, vector, llvm), simplified. No plan may be left.
void populateMachinePipeline(OpPassManager &pm);

} // namespace mlir::heddle

#endif // HEDDLE_PIPELINES_PIPELINES_H
