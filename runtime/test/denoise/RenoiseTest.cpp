//===- RenoiseTest.cpp - Blocks whose masks are noise ---------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Fakes.h"

#include "runtime/denoise/SequenceRun.h"
#include "runtime/sample/Philox.h"

#include <cmath>
#include <gtest/gtest.h>
#include <map>
#include <set>
#include <tuple>

using namespace heddle;
using namespace heddle::rt;
using namespace heddle::rt::test;

namespace {

using Kind = bundle::CommitRule::Kind;
using Tokens = std::vector<int32_t>;

GenerateOptions lengths(int64_t gen, int64_t block, int64_t steps) {
  return {
      .genLength = gen, .steps = steps, .blockLength = block, .sampling = {}};
}

bundle::CommitRule best(int64_t count) {
  bundle::CommitRule rule;
  rule.kind = Kind::Best;
  rule.count = count;
  rule.renoises = true;
  return rule;
}

/// By python/heddle_reference, which states the generator in NumPy.
TEST(Noise, IsThatOfTheReference) {
  const Tokens special = {3, 40};
  auto drawn = [&](uint64_t seed) {
    Tokens tokens;
    for (int64_t step : {1, 2})
      for (int64_t position : {0, 1, 2})
        tokens.push_back(drawNoise(41, special, seed, step, position));
    return tokens;
  };
  EXPECT_EQ(drawn(0), (Tokens{19, 34, 38, 32, 21, 4}));
  EXPECT_EQ(drawn(7), (Tokens{10, 0, 30, 36, 13, 34}));
  EXPECT_EQ(drawn((uint64_t(1) << 40) + 5), (Tokens{21, 32, 23, 21, 27, 25}));
}

TEST(Noise, IsOfAllTokensButThoseLeftOut) {
  const Tokens special = {0, 5, 6, 11};
  std::map<int32_t, int> counts;
  constexpr int draws = 8000;
  for (int64_t position = 0; position < draws; ++position)
    ++counts[drawNoise(12, special, 3, 1, position)];
  EXPECT_EQ(counts.size(), 8u);
  for (const auto &[token, count] : counts) {
    EXPECT_FALSE(std::count(special.begin(), special.end(), token)) << token;
    EXPECT_NEAR(count, draws / 8, 150);
  }
  EXPECT_EQ(drawNoise(12, {}, 3, 1, 0), drawNoise(12, {}, 3, 1, 0));
  EXPECT_EQ(drawNoise(1, {}, 3, 1, 0), 0);
}

TEST(ModelConfig, NamesItsSpecialTokensOnce) {
  ModelConfig config;
  config.maskToken = 9;
  EXPECT_EQ(config.specialTokens(), Tokens{9});
  config.eosToken = 3;
  config.padToken = 3;
  EXPECT_EQ(config.specialTokens(), (Tokens{3, 9}));
  config.padToken = 12;
  EXPECT_EQ(config.specialTokens(), (Tokens{3, 9, 12}));
}

ModelConfig config() {
  ModelConfig config;
  config.vocabSize = 41;
  config.maskToken = FakeModel::mask;
  config.eosToken = 3;
  return config;
}

const Tokens prompt = {5, 6};

TEST(SequenceRun, MasksOfTheBlockAreReadAsNoise) {
  GenerateOptions options = lengths(6, 3, 6);
  options.sampling.seed = 7;
  SequenceRun run(prompt, options, config(), best(1));
  auto noise = [&](int64_t step, int64_t position) {
    return drawNoise(41, config().specialTokens(), 7, step, position);
  };
  EXPECT_EQ(run.input(1), 6) << "the prompt";
  for (int64_t i : {2, 3, 4}) {
    EXPECT_EQ(run.input(i), noise(1, i));
    EXPECT_EQ(run.tokens()[i], FakeModel::mask) << "what is known of it";
    EXPECT_EQ(run.committedAt()[i], 0);
  }
  EXPECT_EQ(run.input(5), FakeModel::mask) << "behind the block";
  run.commit(3, 8);
  run.advance();
  EXPECT_EQ(run.input(3), 8);
  EXPECT_EQ(run.input(2), noise(2, 2));
  EXPECT_EQ(run.committedAt()[2], 1) << "other noise than at step 1";
  EXPECT_EQ(run.committedAt()[3], 1);
  EXPECT_EQ(run.committedAt()[5], 0);
  run.commit(2, 8);
  run.advance();
  EXPECT_EQ(run.committedAt()[3], 1);
  run.commit(4, 8);
  run.advance();
  EXPECT_EQ(run.place().block, 1);
  EXPECT_EQ(run.input(5), noise(4, 5)) << "the run's fourth step";
  EXPECT_EQ(run.committedAt()[5], 3) << "a mask at step 3";
}

TEST(SequenceRun, WhatIsRevokedIsNoiseAgain) {
  bundle::CommitRule rule = best(2);
  rule.revokeBelow = {1, 1};
  SequenceRun run(prompt, lengths(6, 6, 6), config(), rule);
  run.commit(2, 8);
  run.commit(3, 8);
  run.advance();
  run.commit(4, 8);
  run.commit(5, 8);
  run.revoke(3);
  run.advance();
  EXPECT_EQ(run.tokens()[3], FakeModel::mask);
  EXPECT_EQ(run.input(3), drawNoise(41, config().specialTokens(), 0, 3, 3));
}

TEST(SequenceRun, MasksAreMasksWithoutNoise) {
  bundle::CommitRule rule = best(1);
  rule.renoises = false;
  SequenceRun run(prompt, lengths(6, 3, 6), config(), rule);
  EXPECT_EQ(run.input(2), FakeModel::mask);
  run.commit(3, 8);
  run.advance();
  EXPECT_EQ(run.committedAt()[2], 0);
}

/// What a step committed: position, token and probability.
using StepMade = std::map<int64_t, std::pair<int32_t, double>>;

/// One sequence alone under `commit best(k) renoise`, as the Spec has it.
std::vector<StepMade> plainRenoising(const FakeModel &model,
                                     const Tokens &start,
                                     const GenerateOptions &options,
                                     int64_t count, Tokens &sequence) {
  const auto begin = static_cast<int64_t>(start.size());
  sequence = start;
  sequence.resize(start.size() + options.genLength, FakeModel::mask);
  Tokens ordinary;
  for (int32_t token = 0; token < model.info.vocabSize; ++token)
    if (token != FakeModel::mask && token != model.info.eosToken)
      ordinary.push_back(token);
  std::vector<StepMade> all;
  for (int64_t first = begin; first < std::ssize(sequence);
       first += options.blockLength) {
    std::set<int64_t> open;
    for (int64_t p = first; p < first + options.blockLength; ++p)
      open.insert(p);
    while (!open.empty()) {
      const int64_t step = std::ssize(all) + 1;
      Tokens read = sequence;
      for (int64_t p : open)
        read[p] = ordinary[static_cast<size_t>(
            uniform(options.sampling.seed, RandomStream::Noise, step, p, 0) *
            static_cast<double>(ordinary.size()))];
      Tokens without = read;
      std::fill_n(without.begin(), begin, FakeModel::mask);
      std::vector<std::tuple<double, int64_t, int32_t>> order;
      for (int64_t p : open) {
        std::vector<double> chances;
        double sum = 0;
        for (int64_t v = 0; v < model.info.vocabSize; ++v) {
          const auto scale = static_cast<float>(options.sampling.cfgScale);
          float logit = model.logit(read, p, v);
          if (scale > 0) {
            const float other = model.logit(without, p, v);
            logit = other + (scale + 1) * (logit - other);
          }
          sum += chances.emplace_back(std::exp(double(logit)));
        }
        const auto likely =
            std::max_element(chances.begin(), chances.end() - 1);
        order.emplace_back(-*likely / sum, p, likely - chances.begin());
      }
      std::sort(order.begin(), order.end());
      order.resize(std::min<size_t>(order.size(), count));
      StepMade &made = all.emplace_back();
      for (auto [doubt, p, token] : order) {
        made[p] = {token, -doubt};
        sequence[p] = token;
        open.erase(p);
      }
    }
  }
  return all;
}

const std::vector<Tokens> raggedPrompts = {
    {1, 2, 3}, {9}, {5, 6, 7, 8, 30, 31, 0}};

/// Against the plain loop.
void compare(int64_t count, const GenerateOptions &options, bool drawsMasks) {
  FakeModel model;
  model.drawsMasks = drawsMasks;
  FakeExecutor executor;
  executor.program.commit = best(count);
  std::vector<std::vector<StepMade>> got(raggedPrompts.size());
  std::set<std::pair<size_t, size_t>> known;
  Result<Generation> result = generate(
      model, executor, raggedPrompts, options, [&](const StepRecord &record) {
        for (auto &sequence : got)
          sequence.emplace_back();
        for (const Commit &each : record.commits) {
          got[each.sequence].back()[each.position] = {each.token,
                                                      each.confidence};
          known.insert({each.sequence, each.position});
        }
        for (size_t s = 0; s < got.size(); ++s)
          for (size_t i = raggedPrompts[s].size(); i < record.tokens[s].size();
               ++i)
            EXPECT_EQ(record.tokens[s][i] == FakeModel::mask,
                      known.count({s, i}) == 0)
                << "noise is told as a mask";
        return true;
      });
  ASSERT_TRUE(result) << result.error().text();
  for (size_t s = 0; s < raggedPrompts.size(); ++s) {
    Tokens expected;
    std::vector<StepMade> made =
        plainRenoising(model, raggedPrompts[s], options, count, expected);
    EXPECT_EQ(result->sequences[s], expected);
    ASSERT_GE(got[s].size(), made.size());
    for (size_t step = 0; step < made.size(); ++step) {
      ASSERT_EQ(got[s][step].size(), made[step].size()) << "step " << step + 1;
      for (auto [position, each] : made[step]) {
        EXPECT_EQ(got[s][step][position].first, each.first);
        EXPECT_NEAR(got[s][step][position].second, each.second, 1e-5);
      }
    }
  }
}

TEST(Generate, RenoisesAsThePlainLoopDoes) {
  for (uint64_t seed : {0, 5})
    for (int64_t count : {1, 3})
      for (int64_t block : {4, 8, 24})
        for (double guidance : {0.0, 1.5}) {
          GenerateOptions options = lengths(24, block, 24);
          options.sampling.seed = seed;
          options.sampling.cfgScale = guidance;
          SCOPED_TRACE("guidance " + std::to_string(guidance) + ", blocks of " +
                       std::to_string(block) + ", count " +
                       std::to_string(count));
          compare(count, options, /*drawsMasks=*/false);
        }
}

TEST(Generate, NoMaskIsDrawnInTheNoise) {
  compare(2, lengths(24, 8, 24), /*drawsMasks=*/true);
  // Not by planned steps either, which else may draw it.
  FakeModel model;
  model.drawsMasks = true;
  FakeExecutor executor;
  executor.program.commit.renoises = true;
  Result<Generation> result =
      generate(model, executor, raggedPrompts, lengths(16, 8, 8), {});
  ASSERT_TRUE(result) << result.error().text();
  EXPECT_EQ(result->stepsDone, 8);
  for (const Tokens &sequence : result->sequences)
    EXPECT_EQ(std::count(sequence.begin(), sequence.end(), FakeModel::mask), 0);
}

/// A copy that is drafted reads the noise of its own step.
TEST(Generate, DraftsAreVerifiedInTheirOwnNoise) {
  for (float told : {1.0f, 0.02f}) {
    std::vector<std::vector<Tokens>> made;
    std::vector<int64_t> passes;
    for (int64_t drafts : {0, 3}) {
      FakeModel model;
      model.told = told;
      FakeExecutor executor;
      executor.program.commit = best(2);
      executor.program.commit.drafts = drafts;
      int64_t count = 0;
      Result<Generation> result =
          generate(model, executor, raggedPrompts, lengths(24, 8, 24),
                   [&](const StepRecord &) { return ++count > 0; });
      ASSERT_TRUE(result) << result.error().text();
      made.push_back(result->sequences);
      passes.push_back(count);
    }
    EXPECT_EQ(made[0], made[1]);
    EXPECT_LE(passes[1], passes[0]);
    EXPECT_TRUE(told == 1 || passes[1] < passes[0]) << "drafts hold";
  }
}

TEST(Generate, NoiseNeedsTokens) {
  FakeModel model;
  model.info.vocabSize = 2;
  model.info.maskToken = 1;
  model.info.eosToken = 0;
  FakeExecutor executor;
  executor.program.schedule = "s";
  executor.program.commit = best(1);
  Result<Generation> result =
      generate(model, executor, std::vector<Tokens>{{0}}, lengths(4, 4, 4), {});
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().text(),
            "the schedule 's' puts noise in the place of masks (`renoise`), "
            "and the model's vocabulary has special tokens alone, 2; leave "
            "`renoise` out");
}

} // namespace
