//===- AttentionTest.cpp - Attention kernels against float64 --------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "KernelHarness.h"

#include "bundle/test/RandomTerm.h"

#include <algorithm>
#include <cmath>
#include <gtest/gtest.h>
#include <limits>

using namespace heddle;
using namespace heddle::test;

namespace {

const int64_t lengths[] = {1, 2, 15, 16, 17, 63, 64, 65, 100, 129, 300};

struct Case {
  std::string name, terms;
  std::vector<bundle::Term> pattern;
  std::vector<int64_t> groups;
};

bundle::Term columns() { return {bundle::Term::Kind::Columns, 0, 0}; }
bundle::Term blocks() { return {bundle::Term::Kind::Blocks, 0, 0}; }
bundle::Term window(int64_t size) {
  return {bundle::Term::Kind::Window, size, -1};
}
bundle::Term sinks(int64_t size) {
  return {bundle::Term::Kind::Sinks, size, -1};
}

bundle::Term sinks(int64_t num, int64_t den) {
  return {bundle::Term::Kind::Sinks, 0, -1, {num, den}};
}

std::vector<Case> makeCases() {
  std::vector<Case> all = {
      {"dense", "", {}, {}},
      {"c16", "columns(@s16, group = 16)", {columns()}, {16}},
      {"c32", "columns(@s32, group = 32)", {columns()}, {32}},
      {"c64", "columns(@s64, group = 64)", {columns()}, {64}},
      {"c128", "columns(@s128, group = 128)", {columns()}, {128}},
      {"c256", "columns(@s256, group = 256)", {columns()}, {256}},
      {"w31", "window(31)", {window(31)}, {}},
      {"w200", "window(200)", {window(200)}, {}},
      {"s4", "sinks(4)", {sinks(4)}, {}},
      {"w40s5", "window(40), sinks(5)", {window(40), sinks(5)}, {}},
      {"s5w40", "sinks(5), window(40)", {sinks(5), window(40)}, {}},
      // A share: none of a short sequence, rounded up to one; all of any.
      {"s10p", "sinks(10 percent)", {sinks(1, 10)}, {}},
      {"s1of1", "sinks(1/1)", {sinks(1, 1)}, {}},
      {"w40s3of7", "window(40), sinks(3/7)", {window(40), sinks(3, 7)}, {}},
      {"s70s1of3w30",
       "sinks(70), sinks(1/3), window(30)",
       {sinks(70), sinks(1, 3), window(30)},
       {}},
      {"b32c64w40s1of5",
       "blocks(@b32, size = 32), columns(@s64, group = 64), window(40), "
       "sinks(0.2)",
       {blocks(), columns(), window(40), sinks(1, 5)},
       {32, 64}},
      {"s1of2c32",
       "sinks(0.5), columns(@s32, group = 32)",
       {sinks(1, 2), columns()},
       {32}},
      {"c64w40",
       "columns(@s64, group = 64), window(40)",
       {columns(), window(40)},
       {64}},
      {"w40c32",
       "window(40), columns(@s32, group = 32)",
       {window(40), columns()},
       {32}},
      {"c64c32",
       "columns(@s64, group = 64), columns(@s32, group = 32)",
       {columns(), columns()},
       {64, 32}},
      {"blocks16", "blocks(@b16, size = 16)", {blocks()}, {16}},
      {"blocks64", "blocks(@b64, size = 64)", {blocks()}, {64}},
      {"blocks128", "blocks(@b128, size = 128)", {blocks()}, {128}},
      {"b32c64w40s5",
       "blocks(@b32, size = 32), columns(@s64, group = 64), window(40), "
       "sinks(5)",
       {blocks(), columns(), window(40), sinks(5)},
       {32, 64}},
      {"w24c32b64b128",
       "window(24), columns(@s32, group = 32), blocks(@b64, size = 64), "
       "blocks(@b128, size = 128)",
       {window(24), columns(), blocks(), blocks()},
       {32, 64, 128}},
      {"all",
       "sinks(3), columns(@s64, group = 64), window(24), columns(@s32, group "
       "= 32), columns(@s128, group = 128)",
       {sinks(3), columns(), window(24), columns(), columns()},
       {64, 32, 128}},
  };
  // And unions of any sets, some with a list.
  std::mt19937 random(14);
  for (int i = 0; i < 8; ++i) {
    const bundle::Term a = randomTerm(random, 90), b = randomTerm(random, 90);
    Case some = {"any" + std::to_string(i),
                 bundle::words(a) + ", " + bundle::words(b),
                 {a, b},
                 {}};
    if (i % 2) {
      some.terms += ", columns(@s64, group = 64)";
      some.pattern.push_back(columns());
      some.groups = {64};
    }
    all.push_back(some);
  }
  // And lists within any sets, beside others and beside each other; of one list
  // parts that are within different ones are written as two lists.
  for (int i = 0; i < 6; ++i) {
    const std::vector<bundle::Term> bound = randomBound(random, 90);
    Case some = {"within" + std::to_string(i), "", {}, {}};
    auto add = [&](bundle::Term term, const std::string &text, int64_t group) {
      some.terms += (some.terms.empty() ? "" : ", ") + text;
      some.pattern.push_back(term);
      if (group)
        some.groups.push_back(group);
    };
    auto addWithin = [&](bundle::Term list, std::string text, int64_t group) {
      list.within = bound;
      for (const bundle::Term &each : bound)
        text += " within " + bundle::words(each);
      add(list, text, group);
    };
    if (i % 3)
      addWithin(columns(), "columns(@s64, group = 64)", 64);
    if (i % 2) {
      const bundle::Term other = randomTerm(random, 90);
      add(other, bundle::words(other), 0);
    }
    if (i % 3 != 1)
      addWithin(blocks(), "blocks(@b64, size = 64)", 64);
    if (i > 4)
      add(columns(), "columns(@s32, group = 32)", 32);
    all.push_back(some);
  }
  return all;
}

const std::vector<Case> &cases() {
  static const std::vector<Case> all = makeCases();
  return all;
}

std::string selections() {
  std::string text;
  for (int group : {16, 32, 64, 128, 256}) {
    std::string g = std::to_string(group);
    text += "heddle.selection @s" + g + " columns(keep = 0.2, group = " + g +
            ") by mean_probability on every(8)\n";
    if (group <= 128) // blocks have no more keys
      text += "heddle.selection @b" + g + " blocks(keep = 0.2, size = " + g +
              ") by mean_probability on every(8)\n";
  }
  return text;
}

std::string kernels() {
  std::string text;
  for (const Case &c : cases())
    text += std::string("heddle.kernel @") + c.name + " attention [" + c.terms +
            "] writes_lse\n";
  return text;
}

class Attention : public testing::TestWithParam<std::string> {};

TEST_P(Attention, MatchesFloat64) {
  KernelSet set(GetParam(), selections(), kernels(), {"f32", "bf16"},
                {64, 128});
  std::mt19937 random(testSeed());
  for (bool bf16 : {false, true})
    for (int64_t headDim : {64, 128})
      for (int64_t n : lengths) {
        bool grouped = random() % 2;
        Sequence sequence(random, bf16, n, grouped ? 7 : 2, grouped ? 1 : 2,
                          headDim);
        // A few far logits, so that maxima move late and weights vanish.
        for (int i = 0; i < 3; ++i)
          for (int64_t c = 0, j = random() % n; c < headDim; ++c)
            sequence.key[j * sequence.kvStride + c] *= 4;
        // All of every sequence, then anew with rows and positions left out.
        for (size_t turn = 0; turn < 2 * cases().size(); ++turn) {
          const Case &c = cases()[turn % cases().size()];
          if (turn >= cases().size())
            sequence.thinOut(random);
          SCOPED_TRACE(std::string(c.name) + (bf16 ? " bf16" : " f32") +
                       " head_dim " + std::to_string(headDim) + " n " +
                       std::to_string(n) + " rows " +
                       std::to_string(sequence.rows()) + " heads " +
                       std::to_string(sequence.heads));
          Pattern pattern{c.pattern, {}};
          size_t listed = 0;
          for (const bundle::Term &term : c.pattern) {
            if (term.selection < 0)
              continue;
            int64_t group = c.groups[listed++];
            // All query heads of a key/value head may share a list.
            int64_t share =
                random() % 2 ? 1 : sequence.heads / sequence.kvHeads;
            int64_t rows = sequence.heads / share;
            int64_t keeps[] = {1, n, static_cast<int64_t>(1 + random() % n)};
            int64_t splits[] = {0, n, static_cast<int64_t>(random() % n)};
            if (term.kind == bundle::Term::Kind::Blocks)
              pattern.lists.push_back(
                  List::ofBlocks(random, n, rows, group, splits[random() % 3]));
            else
              pattern.lists.emplace_back(random, n, rows, group,
                                         keeps[random() % 3]);
            pattern.lists.back().headsPerList = share;
          }
          AttentionResult want = evaluate(sequence, pattern);
          AttentionResult got = runAttention(
              set[std::string(c.name) + (bf16 ? "_bf16_d" : "_f32_d") +
                  std::to_string(headDim)],
              sequence, pattern, random);
          EXPECT_LT(relativeError(got.output, want.output), bf16 ? 1e-2 : 1e-5);
          // Of one key it is a product of two rows, which may cancel.
          EXPECT_LT(relativeError(got.lse, want.lse, 1), bf16 ? 1e-4 : 3e-5);
          if (HasFailure())
            return;
        }
      }
}

/// Scales that fold into Q or stay outside: negative and zero ones too.
TEST_P(Attention, TakesAnyScale) {
  KernelSet set(GetParam(), "",
                "heddle.kernel @w attention [window(20)] writes_lse\n",
                {"f32", "bf16"}, {64});
  std::mt19937 random(testSeed());
  for (bool bf16 : {false, true})
    for (float scale : {-0.125f, 0.0f, 1.0f}) {
      SCOPED_TRACE(scale);
      Sequence sequence(random, bf16, 70, 1, 1, 64);
      sequence.scale = scale;
      Pattern pattern{{window(20)}, {}};
      AttentionResult want = evaluate(sequence, pattern);
      AttentionResult got = runAttention(set[bf16 ? "w_bf16_d64" : "w_f32_d64"],
                                         sequence, pattern, random);
      EXPECT_LT(relativeError(got.output, want.output), bf16 ? 1e-2 : 1e-5);
      EXPECT_LT(relativeError(got.lse, want.lse, 1), bf16 ? 1e-4 : 1e-5);
    }
}

/// A NaN among the inputs is not hidden.
TEST_P(Attention, CarriesNaN) {
  KernelSet set(GetParam(), "", "heddle.kernel @d attention []\n",
                {"f32", "bf16"}, {64});
  std::mt19937 random(testSeed());
  for (bool bf16 : {false, true}) {
    Sequence sequence(random, bf16, 40, 1, 1, 64);
    sequence.query[3 * sequence.queryStride + 5] =
        std::numeric_limits<float>::quiet_NaN();
    AttentionResult got = runAttention(set[bf16 ? "d_bf16_d64" : "d_f32_d64"],
                                       sequence, {}, random);
    for (int64_t i = 0; i < 40; ++i)
      EXPECT_EQ(std::isnan(got.output[i * 64 + 7]), i == 3) << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Targets, Attention,
                         testing::ValuesIn(runnableTargets()),
                         [](const auto &info) {
                           std::string name = info.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

} // namespace
