//===- Rehearsal.h - A run without a model ----------------------*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Plays the rows of a schedule over one sequence with the runtime's own rules
// and made-up confidences: what is visible, recomputed and committed at each
// step. How many positions these are is that of every run where the schedule
// leaves it to no confidence; which ones is one run of many.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_TOOLS_EXPLAIN_PAGE_REHEARSAL_H
#define HEDDLE_TOOLS_EXPLAIN_PAGE_REHEARSAL_H

#include "bundle/Manifest.h"
#include "bundle/Result.h"

#include <cstdint>
#include <functional>
#include <span>

namespace heddle::explain {

/// The run that is rehearsed: one sequence.
struct RehearsalRequest {
  int64_t steps = 0;       ///< planned
  int64_t length = 0;      ///< tokens, prompt included
  int64_t prompt = 0;      ///< tokens of the prompt
  int64_t blockLength = 0; ///< tokens that are decoded together; 0: all
  uint64_t seed = 1;       ///< of the confidences
};

/// A step of the rehearsal; spans live until the observer returns.
struct RehearsedStep {
  bundle::StepPlace place{};
  std::span<const int32_t> visible{}; ///< positions, ascending
  std::span<const int32_t> live{};    ///< positions whose rows the step takes
                                      ///< through the layers, ascending
  std::span<const int32_t> among{};   ///< of these, those of which the run
                                      ///< decides how many a layer computes
  std::span<const uint8_t> masked{};  ///< [length], before the step
  int64_t logitRows = 0;              ///< rows through the LM head
  std::span<const int32_t> commits{}; ///< positions, ascending
};

/// Positions times steps that a rehearsal takes at most: some seconds.
inline constexpr int64_t maxRehearsed = int64_t(1) << 30;

/// Calls `observer` for each step of the run. Ends with the response, or after
/// twice the planned steps: confidences decide when blocks end that do not
/// commit by quota. An error when the schedule cannot run at these lengths, or
/// steps times length is above maxRehearsed.
Status rehearse(const bundle::Manifest &manifest,
                const RehearsalRequest &request,
                const std::function<void(const RehearsedStep &)> &observer);

} // namespace heddle::explain

#endif // HEDDLE_TOOLS_EXPLAIN_PAGE_REHEARSAL_H
