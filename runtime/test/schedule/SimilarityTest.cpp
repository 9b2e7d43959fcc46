//===- SimilarityTest.cpp - Cosines and the lowest of them ----------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/schedule/Similarity.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

using namespace heddle::rt;

TEST(Similarity, CosineOfRows) {
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  for (int64_t n : {1, 15, 16, 17, 100, 4096}) {
    std::vector<float> a(n), b(n);
    double ab = 0, aa = 0, bb = 0;
    for (int64_t i = 0; i < n; ++i) {
      a[i] = normal(random);
      b[i] = a[i] + normal(random);
      ab += double(a[i]) * b[i];
      aa += double(a[i]) * a[i];
      bb += double(b[i]) * b[i];
    }
    EXPECT_NEAR(cosine(a.data(), b.data(), n), ab / std::sqrt(aa * bb), 1e-5);
    EXPECT_EQ(cosine(a.data(), a.data(), n), 1.0f) << "equal rows are equal";
  }
}

TEST(Similarity, SmallRowsCountAsNotSimilar) {
  float zero[2] = {0, 0}, small[2] = {1e-5f, 0}, one[2] = {1, 0};
  EXPECT_EQ(cosine(zero, zero, 2), 0);
  EXPECT_EQ(cosine(zero, one, 2), 0);
  // |small|^2 is 1e-10 and counts as 1e-8.
  EXPECT_NEAR(cosine(small, one, 2), 1e-5 / 1e-4, 1e-6);
}

TEST(Similarity, LowestPrefersLowerIndices) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  std::vector<double> values = {0.5, 0.2, nan, 0.5, 0.2, 0.9};
  EXPECT_EQ(lowest(values, 0), std::vector<int32_t>{});
  EXPECT_EQ(lowest(values, 1), (std::vector<int32_t>{2}));
  EXPECT_EQ(lowest(values, 2), (std::vector<int32_t>{1, 2}));
  EXPECT_EQ(lowest(values, 4), (std::vector<int32_t>{0, 1, 2, 4}));
  EXPECT_EQ(lowest(values, 6), (std::vector<int32_t>{0, 1, 2, 3, 4, 5}));
}

/// By w confidence + (1 - w) (1 - cosine), the highest first.
TEST(Similarity, RanksByChangeAndConfidence) {
  const heddle::bundle::Ratio half{1, 2}, third{1, 3}, whole{1, 1};
  EXPECT_EQ(rankOf(0.25f, 0.75, half), -0.5);
  EXPECT_EQ(rankOf(0.25f, 0.75, third), -0.25);
  EXPECT_EQ(rankOf(0.25f, 0.75, whole), -0.75);
  EXPECT_LT(rankOf(0.5f, 0.5, half), rankOf(0.75f, 0.5, half));
  EXPECT_LT(rankOf(0.75f, 1, half), rankOf(0.5f, 0.5, half));
  EXPECT_TRUE(
      std::isnan(rankOf(std::numeric_limits<float>::quiet_NaN(), 0.5, half)));
}
