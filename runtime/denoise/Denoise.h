//===- Denoise.h - The denoising loop ---------------------------*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_DENOISE_DENOISE_H
#define HEDDLE_RUNTIME_DENOISE_DENOISE_H

#include "bundle/Result.h"
#include "bundle/program/Manifest.h"
#include "runtime/denoise/StepEngine.h"

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace heddle::rt {

/// What a step did, for observers. Its `blocks` are those of all sequences,
/// whatever ends a block.
struct StepRecord : StepOutcome {
  int64_t step = 0; ///< 1-based
  int64_t totalSteps = 0;
  int64_t block = 0; ///< 0-based; of the hindmost sequence
  /// Whole sequences, after it; until the observer returns.
  std::span<const std::vector<int32_t>> tokens;
  double seconds = 0;
};

/// Returning false ends the run after this step ("interrupted").
using StepObserver = std::function<bool(const StepRecord &)>;

struct Generation {
  std::vector<std::vector<int32_t>> sequences; ///< prompt + generated
  bool complete = false; ///< false when the observer ended the run early
  int64_t stepsDone = 0;
};

/// Checks what needs no model: that lengths are positive and divide (genLength
/// by blockLength, steps by the number of blocks; the error names numbers that
/// would work), that an order of commits has each position once, that
/// temperature and CFG scale are finite and not negative.
Status checkOptions(const GenerateOptions &options);

/// Checks that a schedule's commits and the lengths go together: sampling by
/// timesteps has one block unless no rule goes by the model's quota, an order
/// is given to rules that go by one alone, and drafts are verified where the
/// model says what is committed.
Status checkSchedule(const bundle::Manifest &schedule,
                     const GenerateOptions &options);

/// Checks that there are prompts, none empty, every token in [0, vocabSize) and
/// not the mask token (which the loop would take for a position to fill), and
/// that each fits maxSequenceLength together with genLength.
Status checkPrompts(const ModelConfig &config,
                    std::span<const std::vector<int32_t>> prompts,
                    const GenerateOptions &options);

/// Checks options, prompts and memory; then runs over the ragged batch of
/// prompts: options.steps steps, unless the schedule's commits say otherwise.
Result<Generation> generate(StepEngine &engine,
                            std::span<const std::vector<int32_t>> prompts,
                            const GenerateOptions &options,
                            const StepObserver &observer);

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_DENOISE_DENOISE_H
