//===- SelectTest.cpp - Scores and selections against float64 -------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "KernelHarness.h"

#include <algorithm>
#include <cmath>
#include <gtest/gtest.h>
#include <numeric>

using namespace heddle;
using namespace heddle::test;

namespace {

const int64_t lengths[] = {1, 2, 15, 17, 64, 65, 129, 300};
const int64_t groups[] = {16, 32, 64, 128, 256};

/// Mean probability of each key over each group's rows.
std::vector<float> evaluateScores(const Sequence &s, int64_t group) {
  std::vector<float> scores;
  std::vector<float> lse = evaluate(s, {}).lse;
  for (int64_t h = 0; h < s.heads; ++h)
    for (int64_t first = 0; first < s.n; first += group) {
      int64_t end = std::min(first + group, s.n);
      for (int64_t j = 0; j < s.n; ++j) {
        double sum = 0;
        for (int64_t i = first; i < end; ++i)
          sum += std::exp2(s.logit(i, j, h) - lse[h * s.n + i]);
        scores.push_back(
            static_cast<float>(sum / static_cast<double>(end - first)));
      }
    }
  return scores;
}

/// The `keep` best of each group, lowest index first among equals.
std::vector<int32_t> bruteForce(const std::vector<float> &scores, int64_t n,
                                int64_t keep) {
  std::vector<int32_t> result;
  for (size_t row = 0; row < scores.size(); row += n) {
    std::vector<int32_t> order(n);
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
      return scores[row + a] > scores[row + b];
    });
    order.resize(keep);
    std::sort(order.begin(), order.end());
    result.insert(result.end(), order.begin(), order.end());
  }
  return result;
}

class Select : public testing::TestWithParam<std::string> {
protected:
  static std::string kernels() {
    std::string text = "heddle.kernel @dense attention []\n";
    for (int64_t group : groups)
      text += "heddle.kernel @g" + std::to_string(group) +
              " select(group = " + std::to_string(group) +
              ") by mean_probability\n";
    return text;
  }
};

TEST_P(Select, MatchesFloat64AndBruteForce) {
  KernelSet set(GetParam(), "", kernels(), {"f32", "bf16"}, {64, 128});
  std::mt19937 random(testSeed());
  for (bool bf16 : {false, true})
    for (int64_t headDim : {64, 128})
      for (int64_t n : lengths) {
        bool grouped = random() % 2;
        Sequence s(random, bf16, n, grouped ? 7 : 2, grouped ? 1 : 2, headDim);
        // Equal keys have equal scores: ties.
        if (random() % 2)
          for (int64_t j = 0; j < n; ++j)
            std::copy_n(&s.key[j / 3 * s.kvStride], s.kvHeads * headDim,
                        &s.key[j * s.kvStride]);
        std::vector<float> lse = evaluate(s, {}).lse;
        for (int64_t group : groups) {
          SCOPED_TRACE((bf16 ? "bf16 head_dim " : "f32 head_dim ") +
                       std::to_string(headDim) + " n " + std::to_string(n) +
                       " group " + std::to_string(group));
          int64_t keeps[] = {1, n, static_cast<int64_t>(1 + random() % n)};
          int64_t keep = keeps[random() % 3];
          SelectResult got = runSelect(
              set["g" + std::to_string(group) + (bf16 ? "_bf16_d" : "_f32_d") +
                  std::to_string(headDim)],
              s, lse, group, keep);
          EXPECT_LT(relativeError(got.scores, evaluateScores(s, group)), 1e-5);
          EXPECT_EQ(got.indices, bruteForce(got.scores, n, keep));
          if (HasFailure())
            return;
        }
      }
}

/// Whatever the scores are: `keep` distinct ascending indices.
TEST_P(Select, KeepsItsPromiseWithNaN) {
  KernelSet set(GetParam(), "", kernels(), {"f32"}, {64});
  std::mt19937 random(testSeed());
  Sequence s(random, false, 100, 1, 1, 64);
  std::vector<float> lse = evaluate(s, {}).lse;
  for (int64_t j : {0, 7, 50, 99})
    s.key[j * s.kvStride + 3] = std::numeric_limits<float>::quiet_NaN();
  for (int64_t keep : {1, 3, 4, 5, 99, 100}) {
    SelectResult got = runSelect(set["g32_f32_d64"], s, lse, 32, keep);
    for (size_t row = 0; row < got.indices.size(); row += keep)
      for (int64_t i = 0; i < keep; ++i) {
        EXPECT_GE(got.indices[row + i], i ? got.indices[row + i - 1] + 1 : 0);
        EXPECT_LT(got.indices[row + i], 100);
      }
  }
}

INSTANTIATE_TEST_SUITE_P(Targets, Select, testing::ValuesIn(runnableTargets()),
                         [](const auto &info) {
                           std::string name = info.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

} // namespace
