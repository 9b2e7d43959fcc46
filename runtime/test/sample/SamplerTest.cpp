//===- SamplerTest.cpp - The drawing rules against brute force ------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/sample/Sampler.h"
#include "runtime/sample/Philox.h"

#include <algorithm>
#include <cmath>
#include <gtest/gtest.h>
#include <limits>
#include <numeric>
#include <random>

using namespace heddle::rt;

namespace {

std::vector<float> randomRow(int64_t size, double spread, unsigned seed) {
  std::mt19937 engine(seed);
  std::normal_distribution<float> normal(0, static_cast<float>(spread));
  std::vector<float> row(size);
  for (float &value : row)
    value = normal(engine);
  return row;
}

/// The reference's rules as written down in the documentation, one entry at a
/// time, in long double: exp(l) / (-ln U)^T and a textbook softmax.
Draw bruteForce(std::vector<float> row, const std::vector<float> &other,
                const SampleOptions &options, int64_t step, int64_t position) {
  if (!other.empty())
    for (size_t j = 0; j < row.size(); ++j)
      row[j] = other[j] +
               static_cast<float>(options.cfgScale + 1) * (row[j] - other[j]);
  constexpr float infinity = std::numeric_limits<float>::infinity();
  if (options.logitsEosInf)
    row[options.eosToken] = -infinity;
  Draw draw;
  long double best = -1;
  for (size_t j = 0; j < row.size(); ++j) {
    long double u =
        uniform(options.seed, RandomStream::Gumbel, step, position, j);
    long double value = std::exp(static_cast<long double>(row[j])) /
                        std::pow(-std::log(u), options.temperature);
    if (value > best) {
      best = value;
      draw.token = static_cast<int32_t>(j);
    }
  }
  if (options.remasking == Remasking::Random) {
    draw.confidence =
        uniform(options.seed, RandomStream::Remasking, step, position, 0);
    return draw;
  }
  if (options.confidenceEosEotInf) {
    row[options.eotToken] = -infinity;
    if (options.temperature == 0)
      row[options.eosToken] = -infinity;
  }
  long double sum = 0;
  for (float value : row)
    sum += std::exp(static_cast<long double>(value));
  draw.confidence = static_cast<double>(
      std::exp(static_cast<long double>(row[draw.token])) / sum);
  return draw;
}

TEST(Sampler, AgreesWithBruteForce) {
  int64_t cases = 0, eosDrawn = 0, eotDrawn = 0;
  for (int64_t vocab : {5, 16, 33, 300})
    for (double temperature : {0.0, 0.2, 1.0, 2.5})
      for (double cfgScale : {0.0, 1.5})
        for (Remasking remasking :
             {Remasking::LowConfidence, Remasking::Random})
          for (bool logitsEosInf : {false, true})
            for (bool confidenceInf : {false, true})
              for (unsigned seed = 0; seed < 6; ++seed) {
                SampleOptions options;
                options.temperature = temperature;
                options.cfgScale = cfgScale;
                options.remasking = remasking;
                options.logitsEosInf = logitsEosInf;
                options.confidenceEosEotInf = confidenceInf;
                options.seed = seed * 77777777777ull;
                options.eosToken = 2;
                options.eotToken = 4;
                std::vector<float> row = randomRow(vocab, 2, seed);
                // Both special tokens win often.
                row[2] += seed % 3 == 0 ? 6 : 0;
                row[4] += seed % 3 == 1 ? 6 : 0;
                std::vector<float> other;
                if (cfgScale > 0)
                  other = randomRow(vocab, 2, seed + 100);
                Draw expected =
                    bruteForce(row, other, options, seed + 1, vocab);
                std::vector<float> changed = row;
                Draw draw = drawToken(changed, other, options, seed + 1, vocab);
                EXPECT_EQ(draw.token, expected.token);
                EXPECT_NEAR(draw.confidence, expected.confidence, 1e-13);
                ++cases;
                // A token that is there has what it would have if drawn.
                SampleOptions probable = options;
                probable.remasking = Remasking::LowConfidence;
                expected = bruteForce(row, other, probable, seed + 1, vocab);
                changed = row;
                Draw again = lookAgain(changed, other, options, draw.token);
                EXPECT_EQ(again.token, draw.token);
                EXPECT_NEAR(again.confidence, expected.confidence, 1e-13);
                eosDrawn += draw.token == 2;
                eotDrawn += draw.token == 4;
              }
  EXPECT_EQ(cases, 4 * 4 * 2 * 2 * 2 * 2 * 6);
  EXPECT_GT(eosDrawn, 50);
  EXPECT_GT(eotDrawn, 50);
}

TEST(Sampler, TiesGoToTheLowestIndex) {
  std::vector<float> row(40, 1.0f);
  row[0] = 0;
  EXPECT_EQ(drawToken(row, {}, {}, 1, 0).token, 1);
}

TEST(Sampler, TheEosOptionsActAsInTheReleasedCode) {
  // Token 1 is EOS, token 2 end-of-turn; e^logits = 8, 4, 2, 2.
  const std::vector<float> row = {std::log(4.0f), std::log(8.0f),
                                  std::log(2.0f), std::log(2.0f)};
  auto draw = [&](SampleOptions options, std::vector<float> logits) {
    options.eosToken = 1;
    options.eotToken = 2;
    return drawToken(logits, {}, options, 1, 0);
  };
  EXPECT_EQ(draw({}, row).token, 1);
  EXPECT_NEAR(draw({}, row).confidence, 8.0 / 16, 1e-7);
  // The logit option draws another token, out of the rest.
  EXPECT_EQ(draw({.logitsEosInf = true}, row).token, 0);
  EXPECT_NEAR(draw({.logitsEosInf = true}, row).confidence, 4.0 / 8, 1e-7);
  // The confidence option leaves the draw alone; EOS is committed last.
  EXPECT_EQ(draw({.confidenceEosEotInf = true}, row).token, 1);
  EXPECT_EQ(draw({.confidenceEosEotInf = true}, row).confidence, 0);
  // A token that is neither: renormalised over the rest, at temperature 0
  // without EOS and EOT.
  std::vector<float> plain = row;
  plain[3] = std::log(32.0f);
  EXPECT_EQ(draw({.confidenceEosEotInf = true}, plain).token, 3);
  EXPECT_NEAR(draw({.confidenceEosEotInf = true}, plain).confidence, 32.0 / 36,
              1e-7);
  // Above temperature 0 only end-of-turn leaves the softmax.
  Draw warm = draw({.temperature = 1e-6, .confidenceEosEotInf = true}, row);
  EXPECT_EQ(warm.token, 1);
  EXPECT_NEAR(warm.confidence, 8.0 / 14, 1e-7);
}

TEST(Sampler, UnknownSpecialTokensForbidNothing) {
  std::vector<float> row = {1, 3, 2};
  SampleOptions options;
  options.logitsEosInf = options.confidenceEosEotInf = true;
  EXPECT_EQ(drawToken(row, {}, options, 1, 0).token, 1);
}

TEST(Sampler, ForbiddenTokensCountInConfidences) {
  const double sum = std::exp(1.0) + std::exp(3.0) + std::exp(2.0);
  for (double temperature : {0.0, 0.5}) {
    std::vector<float> row = {1, 3, 2};
    SampleOptions options;
    options.forbiddenToken = 1;
    options.temperature = temperature;
    Draw draw = drawToken(row, {}, options, 1, 0);
    ASSERT_NE(draw.token, 1);
    if (temperature == 0)
      EXPECT_EQ(draw.token, 2);
    EXPECT_NEAR(draw.confidence, std::exp(draw.token == 2 ? 2.0 : 1.0) / sum,
                1e-12);
  }
}

TEST(Sampler, GumbelDrawsFollowTheTemperedSoftmax) {
  // argmax of l + T * Gumbel is a draw from softmax(l / T).
  const std::vector<float> row = {0.0f, 1.0f, 2.0f, -1.0f};
  constexpr int count = 40000;
  for (double temperature : {0.5, 1.0, 2.0}) {
    SampleOptions options;
    options.temperature = temperature;
    options.seed = 9;
    int histogram[4] = {};
    for (int i = 0; i < count; ++i) {
      std::vector<float> logits = row;
      ++histogram[drawToken(logits, {}, options, 1 + i / 500, i % 500).token];
    }
    double sum = 0;
    for (float value : row)
      sum += std::exp(value / temperature);
    for (int j = 0; j < 4; ++j) {
      double p = std::exp(row[j] / temperature) / sum;
      EXPECT_NEAR(histogram[j], p * count, 5 * std::sqrt(count * p * (1 - p)))
          << temperature << " " << j;
    }
  }
}

TEST(Sampler, LargeLogitsDoNotOverflow) {
  // e^2000 is no double; the order is still right.
  SampleOptions options;
  options.temperature = 0.5;
  std::vector<float> row = {2000.0f, 1000.0f, 2100.0f};
  Draw draw = drawToken(row, {}, options, 1, 0);
  EXPECT_EQ(draw.token, 2);
  EXPECT_EQ(draw.confidence, 1);
}

TEST(Sampler, BrokenLogitsGiveNoToken) {
  for (float bad : {std::nanf(""), std::numeric_limits<float>::infinity(),
                    -std::numeric_limits<float>::infinity()})
    for (double temperature : {0.0, 1.0}) {
      std::vector<float> row = randomRow(50, 1, 1);
      row[31] = bad;
      SampleOptions options;
      options.temperature = temperature;
      EXPECT_EQ(drawToken(row, {}, options, 1, 0).token, -1);
    }
  // Guidance can overflow finite logits.
  std::vector<float> row = {3e38f, 0}, other = {-3e38f, 0};
  SampleOptions options;
  options.cfgScale = 1;
  EXPECT_EQ(drawToken(row, other, options, 1, 0).token, -1);
}

TEST(Sampler, AVocabularyOfEosAloneStillDraws) {
  std::vector<float> row = {1.0f};
  SampleOptions options;
  options.logitsEosInf = true;
  options.eosToken = 0;
  for (double temperature : {0.0, 1.0}) {
    options.temperature = temperature;
    std::vector<float> logits = row;
    Draw draw = drawToken(logits, {}, options, 1, 0);
    EXPECT_EQ(draw.token, 0);
    EXPECT_EQ(draw.confidence, 0);
  }
}

TEST(Quotas, FirstStepsTakeTheRemainder) {
  EXPECT_EQ(commitQuotas(8, 4), (std::vector<int64_t>{2, 2, 2, 2}));
  EXPECT_EQ(commitQuotas(11, 4), (std::vector<int64_t>{3, 3, 3, 2}));
  EXPECT_EQ(commitQuotas(2, 4), (std::vector<int64_t>{1, 1, 0, 0}));
  EXPECT_EQ(commitQuotas(0, 3), (std::vector<int64_t>{0, 0, 0}));
  EXPECT_EQ(commitQuotas(5, 1), (std::vector<int64_t>{5}));
  for (int64_t masked = 0; masked < 40; ++masked)
    for (int64_t steps = 1; steps < 50; ++steps) {
      std::vector<int64_t> quotas = commitQuotas(masked, steps);
      EXPECT_EQ(std::accumulate(quotas.begin(), quotas.end(), int64_t(0)),
                masked);
      EXPECT_TRUE(std::is_sorted(quotas.rbegin(), quotas.rend()));
      EXPECT_LE(quotas.front() - quotas.back(), 1);
      for (int64_t done = 0, sum = 0; done <= steps; ++done) {
        EXPECT_EQ(commitsDue(masked, steps, done), sum);
        sum += done < steps ? quotas[done] : 0;
      }
    }
}

// Computed with an independent Philox in Python (heddle_reference/methods).
TEST(DrawOrder, IsFixedForEver) {
  EXPECT_EQ(drawOrder(12, 7),
            (std::vector<int32_t>{6, 2, 8, 7, 10, 5, 11, 3, 1, 0, 9, 4}));
  EXPECT_EQ(drawOrder(8, (uint64_t(1) << 40) + 3),
            (std::vector<int32_t>{1, 0, 3, 5, 7, 4, 2, 6}));
  EXPECT_EQ(drawOrder(0, 7), std::vector<int32_t>{});
}

TEST(LargestConfidence, TakesTheLargestAndOfEqualOnesTheFirst) {
  std::vector<double> confidence = {0.5, 1.0, 0.5, 1.0, 0.5, 0.0};
  EXPECT_EQ(largestConfidence(confidence, 1), (std::vector<int64_t>{1}));
  EXPECT_EQ(largestConfidence(confidence, 2), (std::vector<int64_t>{1, 3}));
  EXPECT_EQ(largestConfidence(confidence, 3), (std::vector<int64_t>{0, 1, 3}));
  EXPECT_EQ(largestConfidence(confidence, 4),
            (std::vector<int64_t>{0, 1, 2, 3}));
  EXPECT_TRUE(largestConfidence(confidence, 0).empty());
  EXPECT_EQ(largestConfidence(confidence, 99).size(), 6u);
}

TEST(LargestConfidence, AgreesWithRepeatedMaximum) {
  std::mt19937 engine(3);
  for (int round = 0; round < 200; ++round) {
    std::vector<double> confidence(engine() % 60);
    for (double &value : confidence)
      value = static_cast<double>(engine() % 8) / 8; // many ties
    int64_t count = confidence.empty() ? 0 : engine() % confidence.size();
    std::vector<double> rest = confidence;
    std::vector<int64_t> order;
    for (int64_t k = 0; k < count; ++k) {
      auto best = std::max_element(rest.begin(), rest.end());
      order.push_back(best - rest.begin());
      *best = -1;
    }
    std::sort(order.begin(), order.end());
    EXPECT_EQ(largestConfidence(confidence, count), order);
  }
}

} // namespace
