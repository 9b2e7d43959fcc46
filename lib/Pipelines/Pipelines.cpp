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
  // Values that CSE finds to be equal may stand twice in a union, and what is
  // united once may be equal to something else: until nothing changes, so that
  // the canonical form of what is printed is what is printed. Each round takes
  // an op or an operand away.
  constexpr int mostRounds = 10000;
  pm.addPass(createCompositeFixedPointPass(
      "HeddleCanonicalForm",
      [](OpPassManager &round) {
        round.addPass(createCanonicalizerPass());
        round.addPass(createCSEPass());
      },
      mostRounds));
}

void mlir::heddle::populatePlanPipeline(
    OpPassManager &pm, ArrayRef<::heddle::bundle::Crossover> crossovers,
    ArrayRef<::heddle::bundle::Target> targets) {
  pm.addPass(createHeddlePlanSteps(crossovers, targets));
  pm.addPass(createHeddleVerifyPlan());
}
