//===- TimestepsTest.cpp - The sampler that goes by t ---------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/sample/Philox.h"
#include "runtime/sample/Sampler.h"

#include <algorithm>
#include <cmath>
#include <gtest/gtest.h>
#include <limits>
#include <numeric>
#include <random>

using namespace heddle::rt;

namespace {

constexpr double eps = 1e-3;

/// How many tokens each step of a run over `length` masks commits.
std::vector<int64_t> counts(int64_t length, int64_t steps, double last = eps) {
  std::vector<int64_t> all;
  for (int64_t step = 1, masked = length; step <= steps; ++step) {
    all.push_back(transferQuota(masked, step, steps, last));
    masked -= all.back();
  }
  return all;
}

/// `first`, then `count` times `middle`, then `last`.
std::vector<int64_t> run(std::vector<int64_t> first, int64_t count,
                         int64_t middle, std::vector<int64_t> last) {
  first.insert(first.end(), count, middle);
  first.insert(first.end(), last.begin(), last.end());
  return first;
}

/// What the released code commits, as it was seen to.
TEST(TransferQuota, CountsOfTheReleasedCode) {
  for (int64_t n : {64, 128, 256, 512, 768})
    EXPECT_EQ(counts(n, n), run({0}, n - 2, 1, {2})) << n;
  EXPECT_EQ(counts(1024, 1024), run({0, 0}, 1021, 1, {3}));
  EXPECT_EQ(counts(256, 128), run({1}, 126, 2, {3}));
  EXPECT_EQ(counts(512, 256), run({1}, 254, 2, {3}));
  EXPECT_EQ(counts(256, 64), run({3}, 62, 4, {5}));
  EXPECT_EQ(counts(256, 8), run({31}, 6, 32, {33}));
  EXPECT_EQ(counts(32, 8), run({3}, 6, 4, {5}));
  EXPECT_EQ(counts(8, 8), run({0}, 6, 1, {2}));
  EXPECT_EQ(counts(30, 8), (std::vector<int64_t>{3, 3, 3, 4, 4, 4, 4, 5}));
  EXPECT_EQ(counts(40, 25), run(std::vector<int64_t>(11, 1), 13, 2, {3}));
}

TEST(TransferQuota, ARunCommitsEverything) {
  for (int64_t steps : {1, 2, 3, 7, 64, 301})
    for (int64_t length : {1, 2, 10, 127, 300})
      for (double last : {1e-6, eps, 0.1, 0.9}) {
        std::vector<int64_t> all = counts(length, steps, last);
        EXPECT_EQ(std::accumulate(all.begin(), all.end(), int64_t(0)), length);
        EXPECT_GE(*std::min_element(all.begin(), all.end()), 0);
      }
  EXPECT_EQ(transferQuota(0, 1, 4, eps), 0);
  EXPECT_EQ(transferShare(1, 1, eps), 1.0f);
}

TEST(IsTransferred, HappensAsOftenAsTheStepSays) {
  SampleOptions options;
  options.timesteps.emplace();
  options.seed = 9;
  for (int64_t step : {1, 5, 9, 10}) {
    const double share = transferShare(step, 10, eps);
    int64_t drawn = 0;
    for (int64_t position = 0; position < 20000; ++position)
      drawn += isTransferred(options, step, 10, position);
    EXPECT_NEAR(drawn / 20000.0, share, 0.012) << step;
  }
  EXPECT_TRUE(isTransferred(options, 10, 10, 3)) << "the last step takes all";
}

std::vector<float> randomRow(int64_t size, double spread, unsigned seed) {
  std::mt19937 engine(seed);
  std::normal_distribution<float> normal(0, static_cast<float>(spread));
  std::vector<float> row(size);
  for (float &value : row)
    value = normal(engine);
  return row;
}

/// The rules one after the other on a list of (logit, token), in long double.
Draw bruteForce(std::vector<float> row, const SampleOptions &options,
                int64_t step, int64_t position) {
  const TimestepOptions &timesteps = *options.timesteps;
  if (options.temperature > 0)
    for (float &logit : row)
      logit /= static_cast<float>(options.temperature);
  struct Entry {
    float logit;
    int64_t token;
  };
  std::vector<Entry> entries;
  for (float logit : row)
    entries.push_back({logit, static_cast<int64_t>(entries.size())});
  std::sort(entries.begin(), entries.end(), [](auto &a, auto &b) {
    return a.logit != b.logit ? a.logit > b.logit : a.token < b.token;
  });
  auto mass = [&](size_t count) {
    long double sum = 0;
    for (size_t i = 0; i < count; ++i)
      sum += std::exp((long double)entries[i].logit);
    return sum;
  };
  if (timesteps.topP < 1) {
    size_t kept = 1;
    while (kept < entries.size() &&
           mass(kept) / mass(entries.size()) <= timesteps.topP)
      ++kept;
    entries.resize(kept);
  }
  if (timesteps.topK > 0 &&
      timesteps.topK < static_cast<int64_t>(entries.size())) {
    const float least = entries[timesteps.topK - 1].logit;
    while (entries.back().logit < least)
      entries.pop_back();
  }
  const long double total = mass(entries.size());
  auto p = [&](size_t i) {
    return std::exp((long double)entries[i].logit) / total;
  };
  size_t chosen = 0;
  if (options.temperature > 0) {
    long double best = -INFINITY;
    for (size_t i = 0; i < entries.size(); ++i) {
      long double u = uniform(options.seed, RandomStream::Gumbel, step,
                              position, entries[i].token);
      long double value = entries[i].logit - std::log(-std::log(u));
      if (value > best) {
        best = value;
        chosen = i;
      }
    }
  }
  Draw draw;
  draw.token = static_cast<int32_t>(entries[chosen].token);
  if (timesteps.rule == TransferRule::TopkMargin) {
    draw.confidence =
        static_cast<double>(p(0) - (entries.size() > 1 ? p(1) : 0));
  } else if (timesteps.rule == TransferRule::Entropy) {
    long double sum = 0;
    for (size_t i = 0; i < entries.size(); ++i)
      sum += p(i) * std::log(p(i) + 1e-10L);
    draw.confidence = static_cast<double>(sum);
  } else {
    draw.confidence = static_cast<double>(p(chosen));
  }
  return draw;
}

TEST(DrawByTimesteps, AgreesWithBruteForce) {
  for (TransferRule rule : {TransferRule::Origin, TransferRule::MaskgitPlus,
                            TransferRule::TopkMargin, TransferRule::Entropy})
    for (double temperature : {0.0, 0.3, 1.0, 4.0})
      for (double topP : {1.0, 0.95, 0.5, 0.0})
        for (int64_t topK : {0, 1, 2, 17, 500})
          for (unsigned seed = 0; seed < 3; ++seed) {
            SampleOptions options;
            options.temperature = temperature;
            options.seed = seed;
            options.timesteps =
                TimestepOptions{.rule = rule, .topP = topP, .topK = topK};
            std::vector<float> row = randomRow(seed == 2 ? 2 : 133, 3, seed);
            Draw expected = bruteForce(row, options, 3, 11);
            Draw draw = drawByTimesteps(row, options, 3, 11);
            EXPECT_EQ(draw.token, expected.token);
            EXPECT_NEAR(draw.confidence, expected.confidence, 1e-13)
                << int(rule) << " " << temperature << " " << topP << " "
                << topK;
          }
}

TEST(LookAgainByTimesteps, IsTheProbabilityOfWhatIsLeftOfTheSoftmax) {
  int64_t away = 0;
  for (double temperature : {0.0, 0.3, 4.0})
    for (double topP : {1.0, 0.5})
      for (int64_t topK : {0, 2, 17}) {
        SampleOptions options;
        options.temperature = temperature;
        options.timesteps = TimestepOptions{
            .rule = TransferRule::Entropy, .topP = topP, .topK = topK};
        const std::vector<float> row = randomRow(30, 3, 5);
        double sum = 0;
        for (int32_t token = 0; token < 30; ++token) {
          std::vector<float> changed = row;
          const Draw again = lookAgainByTimesteps(changed, options, token);
          EXPECT_EQ(again.token, token);
          sum += again.confidence;
          away += again.confidence == 0;
        }
        EXPECT_NEAR(sum, 1, 1e-12);
        // The one that a draw takes is as sure as the draw.
        std::vector<float> changed = row;
        options.timesteps->rule = TransferRule::MaskgitPlus;
        const Draw draw = drawByTimesteps(changed, options, 3, 11);
        changed = row;
        EXPECT_NEAR(
            lookAgainByTimesteps(changed, options, draw.token).confidence,
            draw.confidence, 1e-15);
      }
  EXPECT_GT(away, 50);
  SampleOptions options;
  options.timesteps = TimestepOptions();
  std::vector<float> broken = {1, NAN};
  EXPECT_EQ(lookAgainByTimesteps(broken, options, 0).token, -1);
}

Draw drawWith(std::vector<float> row, TimestepOptions timesteps,
              double temperature = 0) {
  SampleOptions options;
  options.temperature = temperature;
  options.timesteps = timesteps;
  return drawByTimesteps(row, options, 1, 0);
}

TEST(DrawByTimesteps, TiesGoToTheLowestIndex) {
  const std::vector<float> row = {0, 2, 2, 1, 2};
  EXPECT_EQ(drawWith(row, {}).token, 1);
  // The nucleus of 0.3 holds one of three equals: the first.
  Draw nucleus = drawWith(row, {.rule = TransferRule::MaskgitPlus, .topP = 0});
  EXPECT_EQ(nucleus.token, 1);
  EXPECT_EQ(nucleus.confidence, 1);
  // Top-k keeps what equals the k-th.
  EXPECT_NEAR(drawWith(row, {.topK = 1}).confidence, 1.0 / 3, 1e-15);
  EXPECT_EQ(drawWith(row, {.rule = TransferRule::TopkMargin}).confidence, 0);
}

TEST(DrawByTimesteps, OneTokenLeftIsAsSureAsCanBe) {
  // The 1e-10 of the released code makes it a trifle more than 0.
  EXPECT_NEAR(drawWith({5, 0, 0}, {.rule = TransferRule::Entropy, .topK = 1})
                  .confidence,
              std::log(1 + 1e-10), 1e-24);
  EXPECT_EQ(drawWith({5, 0, 0}, {.rule = TransferRule::TopkMargin, .topK = 1})
                .confidence,
            1);
  EXPECT_EQ(drawWith({5}, {.rule = TransferRule::TopkMargin}).confidence, 1);
}

TEST(DrawByTimesteps, ForbiddenTokensCountInConfidences) {
  const std::vector<float> row = {1, 3, 2, -1};
  double sum = 0, entropy = 0;
  for (float logit : row)
    sum += std::exp(double(logit));
  for (float logit : row) {
    double p = std::exp(double(logit)) / sum;
    entropy += p * std::log(p + 1e-10);
  }
  SampleOptions options;
  options.timesteps.emplace();
  for (int32_t forbidden : {0, 1, 2, 3}) {
    options.forbiddenToken = forbidden;
    const int32_t token = forbidden == 1 ? 2 : 1;
    for (auto [rule, confidence] :
         {std::pair(TransferRule::MaskgitPlus, std::exp(row[token]) / sum),
          std::pair(TransferRule::Entropy, entropy),
          std::pair(TransferRule::TopkMargin,
                    (std::exp(3.0) - std::exp(2.0)) / sum)}) {
      options.timesteps->rule = rule;
      std::vector<float> logits = row;
      Draw draw = drawByTimesteps(logits, options, 1, 0);
      EXPECT_EQ(draw.token, token);
      EXPECT_NEAR(draw.confidence, confidence, 1e-6);
      EXPECT_EQ(logits, row) << "an entropy is of all tokens";
    }
  }
  // The cuts leave the forbidden token alone: then the best of the others.
  options.forbiddenToken = 1;
  options.timesteps->topK = 1;
  options.timesteps->rule = TransferRule::MaskgitPlus;
  for (double temperature : {0.0, 1.0}) {
    options.temperature = temperature;
    std::vector<float> logits = row;
    Draw draw = drawByTimesteps(logits, options, 1, 0);
    EXPECT_EQ(draw.token, 2);
    EXPECT_EQ(draw.confidence, 0);
  }
}

TEST(DrawByTimesteps, LogitsThatAreNotFiniteHaveNoToken) {
  constexpr float infinity = std::numeric_limits<float>::infinity();
  for (float bad : {infinity, -infinity, std::nanf("")})
    EXPECT_EQ(drawWith({1, bad, 2}, {.topP = 0.5, .topK = 2}).token, -1);
  EXPECT_EQ(drawWith({3e38f, 0}, {}, 1e-3).token, -1);
}

TEST(DrawByTimesteps, DrawsFromTheSoftmax) {
  const std::vector<float> row = {1, 0, 2, -1, 0.5f};
  std::vector<double> expected;
  double total = 0;
  for (float logit : row)
    total += std::exp(logit / 0.7);
  for (float logit : row)
    expected.push_back(std::exp(logit / 0.7) / total);
  std::vector<int64_t> seen(row.size());
  SampleOptions options;
  options.temperature = 0.7;
  options.timesteps.emplace();
  constexpr int64_t draws = 20000;
  for (int64_t position = 0; position < draws; ++position) {
    std::vector<float> copy = row;
    ++seen[drawByTimesteps(copy, options, 1, position).token];
  }
  for (size_t j = 0; j < row.size(); ++j)
    EXPECT_NEAR(double(seen[j]) / draws, expected[j], 0.012) << j;
}

/// Keys order positions as draws without replacement from the softmax: the
/// first is position j with its probability.
TEST(TransferKey, OrdersAsDrawsWithoutReplacement) {
  const std::vector<double> confidence = {0.9, 0.5, 0.1};
  SampleOptions options;
  options.timesteps = TimestepOptions{.ruleTemperature = 0.4};
  double total = 0;
  for (double c : confidence)
    total += std::exp(c / 0.4);
  std::vector<int64_t> first(3);
  constexpr int64_t runs = 20000;
  for (int64_t step = 0; step < runs; ++step) {
    std::vector<double> keys;
    for (int64_t p = 0; p < 3; ++p)
      keys.push_back(transferKey(options, confidence[p], step, p));
    ++first[std::max_element(keys.begin(), keys.end()) - keys.begin()];
  }
  for (size_t p = 0; p < 3; ++p)
    EXPECT_NEAR(double(first[p]) / runs, std::exp(confidence[p] / 0.4) / total,
                0.012);
  options.timesteps->ruleTemperature = 0;
  EXPECT_EQ(transferKey(options, 0.25, 1, 1), 0.25);
}

} // namespace
