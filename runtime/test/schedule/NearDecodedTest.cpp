//===- NearDecodedTest.cpp - What lifts a confidence ----------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/schedule/NearDecoded.h"
#include "bundle/program/PositionForms.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

using namespace heddle;
using namespace heddle::rt;

namespace {

/// Of standard deviation 1, by distance.
constexpr int64_t weights[] = {1073741824, 651257337, 145315154, 11928194,
                               360200,     4001,      16};
constexpr double all = 1073741824.0 + 2.0 * (651257337 + 145315154 + 11928194 +
                                             360200 + 4001 + 16);

SequenceState stateOf(const std::vector<uint8_t> &masked) {
  SequenceState state;
  state.masked = masked;
  return state;
}

/// The definition, position by position far beyond all weights.
double shareOf(int64_t deviation, const std::vector<uint8_t> &masked,
               int64_t end, int64_t position) {
  int64_t decoded = 0, both = 0;
  for (int64_t d = -8 * deviation; d <= 8 * deviation; ++d) {
    const double exponent = static_cast<double>(-d * d) /
                            static_cast<double>(2 * deviation * deviation);
    const int64_t weight = std::llround(std::ldexp(std::exp(exponent), 30));
    both += weight;
    const int64_t at = std::min(position + d, end - 1);
    decoded += at < 0 || !masked[static_cast<size_t>(at)] ? weight : 0;
  }
  return static_cast<double>(decoded) / static_cast<double>(both);
}

TEST(NearDecoded, CountsWhatIsNear) {
  const NearDecoded near(1);
  std::vector<uint8_t> masked(20, 1);
  const SequenceState state = stateOf(masked);
  EXPECT_EQ(near.share(state, 7), 0);
  // What stands before the sequence is decoded, what stands behind it is as its
  // last position is.
  EXPECT_EQ(near.share(state, 5), weights[6] / all);
  EXPECT_EQ(near.share(state, 4), (weights[5] + weights[6]) / all);
  EXPECT_EQ(near.share(state, 19), 0);
  masked[9] = 0;
  EXPECT_EQ(near.share(state, 7), weights[2] / all);
  EXPECT_EQ(near.share(state, 12), weights[3] / all);
  masked[10] = 0;
  EXPECT_EQ(near.share(state, 12), (weights[2] + weights[3]) / all);
  masked[19] = 0;
  EXPECT_EQ(near.share(state, 18), (weights[1] + weights[2] + weights[3] +
                                    weights[4] + weights[5] + weights[6]) /
                                       all);
  EXPECT_EQ(near.share(state, 14),
            (weights[4] + weights[5] + weights[5] + weights[6]) / all);
  // The text ends before the sequence does.
  SequenceState shorter = state;
  shorter.textEnd = 14;
  EXPECT_EQ(near.share(shorter, 13), (weights[3] + weights[4]) / all);
  shorter.textEnd = 11;
  EXPECT_EQ(near.share(shorter, 8), (weights[1] + weights[2] + weights[3] +
                                     weights[4] + weights[5] + weights[6]) /
                                        all);
  masked.assign(20, 0);
  masked[3] = 1;
  EXPECT_EQ(near.share(state, 3), (all - weights[0]) / all);
}

TEST(NearDecoded, IsWhatTheDefinitionSays) {
  std::mt19937 random(5);
  for (int64_t deviation : {1, 2, 3, 10, 47, int(bundle::maxNear)}) {
    const NearDecoded near(deviation);
    for (int64_t length : {1, 2, 9, 90, 400}) {
      std::vector<uint8_t> masked(static_cast<size_t>(length));
      for (uint8_t &each : masked)
        each = random() % 3 != 0;
      SequenceState state = stateOf(masked);
      for (int round = 0; round < 4; ++round) {
        const auto position = static_cast<int64_t>(random() % masked.size());
        EXPECT_EQ(near.share(state, position),
                  shareOf(deviation, masked, length, position))
            << deviation << ": " << position << " of " << length;
        state.textEnd = position + 1 + static_cast<int64_t>(random() % 5);
        EXPECT_EQ(near.share(state, position),
                  shareOf(deviation, masked, std::min(length, state.textEnd),
                          position));
        state.textEnd = INT64_MAX;
      }
    }
  }
}

TEST(NearDecoded, LiftsConfidences) {
  const NearDecoded near(1);
  std::vector<uint8_t> masked(20, 1);
  const SequenceState state = stateOf(masked);
  const double none = -std::numeric_limits<double>::infinity();
  EXPECT_EQ(near.lifted(0.5, state, 4), 0.5 * near.share(state, 4));
  EXPECT_EQ(near.lifted(0.5, state, 9), 0);
  EXPECT_EQ(near.lifted(none, state, 4), none);
  EXPECT_EQ(near.lifted(none, state, 9), none);
  // Negative ones (entropies) are lifted, too.
  EXPECT_EQ(near.lifted(-0.5, state, 0), -0.5 / near.share(state, 0));
  EXPECT_GT(near.lifted(-0.5, state, 0), near.lifted(-0.5, state, 1));
  EXPECT_GT(near.lifted(-0.5, state, 9), none) << "something was predicted";
}

} // namespace
