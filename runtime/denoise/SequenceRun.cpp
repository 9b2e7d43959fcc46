//===- SequenceRun.cpp - One sequence through its run ---------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/denoise/SequenceRun.h"

#include "runtime/denoise/CommitRule.h"
#include "runtime/sample/Sampler.h"

#include <algorithm>
#include <cassert>
#include <limits>
#include <numeric>
#include <utility>

namespace heddle::rt {

/// What no prediction has.
constexpr double unpredicted = -std::numeric_limits<double>::infinity();

SequenceRun::SequenceRun(std::span<const int32_t> promptTokens,
                         const GenerateOptions &options,
                         const ModelConfig &config,
                         const bundle::CommitRule &rule,
                         std::vector<bundle::DatedCommit> datedRules)
    : rule(rule), dated(std::move(datedRules)),
      untilFull(endsWhenFull(rule, dated)), sampling(options.sampling),
      maskToken(config.maskToken), eosToken(config.eosToken),
      vocab(config.vocabSize), special(config.specialTokens()),
      prompt(static_cast<int64_t>(promptTokens.size())),
      blockLength(options.blockLength),
      blocks(options.genLength / options.blockLength),
      sequence(promptTokens.begin(), promptTokens.end()) {
  sequence.resize(sequence.size() + options.genLength, maskToken);
  auto addLift = [&](int64_t near) {
    if (near > 0)
      lifts.try_emplace(near, near);
  };
  addLift(rule.near);
  for (const bundle::DatedCommit &each : dated)
    addLift(each.rule.near);
  mask.assign(sequence.size(), 0);
  std::fill(mask.begin() + prompt, mask.end(), 1);
  committed.assign(sequence.size(), 0);
  sureness.assign(sequence.size(), unpredicted);
  eos = end = static_cast<int64_t>(sequence.size());
  at.totalSteps = options.steps;
  at.blockSteps = options.steps / blocks;
  if (rule.kind == bundle::CommitRule::Kind::RandomOrder) {
    commitOrder = options.commitOrder.empty()
                      ? drawOrder(options.genLength, sampling.seed)
                      : options.commitOrder;
  } else {
    commitOrder.resize(options.genLength);
    std::iota(commitOrder.begin(), commitOrder.end(), 0);
  }
  for (int32_t &position : commitOrder)
    position += static_cast<int32_t>(prompt);
  beginBlock();
  enterStep();
}

/// Looks up what holds for the step at hand.
void SequenceRun::enterStep() {
  ruleNow = bundle::datedCommitAt(dated, at).value_or(dated.size());
  extra = maskedInBlock() == 0;
  changed = false;
  if (rule.renoises)
    for (int64_t i = blockBegin(); i < blockEnd(); ++i)
      if (mask[i])
        committed[i] = static_cast<int32_t>(at.step - 1);
  findNext();
}

void SequenceRun::beginBlock() {
  maskedAtStart = maskedInBlock();
  committedInBlock = 0;
  committedBefore = 0;
  extraPasses = 0;
}

/// Fills in `upcoming`.
void SequenceRun::findNext() {
  upcoming.clear();
  if (rule.kind != bundle::CommitRule::Kind::RandomOrder)
    return;
  size_t due = static_cast<size_t>(quota());
  for (size_t i = 0; i < commitOrder.size() && upcoming.size() < due; ++i)
    if (isCandidate(commitOrder[i]))
      upcoming.push_back(commitOrder[i]);
}

int64_t SequenceRun::maskedInBlock() const {
  auto begin = mask.begin() + blockBegin();
  return std::count(begin, begin + blockLength, 1);
}

int64_t SequenceRun::maskedInResponse() const {
  return std::count(mask.begin() + prompt, mask.end(), 1);
}

/// Runs that end when full may take more steps than planned: the last one's
/// time then holds on.
int64_t SequenceRun::timestep() const {
  return std::min(at.step, at.totalSteps);
}

bool SequenceRun::isCandidate(int64_t position) const {
  if (!mask[position] || position >= std::min(blockEnd(), end))
    return false;
  return stepRule().kind != bundle::CommitRule::Kind::Quota ||
         !sampling.timesteps ||
         sampling.timesteps->rule != TransferRule::Origin ||
         isTransferred(sampling, timestep(), at.totalSteps, position);
}

/// Of a rule that looks at tokens again.
bool SequenceRun::mayChange(int64_t position) const {
  return !mask[position] && position != eos && position >= blockBegin() &&
         position < std::min(blockEnd(), end) && committed[position] < at.step;
}

bool SequenceRun::needsShadow(int64_t before) const {
  const bundle::CommitRule &rule = stepRule();
  if (!rule.hasShadow() || (rule.byQuota() && quota() == 0))
    return false;
  // Fewer than one or none: it could revoke nothing.
  if (rule.revokeFewerThan == bundle::CommitRule::RevokeFewerThan::StepBefore &&
      before < 2)
    return false;
  int64_t candidates = 0;
  bool any = false;
  for (int64_t i = prompt; i < std::min(blockEnd(), end); ++i) {
    candidates += isCandidate(i);
    any |= isRevocable(i);
  }
  return any && candidates > 1;
}

int64_t SequenceRun::quota() const {
  if (stepRule().kind == bundle::CommitRule::Kind::Timesteps)
    return transferQuota(maskedInBlock(),
                         std::min(at.stepInBlock, at.blockSteps), at.blockSteps,
                         sampling.timesteps.value_or(TimestepOptions()).eps);
  const bool byTimesteps = sampling.timesteps && !stepRule().hasEvenQuota();
  if (byTimesteps && sampling.timesteps->rule == TransferRule::Origin &&
      stepRule().kind == bundle::CommitRule::Kind::Quota)
    return maskedInResponse(); // all that are drawn
  if (byTimesteps)
    return transferQuota(maskedInResponse(), timestep(), at.totalSteps,
                         sampling.timesteps->eps);
  // Without candidates running short this is the step's own quota; rules of
  // other steps may have taken more.
  const int64_t due = commitsDue(maskedAtStart, at.blockSteps,
                                 std::min(at.stepInBlock, at.blockSteps));
  return std::max<int64_t>(0, due - committedInBlock);
}

double SequenceRun::lifted(int64_t position, double confidence) const {
  return stepRule().lifts()
             ? lifts.at(stepRule().near).lifted(confidence, state(), position)
             : confidence;
}

void SequenceRun::predict(int64_t position, double confidence) {
  assert(mask[position] && "a token needs no prediction");
  sureness[position] = confidence;
}

void SequenceRun::commit(int64_t position, int32_t token) {
  assert(mask[position] && "a token was committed twice");
  sequence[position] = token;
  // A model that draws the mask token leaves the position masked, as in the
  // released samplers.
  mask[position] = token == maskToken;
  committed[position] = mask[position] ? 0 : static_cast<int32_t>(at.step);
  ++committedInBlock;
  ++committedNow;
  changed = true;
}

void SequenceRun::revoke(int64_t position) {
  assert(isRevocable(position) && "the token is to stay");
  sequence[position] = maskToken;
  mask[position] = 1;
  committed[position] = static_cast<int32_t>(at.step);
  sureness[position] = unpredicted;
  --committedInBlock;
}

void SequenceRun::edit(int64_t position, int32_t token) {
  assert(isEditable(position) && token != maskToken && "the token is to stay");
  sequence[position] = token;
  committed[position] = static_cast<int32_t>(at.step);
  changed = true;
}

void SequenceRun::advance() {
  if (stepRule().stopAtEos)
    lookForEos();
  if (at.afterEos)
    stopAtEos();
  bool last = untilFull ? maskedInBlock() == 0
                        : at.stepInBlock >= at.blockSteps &&
                              committedInBlock >= maskedAtStart;
  last &= at.stepInBlock >= rule.leastPasses;
  extraPasses += extra;
  // What this step has changed may make another token of something.
  last &= !changed || maskedInBlock() > 0 ||
          extraPasses >= stepRule().furtherPasses;
  ++at.step;
  ++at.stepInBlock;
  committedBefore = std::exchange(committedNow, 0);
  if (last) {
    at.stepInBlock = 1;
    if (++at.block == blocks) {
      finished = true;
      return;
    }
    beginBlock();
  }
  enterStep();
}

/// Finds the response's first EOS, as the step's rule wants it.
void SequenceRun::lookForEos() {
  eos = std::find(sequence.begin() + prompt, sequence.end(), eosToken) -
        sequence.begin();
  at.afterEos = eos < std::ssize(sequence);
  if (at.afterEos && stepRule().narrows)
    end = eos + 1;
}

/// Ends the sequence if no masked position stands before the EOS that was
/// found.
void SequenceRun::stopAtEos() {
  if (std::count(mask.begin(), mask.begin() + eos, 1))
    return;
  for (size_t i = eos; i < sequence.size(); ++i)
    if (mask[i]) {
      sequence[i] = eosToken;
      mask[i] = 0;
    }
  finished = true;
}

} // namespace heddle::rt
