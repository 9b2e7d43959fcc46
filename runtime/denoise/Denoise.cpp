//===- Denoise.cpp - The denoising loop -----------------------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/denoise/Denoise.h"

#include <algorithm>
#include <chrono>

namespace heddle::rt {

namespace {

/// The tokens of a run as an observer sees them: prompts and masks at first,
/// then one commit after the other.
std::vector<std::vector<int32_t>>
startTokens(std::span<const std::vector<int32_t>> prompts, int64_t genLength,
            int32_t mask) {
  std::vector<std::vector<int32_t>> tokens(prompts.begin(), prompts.end());
  for (std::vector<int32_t> &sequence : tokens)
    sequence.resize(sequence.size() + genLength, mask);
  return tokens;
}

/// The least block of those that are not done.
int64_t hindmost(std::span<const int64_t> blocks) {
  int64_t least = INT64_MAX;
  for (int64_t block : blocks)
    if (block >= 0)
      least = std::min(least, block);
  return least;
}

} // namespace

Result<Generation> generate(StepEngine &engine,
                            std::span<const std::vector<int32_t>> prompts,
                            const GenerateOptions &options,
                            const StepObserver &observer) {
  if (Status status = checkOptions(options); !status)
    return status.takeError();
  if (Status status = checkPrompts(engine.config(), prompts, options); !status)
    return status.takeError();
  if (Status status = engine.beginRun(prompts, options); !status)
    return status.takeError();

  const int64_t stepsPerBlock =
      options.steps / (options.genLength / options.blockLength);
  std::vector<std::vector<int32_t>> seen;
  if (observer)
    seen = startTokens(prompts, options.genLength, engine.config().maskToken);
  Generation generation;
  for (int64_t step = 1; !engine.finished(); ++step) {
    auto start = std::chrono::steady_clock::now();
    StepPlace place{.step = step,
                    .block = (step - 1) / stepsPerBlock,
                    .stepInBlock = (step - 1) % stepsPerBlock};
    StepRecord record;
    if (Status status = engine.step(place, observer ? &record : nullptr);
        !status)
      return status.takeError().withContext("step " + std::to_string(step) +
                                            " of " +
                                            std::to_string(options.steps));
    generation.stepsDone = step;
    if (!observer)
      continue;
    for (const Commit &commit : record.commits)
      seen[commit.sequence][commit.position] = commit.token;
    std::chrono::duration<double> elapsed =
        std::chrono::steady_clock::now() - start;
    record.step = step;
    record.totalSteps = std::max(step, options.steps);
    if (record.blocks.empty())
      record.blocks.assign(prompts.size(), place.block);
    record.block = hindmost(record.blocks);
    record.tokens = seen;
    record.seconds = elapsed.count();
    if (!observer(record))
      break;
  }
  generation.complete = engine.finished();
  if (Status status = engine.tokens().moveTo(generation.sequences); !status)
    return status.takeError();
  return generation;
}

} // namespace heddle::rt
