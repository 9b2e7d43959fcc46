//===- CadenceTest.cpp - Refresh steps and kept counts --------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "bundle/program/Program.h"
#include "bundle/test/TestManifest.h"

#include <gtest/gtest.h>

#include <limits>
#include <numeric>
#include <set>

using namespace heddle;
using namespace heddle::bundle;
using namespace heddle::bundle::test;

namespace {

using Steps = std::vector<int64_t>;

Steps uniform(int64_t total, int64_t count) {
  return refreshSteps(windowed(Cadence::Kind::Uniform, {3, 10}, count), total);
}

Steps upTo(int64_t last) {
  Steps steps(static_cast<size_t>(last));
  std::iota(steps.begin(), steps.end(), 1);
  return steps;
}

// Source: PulseCol, equation 8 with the window fraction 0.3 of its experiments;
// worked out by hand from the formula, not by this code.
TEST(Cadence, UniformMatchesThePublishedFormula) {
  EXPECT_EQ(uniform(8, 16), (Steps{1, 2}));
  EXPECT_EQ(uniform(8, 8), (Steps{1, 2}));
  EXPECT_EQ(uniform(32, 16), upTo(9));
  EXPECT_EQ(uniform(32, 8), (Steps{1, 2, 3, 4, 5, 6, 7, 9}));
  EXPECT_EQ(uniform(64, 16),
            (Steps{1, 2, 3, 4, 5, 7, 8, 9, 10, 11, 13, 14, 15, 16, 17, 19}));
  EXPECT_EQ(uniform(64, 8), (Steps{1, 3, 6, 8, 11, 13, 16, 19}));
  EXPECT_EQ(uniform(128, 16), (Steps{1, 3, 5, 8, 10, 13, 15, 18, 20, 23, 25, 28,
                                     30, 33, 35, 38}));
  EXPECT_EQ(uniform(128, 8), (Steps{1, 6, 11, 16, 22, 27, 32, 38}));
  Steps by5;
  for (int64_t step = 1; step <= 76; step += 5)
    by5.push_back(step);
  EXPECT_EQ(uniform(256, 16), by5);
  EXPECT_EQ(uniform(256, 8), (Steps{1, 11, 22, 33, 43, 54, 65, 76}));
}

TEST(Cadence, UniformIsTheFormulaEverywhere) {
  for (int64_t total = 1; total <= 200; ++total)
    for (int64_t count = 2; count <= 40; ++count) {
      int64_t window = std::max<int64_t>(1, 3 * total / 10);
      std::set<int64_t> expected;
      for (int64_t r = 1; r <= count; ++r)
        expected.insert(1 + (r - 1) * (window - 1) / (count - 1));
      EXPECT_EQ(uniform(total, count), Steps(expected.begin(), expected.end()))
          << "T = " << total << ", R = " << count;
    }
}

TEST(Cadence, PowerIsTheFormulaEverywhere) {
  for (int64_t total = 1; total <= 200; ++total)
    for (int64_t count = 2; count <= 150; ++count) {
      int64_t window = std::max<int64_t>(1, total / 2);
      std::set<int64_t> expected;
      for (int64_t i = 0; i < count; ++i)
        expected.insert(1 + i * i * (window - 1) / ((count - 1) * (count - 1)));
      EXPECT_EQ(
          refreshSteps(windowed(Cadence::Kind::Power, {1, 2}, count), total),
          Steps(expected.begin(), expected.end()))
          << "T = " << total << ", R = " << count;
    }
}

TEST(Cadence, OneRefreshIsTheFirstStep) {
  EXPECT_EQ(uniform(100, 1), (Steps{1}));
  EXPECT_EQ(refreshSteps(windowed(Cadence::Kind::Power, {1, 2}, 1), 100),
            (Steps{1}));
}

TEST(Cadence, SimpleKinds) {
  EXPECT_EQ(refreshSteps({}, 10), Steps{});
  EXPECT_EQ(refreshSteps(every(4), 9), (Steps{1, 5, 9}));
  EXPECT_EQ(refreshSteps(every(4), 8), (Steps{1, 5}));
  EXPECT_EQ(refreshSteps(first(3), 9), upTo(3));
  EXPECT_EQ(refreshSteps(first(3), 2), upTo(2));
  Cadence cadence;
  cadence.kind = Cadence::Kind::At;
  cadence.fraction = {1, 5};
  EXPECT_EQ(refreshSteps(cadence, 64), (Steps{12}));
  EXPECT_EQ(refreshSteps(cadence, 3), (Steps{1})) << "floor is 0: step 1";
  cadence.from = 3; // plus = 2
  EXPECT_EQ(refreshSteps(cadence, 64), (Steps{14}));
  EXPECT_EQ(refreshSteps(cadence, 3), (Steps{2}));
  EXPECT_EQ(refreshSteps(cadence, 1), Steps{});
  cadence.from = 1;
  cadence.step = 7;
  EXPECT_EQ(refreshSteps(cadence, 64), (Steps{7}));
  EXPECT_EQ(refreshSteps(cadence, 6), Steps{}) << "after the end of the run";
}

TEST(Cadence, GeometricStepsArePowers) {
  Cadence cadence;
  cadence.kind = Cadence::Kind::Geometric;
  cadence.period = 3;
  EXPECT_EQ(refreshSteps(cadence, 80), (Steps{1, 3, 9, 27}));
  EXPECT_EQ(refreshSteps(cadence, 81), (Steps{1, 3, 9, 27, 81}));
  EXPECT_EQ(refreshSteps(cadence, 1), (Steps{1}));
  cadence.period = 2;
  for (int64_t step = 1; step <= 300; ++step)
    EXPECT_EQ(includes(cadence, {.step = step, .totalSteps = 5}),
              (step & (step - 1)) == 0)
        << step << ", also after the planned steps";
  EXPECT_TRUE(begun(cadence, {.step = 1, .totalSteps = 5}));
  EXPECT_TRUE(includesFirst(cadence));
  EXPECT_EQ(refreshSteps(cadence, std::numeric_limits<int64_t>::max()).size(),
            63u);
  EXPECT_EQ(toString(cadence), "geometric(2)");
}

TEST(Cadence, DriftHasTheFewestStepsWhereNothingIsMeasured) {
  Cadence cadence;
  cadence.kind = Cadence::Kind::Drift;
  cadence.fraction = {9, 10};
  cadence.period = 4;
  EXPECT_EQ(toString(cadence), "drift(below = 0.9, within = 4)");
  EXPECT_EQ(refreshSteps(cadence, 9), (Steps{1, 5, 9}));
  EXPECT_TRUE(includesFirst(cadence));
  StepPlace place{.step = 5, .totalSteps = 9};
  EXPECT_TRUE(includes(cadence, place));
  for (int64_t layer : {-1, 0, 2}) { // what is known of the step decides
    cadence.layer = layer;
    for (bool drifted : {false, true}) {
      place.drifted = std::vector<int64_t>{7, drifted ? layer : 1};
      EXPECT_EQ(includes(cadence, place), drifted) << layer;
      EXPECT_TRUE(begun(cadence, place));
    }
  }
  EXPECT_EQ(toString(cadence), "drift(below = 0.9, within = 4, layer = 2)");
  cadence.attention = true;
  EXPECT_EQ(toString(cadence),
            "drift(attention, below = 0.9, within = 4, layer = 2)");
  cadence.attention = false;
  cadence.layer = -1;
  place.drifted.emplace();
  place.afterEos = true;
  EXPECT_FALSE(includes(cadence, place));
  cadence.afterEos = true;
  EXPECT_TRUE(includes(cadence, place));
  EXPECT_EQ(toString(cadence), "drift(below = 0.9, within = 4) or after eos");
}

TEST(Cadence, RandomIsFixedForEver) {
  // Computed once with an independent splitmix64 and Fisher-Yates in Python.
  EXPECT_EQ(refreshSteps(windowed(Cadence::Kind::Random, {3, 10}, 8, 42), 128),
            (Steps{6, 10, 13, 15, 17, 21, 35, 36}));
  EXPECT_EQ(refreshSteps(windowed(Cadence::Kind::Random, {1, 1}, 5, -1), 1000),
            (Steps{305, 382, 847, 911, 937}));
}

TEST(Cadence, RandomDrawsDistinctStepsOfTheWindow) {
  std::set<Steps> different;
  for (int64_t seed = 0; seed < 50; ++seed) {
    Steps steps =
        refreshSteps(windowed(Cadence::Kind::Random, {1, 2}, 10, seed), 80);
    ASSERT_EQ(steps.size(), 10u);
    EXPECT_TRUE(std::is_sorted(steps.begin(), steps.end()));
    EXPECT_EQ(std::set<int64_t>(steps.begin(), steps.end()).size(), 10u);
    EXPECT_GE(steps.front(), 1);
    EXPECT_LE(steps.back(), 40);
    different.insert(steps);
  }
  EXPECT_EQ(different.size(), 50u);
  EXPECT_EQ(refreshSteps(windowed(Cadence::Kind::Random, {1, 2}, 40, 1), 80),
            upTo(40));
  EXPECT_EQ(refreshSteps(windowed(Cadence::Kind::Random, {1, 2}, 999, 1), 80),
            upTo(40));
}

TEST(Cadence, ExtremesNeitherOverflowNorHang) {
  constexpr int64_t most = std::numeric_limits<int64_t>::max();
  for (Cadence::Kind kind :
       {Cadence::Kind::Uniform, Cadence::Kind::Random, Cadence::Kind::Power}) {
    EXPECT_EQ(refreshSteps(windowed(kind, {most - 1, most}, most), 100),
              upTo(99));
    EXPECT_EQ(refreshSteps(windowed(kind, {1, most}, most), 100), upTo(1));
    EXPECT_EQ(refreshSteps(windowed(kind, {1, 2}, 5), 0), Steps{});
    EXPECT_EQ(refreshSteps(windowed(kind, {1, 2}, 5), -3), Steps{});
    EXPECT_EQ(refreshSteps(windowed(kind, {1, 2}, 0), 10), Steps{});
  }
  // Few steps of the longest window there can be.
  EXPECT_EQ(refreshSteps(windowed(Cadence::Kind::Uniform, {1, 1}, 3), most),
            (Steps{1, 1 + (most - 1) / 2, most}));
  EXPECT_EQ(refreshSteps(windowed(Cadence::Kind::Power, {1, 1}, 3), most),
            (Steps{1, 1 + (most - 1) / 4, most}));
  EXPECT_EQ(refreshSteps(every(most), most), (Steps{1}));
  EXPECT_EQ(refreshSteps(every(most - 1), most), (Steps{1, most}));
}

TEST(KeepCount, RoundsAsAsked) {
  // 1 - 0.8 in floating point would lose one key at every multiple of 5.
  for (int64_t n = 5; n <= 5000; n += 5)
    EXPECT_EQ(keepCount({1, 5}, KeepRule::Floor, n), n / 5);
  EXPECT_EQ(keepCount({1, 5}, KeepRule::Floor, 14), 2);
  EXPECT_EQ(keepCount({1, 5}, KeepRule::Ceil, 14), 3);
  EXPECT_EQ(keepCount({1, 5}, KeepRule::Ceil, 15), 3);
  EXPECT_EQ(keepCount({1, 5}, KeepRule::Round, 12), 2);
  EXPECT_EQ(keepCount({1, 5}, KeepRule::Round, 13), 3);
  EXPECT_EQ(keepCount({1, 4}, KeepRule::Round, 10), 3) << "2.5 goes up";
}

TEST(KeepCount, KeepsAtLeastOneAndAtMostAll) {
  Selection some;
  some.count = 5;
  for (int64_t n : {0, 1, 4, 5, 6, 4096})
    EXPECT_EQ(some.kept(n), std::min<int64_t>(n, 5)) << n;
  some.count = 0;
  some.keep = {1, 5};
  some.rule = KeepRule::Ceil;
  EXPECT_EQ(some.kept(14), 3);
  EXPECT_EQ(keepCount({1, 100}, KeepRule::Floor, 7), 1);
  EXPECT_EQ(keepCount({1, 1}, KeepRule::Ceil, 7), 7);
  EXPECT_EQ(keepCount({9, 10}, KeepRule::Ceil, 1), 1);
  EXPECT_EQ(keepCount({1, 2}, KeepRule::Floor, 0), 0) << "no keys to keep";
  constexpr int64_t most = std::numeric_limits<int64_t>::max();
  EXPECT_EQ(keepCount({most - 1, most}, KeepRule::Round, most), most - 1);
  EXPECT_EQ(keepCount({most, most - 1}, KeepRule::Ceil, most), most);
}

TEST(Cadence, SaysItselfInTheSchedulesWords) {
  EXPECT_EQ(toString(windowed(Cadence::Kind::Uniform, {3, 10}, 16)),
            "uniform(window = 0.3, count = 16)");
  EXPECT_EQ(toString(windowed(Cadence::Kind::Random, {3, 10}, 16, 7)),
            "random(window = 0.3, count = 16, seed = 7)");
  EXPECT_EQ(toString(Cadence()), "never");
}

} // namespace
