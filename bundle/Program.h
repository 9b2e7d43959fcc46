//===- Program.h - Which phase runs in a layer at a step --------*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The meaning of a manifest's rules and phases, once numbers are known. Pure
// functions.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_BUNDLE_PROGRAM_H
#define HEDDLE_BUNDLE_PROGRAM_H

#include "bundle/Manifest.h"
#include "bundle/Result.h"

#include <cstdint>
#include <vector>

namespace heddle::bundle {

/// The most steps of a run: what depends on the step is tabulated.
inline constexpr int64_t maxSteps = int64_t(1) << 20;

/// For each of `layers` layers the index of its rule. An error when a rule
/// names a layer that there is not, two rules name the same layer, or no rule
/// takes a layer.
Result<std::vector<size_t>> rulesOfLayers(const Manifest &manifest,
                                          int64_t layers);

/// For each step 1 .. totalSteps (entry 0 is step 1) the index of the rule's
/// phase that runs.
std::vector<size_t> phasesOfSteps(const Rule &rule, int64_t totalSteps);

} // namespace heddle::bundle

#endif // HEDDLE_BUNDLE_PROGRAM_H
