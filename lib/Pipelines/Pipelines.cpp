//===- Pipelines.cpp - The passes of the first levels ---------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/Pipelines/Pipelines.h"

#include "heddle/Dialect/Heddle/Transforms/Passes.h"

#include "mlir/Transforms/Passes.h"

using namespace mlir;
using namespace mlir::heddle;

void mlir::heddle::populateSchedulePipeline(OpPassManager &pm) {
  // Before canonicalization, which would remove what the check warns of.
  pm.addPass(createHeddleVerifySchedule());
  pm.addPass(createCanonicalizerPass());
  pm.addPass(createCSEPass());
}

void mlir::heddle::populatePlanPipeline(OpPassManager &pm) {
  pm.addPass(createHeddlePlanSteps());
  pm.addPass(createHeddleVerifyPlan());
}
