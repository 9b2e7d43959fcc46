//===- TimestepRunTest.cpp - Runs by timesteps, of shifted logits ---------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Fakes.h"

#include <algorithm>
#include <cmath>
#include <map>

#include <gtest/gtest.h>

using namespace heddle;
using namespace heddle::rt;
using namespace heddle::rt::test;

namespace {

using Prompts = std::vector<std::vector<int32_t>>;
const Prompts raggedPrompts = {{1, 2, 3}, {9}, {5, 6, 7, 8, 30, 31, 0}};

GenerateOptions makeOptions(int64_t length, int64_t steps, TransferRule rule) {
  GenerateOptions options = {.genLength = length,
                             .steps = steps,
                             .blockLength = length,
                             .sampling = {}};
  options.sampling.timesteps = TimestepOptions{.rule = rule};
  return options;
}

FakeModel shiftedModel() {
  FakeModel model;
  model.info.shiftedLogits = true;
  return model;
}

using StepCommits = std::map<int64_t, std::pair<int32_t, double>>;

/// [sequence][step] of what a run commits, and its tokens.
std::vector<std::vector<StepCommits>>
commitsOf(FakeModel &model, const Prompts &prompts,
          const GenerateOptions &options, Generation *generation = nullptr,
          bundle::CommitRule::Kind kind = bundle::CommitRule::Kind::Quota) {
  std::vector<std::vector<StepCommits>> all(prompts.size());
  FakeExecutor executor;
  executor.program.commit.kind = kind;
  Result<Generation> result = generate(
      model, executor, prompts, options, [&](const StepRecord &record) {
        for (auto &sequence : all)
          sequence.emplace_back();
        for (const Commit &commit : record.commits)
          all[commit.sequence].back()[commit.position] = {commit.token,
                                                          commit.confidence};
        EXPECT_EQ(record.totalSteps, options.steps);
        return true;
      });
  EXPECT_TRUE(result) << result.error().text();
  if (result && generation)
    *generation = *result;
  return all;
}

/// The loop as the reference has it, for the likeliest tokens: quotas of what
/// is masked, predictions one row further on.
std::vector<StepCommits> plainLoop(const FakeModel &model,
                                   std::vector<int32_t> sequence,
                                   const GenerateOptions &options) {
  std::vector<StepCommits> all;
  sequence.resize(sequence.size() + options.genLength, FakeModel::mask);
  const int64_t n = static_cast<int64_t>(sequence.size());
  for (int64_t step = 1; step <= options.steps; ++step) {
    std::vector<std::pair<double, int64_t>> order; // -confidence, position
    std::map<int64_t, int32_t> tokens;
    for (int64_t p = 0; p < n; ++p) {
      if (sequence[p] != FakeModel::mask)
        continue;
      const int64_t row =
          model.info.shiftedLogits ? std::max<int64_t>(p - 1, 0) : p;
      std::vector<double> logits;
      for (int64_t v = 0; v < model.info.vocabSize; ++v)
        logits.push_back(model.logit(sequence, row, v));
      auto best = std::max_element(logits.begin(), logits.end());
      double sum = 0;
      for (double l : logits)
        sum += std::exp(l - *best);
      order.push_back({-1 / sum, p});
      tokens[p] = static_cast<int32_t>(best - logits.begin());
    }
    std::sort(order.begin(), order.end());
    const int64_t quota = transferQuota(order.size(), step, options.steps,
                                        options.sampling.timesteps->eps);
    StepCommits commits;
    for (int64_t k = 0; k < quota; ++k)
      commits[order[k].second] = {tokens[order[k].second], -order[k].first};
    for (auto [p, commit] : commits)
      sequence[p] = commit.first;
    all.push_back(commits);
  }
  return all;
}

TEST(TimestepRun, AgreesWithThePlainLoop) {
  for (bool shifted : {true, false})
    for (auto [length, steps] :
         {std::pair(12, 12), std::pair(12, 5), std::pair(7, 20),
          std::pair(1, 1), std::pair(9, 1)}) {
      FakeModel model;
      model.info.shiftedLogits = shifted;
      GenerateOptions options =
          makeOptions(length, steps, TransferRule::MaskgitPlus);
      auto commits = commitsOf(model, raggedPrompts, options);
      for (size_t s = 0; s < raggedPrompts.size(); ++s) {
        auto expected = plainLoop(model, raggedPrompts[s], options);
        ASSERT_EQ(commits[s].size(), expected.size());
        for (size_t step = 0; step < expected.size(); ++step) {
          ASSERT_EQ(commits[s][step].size(), expected[step].size());
          for (auto [p, commit] : expected[step]) {
            ASSERT_TRUE(commits[s][step].count(p)) << step << " " << p;
            EXPECT_EQ(commits[s][step][p].first, commit.first);
            EXPECT_NEAR(commits[s][step][p].second, commit.second, 1e-12);
          }
        }
      }
    }
}

/// With as many steps as tokens the first commits nothing: nothing goes through
/// the head then. Later, the rows before the masked ones do.
TEST(TimestepRun, OnlyPredictingRowsGoThroughTheHead) {
  FakeModel model = shiftedModel();
  commitsOf(model, raggedPrompts, makeOptions(4, 4, TransferRule::Entropy));
  ASSERT_EQ(model.requested.size(), 4u);
  EXPECT_TRUE(model.requested[0].empty());
  // Sequences of 7, 5 and 11 rows behind each other.
  EXPECT_EQ(model.requested[1], (std::vector<int64_t>{2, 3, 4, 5,  //
                                                      7, 8, 9, 10, //
                                                      18, 19, 20, 21}));
}

TEST(TimestepRun, OriginCommitsWhatItDraws) {
  FakeModel model = shiftedModel();
  GenerateOptions options = makeOptions(40, 8, TransferRule::Origin);
  options.sampling.seed = 4;
  Generation generation;
  auto commits = commitsOf(model, raggedPrompts, options, &generation);
  for (size_t s = 0; s < raggedPrompts.size(); ++s) {
    const int64_t prompt = raggedPrompts[s].size();
    std::map<int64_t, int64_t> stepOf;
    for (int64_t p = prompt; p < prompt + 40; ++p)
      for (int64_t step = 1; step <= 8 && !stepOf.count(p); ++step)
        if (isTransferred(options.sampling, step, 8, p))
          stepOf[p] = step;
    size_t total = 0;
    for (int64_t step = 1; step <= 8; ++step)
      for (auto &[p, commit] : commits[s][step - 1]) {
        EXPECT_EQ(stepOf[p], step);
        ++total;
      }
    EXPECT_EQ(total, 40u);
    EXPECT_EQ(std::count(generation.sequences[s].begin(),
                         generation.sequences[s].end(), FakeModel::mask),
              0);
  }
  // Rows of candidates alone: as many as are drawn.
  for (size_t step = 0; step < 8; ++step)
    EXPECT_EQ(model.requested[step].size(), commits[0][step].size() +
                                                commits[1][step].size() +
                                                commits[2][step].size());
}

// Whatever the rule: it goes by the order and asks t for the number alone.
TEST(TimestepRun, ADrawnOrderTakesTheQuota) {
  for (TransferRule rule : {TransferRule::Origin, TransferRule::Entropy}) {
    FakeModel model;
    FakeExecutor executor;
    executor.program.commit.kind = bundle::CommitRule::Kind::RandomOrder;
    GenerateOptions options = makeOptions(12, 8, rule);
    const std::vector<int32_t> order =
        drawOrder(options.genLength, options.sampling.seed);
    std::vector<int64_t> taken;
    Result<Generation> result =
        generate(model, executor, Prompts{{1, 2, 3}}, options,
                 [&](const StepRecord &record) {
                   int64_t masked =
                       options.genLength - static_cast<int64_t>(taken.size());
                   EXPECT_EQ(static_cast<int64_t>(record.commits.size()),
                             transferQuota(masked, record.step, options.steps,
                                           options.sampling.timesteps->eps));
                   for (const Commit &commit : record.commits)
                     taken.push_back(commit.position - 3);
                   std::vector<int64_t> expected(order.begin(),
                                                 order.begin() + taken.size());
                   std::vector<int64_t> sorted = taken;
                   std::sort(sorted.begin(), sorted.end());
                   std::sort(expected.begin(), expected.end());
                   EXPECT_EQ(sorted, expected);
                   return true;
                 });
    ASSERT_TRUE(result) << result.error().text();
    EXPECT_EQ(static_cast<int64_t>(taken.size()), options.genLength);
  }
}

TEST(TimestepRun, ASequenceDoesNotDependOnItsBatch) {
  for (TransferRule rule : {TransferRule::Origin, TransferRule::TopkMargin}) {
    GenerateOptions options = makeOptions(11, 6, rule);
    options.sampling.temperature = 0.8;
    options.sampling.timesteps->topP = 0.9;
    options.sampling.timesteps->ruleTemperature = 0.3;
    using Kind = bundle::CommitRule::Kind;
    for (Kind kind : {Kind::Quota, Kind::RandomOrder}) {
      FakeModel model = shiftedModel();
      auto together = commitsOf(model, raggedPrompts, options, nullptr, kind);
      for (size_t s = 0; s < raggedPrompts.size(); ++s) {
        FakeModel alone = shiftedModel();
        EXPECT_EQ(
            commitsOf(alone, {raggedPrompts[s]}, options, nullptr, kind)[0],
            together[s]);
      }
    }
  }
}

std::string refusal(const GenerateOptions &options) {
  Status status = checkOptions(options);
  return status ? "" : status.error().text();
}

TEST(TimestepRun, RefusesWhatTheSamplerHasNot) {
  GenerateOptions options = makeOptions(8, 4, TransferRule::Origin);
  EXPECT_EQ(refusal(options), "");
  options.blockLength = 4;
  {
    FakeModel model = shiftedModel();
    FakeExecutor executor;
    Result<Generation> run =
        generate(model, executor, raggedPrompts, options, nullptr);
    ASSERT_FALSE(run);
    EXPECT_EQ(run.error().text(),
              "block-length is 4, but the schedule commits by the model's "
              "quota, and sampling by timesteps has one block; it must be "
              "gen-length, 8");
    executor.program.commit.kind = bundle::CommitRule::Kind::Above;
    executor.program.commit.ratio = {1, 2};
    EXPECT_TRUE(generate(model, executor, raggedPrompts, options, nullptr));
  }
  options.blockLength = 8;
  options.sampling.cfgScale = 1;
  EXPECT_EQ(refusal(options),
            "cfg-scale is 1.000000, but sampling by timesteps has no guidance; "
            "it must be 0");
  options.sampling.cfgScale = 0;
  for (double bad : {0.0, 1.0, -1.0, double(NAN)}) {
    options.sampling.timesteps->eps = bad;
    EXPECT_EQ(refusal(options).substr(0, 7), "eps is ");
  }
  options.sampling.timesteps->eps = 0.01;
  for (double bad : {-0.1, 1.1, double(NAN)}) {
    options.sampling.timesteps->topP = bad;
    EXPECT_EQ(refusal(options).substr(0, 9), "top-p is ");
  }
  options.sampling.timesteps->topP = 1;
  options.sampling.timesteps->topK = -1;
  EXPECT_EQ(refusal(options),
            "top-k is -1; it must be at least 1, or 0 for all tokens");
  options.sampling.timesteps->topK = 0;
  options.sampling.timesteps->ruleTemperature = -1;
  EXPECT_EQ(refusal(options).substr(0, 12), "alg-temp is ");
}

} // namespace
