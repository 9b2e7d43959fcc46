//===- Checks.cpp - What a run refuses before it starts -------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/denoise/Denoise.h"

#include "bundle/program/Program.h"

#include <algorithm>
#include <cmath>

namespace heddle::rt {

namespace {

std::string str(int64_t value) { return std::to_string(value); }

/// "48 and 52", or "52" alone: the multiples of `unit` around `value`.
std::string multiplesAround(int64_t value, int64_t unit) {
  int64_t below = value / unit * unit;
  std::string above = str(below + unit);
  return below > 0 ? str(below) + " and " + above : above;
}

/// "25 and 50", or one of them: the divisors of `number` around `value`, which
/// is none itself.
std::string divisorsAround(int64_t number, int64_t value) {
  int64_t below = std::min(value - 1, number);
  while (number % below != 0)
    --below;
  if (value > number)
    return str(below);
  int64_t above = value + 1;
  while (number % above != 0)
    ++above;
  return str(below) + " and " + str(above);
}

/// So that a divisor search ends soon and rows are counted without overflow.
constexpr int64_t largestLength = int64_t(1) << 20;

Status checkRange(const char *name, int64_t value) {
  if (value < 1 || value > largestLength)
    return Error(std::string(name) + " is " + str(value) +
                 "; it must be at least 1 and at most " + str(largestLength));
  return Status::success();
}

Status checkNumber(const char *name, double value) {
  if (!std::isfinite(value) || value < 0)
    return Error(std::string(name) + " is " + std::to_string(value) +
                 "; it must be a finite number that is not negative");
  return Status::success();
}

/// A sampler that goes by t has no guidance.
Status checkTimesteps(const GenerateOptions &options) {
  if (!options.sampling.timesteps)
    return Status::success();
  const TimestepOptions &timesteps = *options.sampling.timesteps;
  if (options.sampling.cfgScale != 0)
    return Error("cfg-scale is " + std::to_string(options.sampling.cfgScale) +
                 ", but sampling by timesteps has no guidance; it must be 0");
  if (!(timesteps.eps > 0 && timesteps.eps < 1))
    return Error("eps is " + std::to_string(timesteps.eps) +
                 "; it must be between 0 and 1");
  if (!(timesteps.topP >= 0 && timesteps.topP <= 1))
    return Error("top-p is " + std::to_string(timesteps.topP) +
                 "; it must be from 0 to 1");
  if (timesteps.topK < 0)
    return Error("top-k is " + str(timesteps.topK) +
                 "; it must be at least 1, or 0 for all tokens");
  return checkNumber("alg-temp", timesteps.ruleTemperature);
}

/// An order names each position of the response once.
Status checkCommitOrder(const GenerateOptions &options) {
  const std::vector<int32_t> &order = options.commitOrder;
  if (order.empty())
    return Status::success();
  if (std::ssize(order) != options.genLength)
    return Error("the order of commits has " + str(std::ssize(order)) +
                 " positions; the response has " + str(options.genLength) +
                 " (gen-length)");
  std::vector<bool> seen(order.size());
  for (int32_t position : order) {
    if (position < 0 || position >= options.genLength)
      return Error("the order of commits has position " + str(position) +
                   "; those of the response are 0 to " +
                   str(options.genLength - 1));
    if (seen[position])
      return Error("the order of commits has position " + str(position) +
                   " twice; each is committed once");
    seen[position] = true;
  }
  return Status::success();
}

} // namespace

Error notFinite(const std::string &where, DType dtype) {
  return Error("the logits of " + where +
               " are not all finite numbers; the model's weights are damaged, "
               "its activations exceed the range of " +
               std::string(name(dtype)) +
               ", or the schedule's `scores` make no number of a logit");
}

Status checkOptions(const GenerateOptions &options) {
  for (auto [name, value] : {std::pair("gen-length", options.genLength),
                             std::pair("block-length", options.blockLength),
                             std::pair("steps", options.steps)})
    if (Status status = checkRange(name, value); !status)
      return status;
  if (options.genLength % options.blockLength != 0)
    return Error("gen-length " + str(options.genLength) +
                 " is not a multiple of block-length " +
                 str(options.blockLength) + "; block-length " +
                 divisorsAround(options.genLength, options.blockLength) +
                 " would work, or gen-length " +
                 multiplesAround(options.genLength, options.blockLength));
  int64_t blocks = options.genLength / options.blockLength;
  if (options.steps % blocks != 0)
    return Error("steps " + str(options.steps) +
                 " cannot be shared equally by the " + str(blocks) +
                 " blocks (gen-length " + str(options.genLength) +
                 " / block-length " + str(options.blockLength) + "); steps " +
                 multiplesAround(options.steps, blocks) + " would work");
  if (Status status = checkNumber("temperature", options.sampling.temperature);
      !status)
    return status;
  if (Status status = checkNumber("cfg-scale", options.sampling.cfgScale);
      !status)
    return status;
  if (Status status = checkCommitOrder(options); !status)
    return status;
  return checkTimesteps(options);
}

Status checkSchedule(const bundle::Manifest &schedule,
                     const GenerateOptions &options) {
  bool byQuota = anyCommit(schedule, [](const bundle::CommitRule &rule) {
    return rule.kind == bundle::CommitRule::Kind::Quota ||
           rule.kind == bundle::CommitRule::Kind::RandomOrder;
  });
  if (options.sampling.timesteps && byQuota &&
      options.blockLength != options.genLength)
    return Error(
        "block-length is " + str(options.blockLength) +
        ", but the schedule commits by the model's quota, and "
        "sampling by timesteps has one block; it must be gen-length, " +
        str(options.genLength));
  const std::optional<TimestepOptions> &timesteps = options.sampling.timesteps;
  const bool byChance = timesteps
                            ? byQuota && timesteps->rule == TransferRule::Origin
                            : options.sampling.remasking == Remasking::Random;
  const std::string chance =
      "which positions a step commits is drawn for each (" +
      std::string(timesteps ? "alg origin" : "remasking random") + ")";
  if (schedule.commit.verifies() && byChance)
    return Error("the schedule verifies drafts, but " + chance +
                 ", so that no earlier step says it; choose another rule, or a "
                 "schedule without `verify`");
  if (byChance && anyCommit(schedule, [](const bundle::CommitRule &rule) {
        return rule.lifts() && rule.hasModelsConfidence();
      }))
    return Error("the schedule commits by confidences that what is near lifts, "
                 "but " +
                 chance +
                 ", whatever they are; choose another rule, or a schedule "
                 "without `near`");
  if (!options.commitOrder.empty() &&
      schedule.commit.kind != bundle::CommitRule::Kind::RandomOrder)
    return Error("an order of commits is given, but the schedule's commits do "
                 "not go by one; write `commit random_order` in it, or leave "
                 "the order out");
  return Status::success();
}

Status checkPrompts(const ModelConfig &config,
                    std::span<const std::vector<int32_t>> prompts,
                    const GenerateOptions &options) {
  if (prompts.empty())
    return Error("there is no prompt; give at least one");
  for (size_t p = 0; p < prompts.size(); ++p) {
    std::string which =
        prompts.size() == 1 ? "the prompt" : "prompt " + str(p + 1);
    int64_t length = static_cast<int64_t>(prompts[p].size());
    if (length == 0)
      return Error(which + " is empty; it must hold at least one token");
    if (options.genLength > config.maxSequenceLength - length) {
      int64_t room = config.maxSequenceLength - length;
      return Error(
          which + " has " + str(length) + " tokens; with gen-length " +
          str(options.genLength) + " that is more than the " +
          str(config.maxSequenceLength) + " positions of the model: " +
          (room > 0 ? "shorten it or use gen-length " + str(room) + " or less"
                    : "shorten it"));
    }
    for (int64_t i = 0; i < length; ++i) {
      int32_t token = prompts[p][i];
      if (token < 0 || token >= config.vocabSize)
        return Error(which + " has token id " + str(token) + " at position " +
                     str(i) + "; the model's ids are 0 to " +
                     str(config.vocabSize - 1));
      if (token == config.maskToken)
        return Error(which + " has the mask token (id " + str(token) +
                     ") at position " + str(i) +
                     "; only positions after the prompt are filled, remove "
                     "it");
    }
  }
  return Status::success();
}

} // namespace heddle::rt
