//===- ScoresTest.cpp - Functions of logits against float64 ---------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "KernelHarness.h"

#include "RandomScores.h"
#include "bundle/program/Scores.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <cmath>
#include <gtest/gtest.h>
#include <limits>

using namespace heddle;
using namespace heddle::test;

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

/// A function as a schedule states it and as C++ does.
struct Function {
  const char *name, *region;
  LogitFunction meaning;
};

const std::vector<Function> &functions() {
  static const std::vector<Function> all = {
      {"cap",
       R"(scores(%logit) {
            %cap = arith.constant 1.5 : f32
            %share = arith.divf %logit, %cap : f32
            %bound = math.tanh %share : f32
            %capped = arith.mulf %bound, %cap : f32
            heddle.yield %capped })",
       [](double x, int32_t, int32_t, int32_t) {
         return 1.5 * std::tanh(x / 1.5);
       }},
      // Small arguments of tanh alone.
      {"wide_cap",
       R"(scores(%logit) {
            %cap = arith.constant 50.0 : f32
            %share = arith.divf %logit, %cap : f32
            %bound = math.tanh %share : f32
            %capped = arith.mulf %bound, %cap : f32
            heddle.yield %capped })",
       [](double x, int32_t, int32_t, int32_t) {
         return 50 * std::tanh(x / 50);
       }},
      {"alibi",
       R"(scores(%logit, %query, %key, %head) {
            %ahead = arith.subi %key, %query : i32
            %distance = math.absi %ahead : i32
            %far = arith.sitofp %distance : i32 to f32
            %one = arith.constant 1 : i32
            %next = arith.addi %head, %one : i32
            %place = arith.sitofp %next : i32 to f32
            %half = arith.constant -0.5 : f32
            %power = arith.mulf %place, %half : f32
            %slope = math.exp2 %power : f32
            %bias = arith.mulf %slope, %far : f32
            %biased = arith.subf %logit, %bias : f32
            heddle.yield %biased })",
       [](double x, int32_t query, int32_t key, int32_t head) {
         return x - std::exp2(-0.5 * (head + 1)) * std::abs(key - query);
       }},
      {"causal",
       R"(scores(%logit, %query, %key) {
            %ahead = arith.cmpi sgt, %key, %query : i32
            %none = arith.constant 0xFF800000 : f32
            %masked = arith.select %ahead, %none, %logit : f32
            heddle.yield %masked })",
       [](double x, int32_t query, int32_t key, int32_t) {
         return key > query ? -infinity : x;
       }},
      // Rows at odd positions see nothing at all.
      {"blind",
       R"(scores(%logit, %query) {
            %one = arith.constant 1 : i32
            %odd = arith.andi %query, %one : i32
            %zero = arith.constant 0 : i32
            %hidden = arith.cmpi ne, %odd, %zero : i32
            %none = arith.constant 0xFF800000 : f32
            %masked = arith.select %hidden, %none, %logit : f32
            heddle.yield %masked })",
       [](double x, int32_t query, int32_t, int32_t) {
         return query & 1 ? -infinity : x;
       }},
      // Runs of seven keys by turns, other ones in each head; a negative scale.
      {"turns",
       R"(scores(%logit, %query, %key, %head) {
            %seven = arith.constant 7 : i32
            %run = arith.divsi %key, %seven : i32
            %shifted = arith.addi %run, %head : i32
            %three = arith.constant 3 : i32
            %turn = arith.remsi %shifted, %three : i32
            %zero = arith.constant 0 : i32
            %shown = arith.cmpi ne, %turn, %zero : i32
            %minus = arith.constant -0.7 : f32
            %scaled = arith.mulf %logit, %minus : f32
            %none = arith.constant 0xFF800000 : f32
            %masked = arith.select %shown, %scaled, %none : f32
            heddle.yield %masked })",
       [](double x, int32_t, int32_t key, int32_t head) {
         return (key / 7 + head) % 3 ? -0.7 * x : -infinity;
       }},
      {"roots",
       R"(scores(%logit, %query, %key) {
            %a = math.absf %logit : f32
            %one = arith.constant 1.0 : f32
            %b = arith.addf %a, %one : f32
            %c = math.sqrt %b : f32
            %d = math.log %b : f32
            %e = math.exp %d : f32
            %f = arith.subf %c, %e : f32
            %g = math.log2 %b : f32
            %h = math.fma %g, %c, %f : f32
            %i = arith.maximumf %h, %logit : f32
            heddle.yield %i })",
       [](double x, int32_t, int32_t, int32_t) {
         double b = std::fabs(x) + 1, c = std::sqrt(b);
         return std::max(std::log2(b) * c + c - b, x);
       }},
  };
  return all;
}

struct Case {
  const char *name, *terms;
  std::vector<bundle::Term> pattern;
  int64_t group;
};

const std::vector<Case> &cases() {
  using Kind = bundle::Term::Kind;
  static const std::vector<Case> all = {
      {"dense", "", {}, 0},
      {"near",
       "window(40), sinks(5)",
       {{Kind::Window, 40, -1}, {Kind::Sinks, 5, -1}},
       0},
      {"columns", "columns(@s32, group = 32)", {{Kind::Columns, 0, 0}}, 32}};
  return all;
}

constexpr const char *selections =
    "heddle.selection @s32 columns(keep = 0.2, group = 32) by mean_probability "
    "on every(8)\n";

class Scored : public testing::TestWithParam<std::string> {
protected:
  /// Attention of one pattern and function on sequences whole and thinned.
  static void check(KernelSet &set, const std::string &kernel, const Case &c,
                    const LogitFunction &meaning, std::mt19937 &random,
                    double tolerance = 1e-5) {
    for (bool bf16 : {false, true})
      for (int64_t n : {1, 17, 64, 129, 200}) {
        const bool grouped = random() % 2;
        Sequence sequence(random, bf16, n, grouped ? 7 : 2, grouped ? 1 : 2,
                          64);
        for (int turn = 0; turn < 2; ++turn) {
          SCOPED_TRACE(kernel + (bf16 ? " bf16" : " f32") + " n " +
                       std::to_string(n) + " rows " +
                       std::to_string(sequence.rows()));
          Pattern pattern{c.pattern, {}, meaning};
          if (c.group)
            pattern.lists.emplace_back(random, n, sequence.heads, c.group,
                                       1 + random() % n);
          AttentionResult want = evaluate(sequence, pattern);
          AttentionResult got =
              runAttention(set[kernel + (bf16 ? "_bf16_d64" : "_f32_d64")],
                           sequence, pattern, random);
          EXPECT_LT(relativeError(got.output, want.output),
                    bf16 ? 1e-2 : tolerance);
          EXPECT_LT(relativeError(got.lse, want.lse, 1),
                    bf16 ? 10 * tolerance : tolerance);
          if (HasFailure())
            return;
          sequence.thinOut(random);
        }
      }
  }
};

TEST_P(Scored, AttentionMatchesFloat64) {
  // All functions with all pairs; with each other pattern some.
  auto isTested = [](size_t c, size_t f) { return c == 0 || f % 3 == c % 3; };
  std::string kernels;
  for (auto [i, c] : llvm::enumerate(cases()))
    for (auto [j, f] : llvm::enumerate(functions()))
      if (isTested(i, j))
        kernels += std::string("heddle.kernel @") + c.name + "_" + f.name +
                   " attention [" + c.terms + "] writes_lse " + f.region + "\n";
  KernelSet set(GetParam(), selections, kernels, {"f32", "bf16"}, {64});
  std::mt19937 random(testSeed());
  for (auto [i, c] : llvm::enumerate(cases()))
    for (auto [j, f] : llvm::enumerate(functions())) {
      if (!isTested(i, j))
        continue;
      check(set, std::string(c.name) + "_" + f.name, c, f.meaning, random);
      if (HasFailure())
        return;
    }
}

/// Functions of any operations against what bundles say of them.
TEST_P(Scored, RandomFunctionsMatchTheirBundles) {
  std::mt19937 random(testSeed());
  std::vector<bundle::Scores> all;
  std::string kernels;
  for (int i = 0; i < 12; ++i) {
    all.push_back(randomScores(random));
    kernels += "heddle.kernel @r" + std::to_string(i) +
               " attention dense writes_lse " + regionOf(all.back()) + "\n";
  }
  KernelSet set(GetParam(), "", kernels, {"f32", "bf16"}, {64});
  for (size_t i = 0; i < all.size(); ++i) {
    SCOPED_TRACE(regionOf(all[i]));
    check(
        set, "r" + std::to_string(i), cases()[0],
        [&](double x, int32_t query, int32_t key, int32_t head) {
          return bundle::evaluate(all[i], x, query, key, head);
        },
        random, 5e-5);
    if (HasFailure())
      return;
  }
}

/// Selections are scored by the same logits as attention.
TEST_P(Scored, SelectionMatchesFloat64) {
  std::string kernels;
  for (const Function &f : functions())
    kernels += std::string("heddle.kernel @select_") + f.name +
               " select(group = 32) by mean_probability " + f.region + "\n";
  KernelSet set(GetParam(), "",
                "heddle.kernel @dense attention dense\n" + kernels,
                {"f32", "bf16"}, {64});
  std::mt19937 random(testSeed());
  for (const Function &f : functions())
    for (bool bf16 : {false, true})
      for (int64_t n : {1, 33, 64, 150}) {
        SCOPED_TRACE(std::string(f.name) + (bf16 ? " bf16 n " : " f32 n ") +
                     std::to_string(n));
        Sequence s(random, bf16, n, 4, 2, 64);
        for (int32_t &position : s.position) // gaps
          position = 2 * position + static_cast<int32_t>(random() % 2);
        Pattern pattern{{}, {}, f.meaning};
        std::vector<float> lse = evaluate(s, pattern).lse;
        const int64_t group = 32;
        SelectResult got = runSelect(
            set[std::string("select_") + f.name +
                (bf16 ? "_bf16_d64" : "_f32_d64")],
            s, lse, {.group = group, .keep = std::min<int64_t>(n, 5)});
        std::vector<float> want;
        for (int64_t h = 0; h < s.heads; ++h)
          for (int64_t begin = 0; begin < n; begin += group)
            for (int64_t j = 0; j < n; ++j) {
              const int64_t end = std::min(begin + group, n);
              double sum = 0;
              for (int64_t i = begin; i < end; ++i)
                if (float own = lse[h * n + i]; std::isfinite(own))
                  sum += std::exp2(pattern.logit(s, i, j, h) - own);
              want.push_back(
                  static_cast<float>(sum / static_cast<double>(end - begin)));
            }
        EXPECT_LT(relativeError(got.scores, want), 2e-5);
        if (HasFailure())
          return;
      }
}

INSTANTIATE_TEST_SUITE_P(Targets, Scored, testing::ValuesIn(runnableTargets()),
                         [](const auto &info) {
                           std::string name = info.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

} // namespace
