//===- PhiloxTest.cpp - Counter-based random numbers ----------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/sample/Philox.h"

#include <cmath>
#include <gtest/gtest.h>
#include <set>

using namespace heddle::rt;

namespace {

using Words = std::array<uint32_t, 4>;

// The known-answer vectors that the generator's authors publish for
// philox4x32 with ten rounds.
TEST(Philox, KnownAnswers) {
  EXPECT_EQ(philox4x32({0, 0, 0, 0}, {0, 0}),
            (Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  constexpr uint32_t ones = 0xffffffff;
  EXPECT_EQ(philox4x32({ones, ones, ones, ones}, {ones, ones}),
            (Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
                       {0xa4093822, 0x299f31d0}),
            (Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Philox, UniformTakesItsWordsAsDocumented) {
  // Seed 0, all counters 0: the first known answer.
  auto fromWords = [](uint64_t low, uint64_t high) {
    return (static_cast<double>((low | high << 32) >> 12) + 0.5) / 0x1p52;
  };
  EXPECT_EQ(uniform(0, RandomStream::Gumbel, 0, 0, 0),
            fromWords(0x6627e8d5, 0xe169c58d));
  EXPECT_EQ(uniform(0, RandomStream::Gumbel, 0, 0, 1),
            fromWords(0xbc57ac4c, 0x9b00dbd8));
}

TEST(Philox, EveryPartOfTheNameCounts) {
  std::set<double> values;
  for (uint64_t seed : {uint64_t(0), uint64_t(1), uint64_t(1) << 32})
    for (RandomStream stream : {RandomStream::Gumbel, RandomStream::Remasking})
      for (int64_t step : {1, 2})
        for (int64_t position : {0, 7})
          for (int64_t index : {0, 1, 2, 126463})
            values.insert(uniform(seed, stream, step, position, index));
  EXPECT_EQ(values.size(), 3u * 2 * 2 * 2 * 4);
}

TEST(Philox, UniformIsUniform) {
  constexpr int count = 200000;
  double sum = 0, squares = 0;
  int histogram[16] = {};
  for (int i = 0; i < count; ++i) {
    double u = uniform(42, RandomStream::Gumbel, 3, i / 1000, i % 1000);
    ASSERT_GT(u, 0);
    ASSERT_LT(u, 1);
    sum += u;
    squares += u * u;
    ++histogram[static_cast<int>(u * 16)];
  }
  // Five standard deviations of each statistic.
  EXPECT_NEAR(sum / count, 0.5, 5 * std::sqrt(1.0 / 12 / count));
  EXPECT_NEAR(squares / count, 1.0 / 3, 5 * std::sqrt(4.0 / 45 / count));
  for (int bin : histogram)
    EXPECT_NEAR(bin, count / 16, 5 * std::sqrt(count / 16.0));
}

} // namespace
