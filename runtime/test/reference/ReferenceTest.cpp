//===- ReferenceTest.cpp - The definitions, by hand -----------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/reference/Reference.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

using namespace heddle;
using namespace heddle::rt;
using bundle::Term;

namespace {

/// Three keys whose natural logits with query row 0 are log 1, log 2, log 5,
/// and with row 1 all zero.
struct Small {
  float query[4] = {1, 0, 0, 0};
  float key[6] = {0, 0, std::log(2.0f), 0, std::log(5.0f), 0};
  float value[6] = {8, 0, 0, 8, 16, 16};
  reference::Head head() const {
    reference::Head result;
    result.query = query;
    result.key = key;
    result.value = value;
    result.queryStride = result.keyStride = result.valueStride = 2;
    result.n = 3;
    result.headDim = 2;
    return result;
  }
};

bool all(int64_t, int64_t) { return true; }

} // namespace

TEST(Reference, AttentionByHand) {
  Small small;
  reference::RowResult row = reference::attendRow(small.head(), 0, all);
  EXPECT_NEAR(row.output[0], (1 * 8 + 5 * 16) / 8.0, 1e-6);
  EXPECT_NEAR(row.output[1], (2 * 8 + 5 * 16) / 8.0, 1e-6);
  EXPECT_NEAR(row.lse, 3, 1e-6); // log2(1 + 2 + 5)
  EXPECT_EQ(row.pairs, 3);

  row = reference::attendRow(small.head(), 0,
                             [](int64_t, int64_t key) { return key < 2; });
  EXPECT_NEAR(row.output[0], 8 / 3.0, 1e-6);
  EXPECT_NEAR(row.output[1], 16 / 3.0, 1e-6);
  EXPECT_NEAR(row.lse, std::log2(3.0), 1e-6);
  EXPECT_EQ(row.pairs, 2);
}

TEST(Reference, ARowWithoutKeysIsZero) {
  Small small;
  reference::RowResult row = reference::attendRow(
      small.head(), 0, [](int64_t, int64_t) { return false; });
  EXPECT_EQ(row.output, (std::vector<double>{0, 0}));
  EXPECT_EQ(row.lse, -std::numeric_limits<double>::infinity());
  EXPECT_EQ(row.pairs, 0);
}

TEST(Reference, LargeLogitsDoNotOverflow) {
  Small small;
  small.query[0] = 1e5f;
  reference::RowResult row = reference::attendRow(small.head(), 0, all);
  EXPECT_EQ(row.output, (std::vector<double>{16, 16}));
}

TEST(Reference, MeanProbabilityByHand) {
  Small small;
  const float lse[] = {3, std::log2(3.0f)};
  std::vector<double> scores =
      reference::meanProbability(small.head(), 0, 2, lse);
  EXPECT_NEAR(scores[0], (1 / 8.0 + 1 / 3.0) / 2, 1e-6);
  EXPECT_NEAR(scores[1], (2 / 8.0 + 1 / 3.0) / 2, 1e-6);
  EXPECT_NEAR(scores[2], (5 / 8.0 + 1 / 3.0) / 2, 1e-6);
  scores = reference::meanProbability(small.head(), 1, 2, lse);
  EXPECT_NEAR(scores[2], 1 / 3.0, 1e-6);
}

TEST(Reference, LargestPrefersLowIndicesAndSorts) {
  std::vector<double> scores = {0.25, 0.5, 0.25, 0.5, 0.25, 0.0};
  EXPECT_EQ(reference::largest(scores, 1), (std::vector<int32_t>{1}));
  EXPECT_EQ(reference::largest(scores, 2), (std::vector<int32_t>{1, 3}));
  EXPECT_EQ(reference::largest(scores, 3), (std::vector<int32_t>{0, 1, 3}));
  EXPECT_EQ(reference::largest(scores, 4), (std::vector<int32_t>{0, 1, 2, 3}));
  EXPECT_EQ(reference::largest(scores, 6),
            (std::vector<int32_t>{0, 1, 2, 3, 4, 5}));
  EXPECT_TRUE(reference::largest(scores, 0).empty());
}

TEST(Reference, PairsOfEveryTerm) {
  auto row = [](const reference::PairPredicate &keeps, int64_t i) {
    std::string text;
    for (int64_t j = 0; j < 8; ++j)
      text += keeps(i, j) ? 'x' : '.';
    return text;
  };
  std::vector<Term> window = {{Term::Kind::Window, 5, -1}};
  EXPECT_EQ(row(reference::pairsOf(window, 0, {}, {}), 0), "xxx.....");
  EXPECT_EQ(row(reference::pairsOf(window, 0, {}, {}), 4), "..xxxxx.");
  std::vector<Term> sinks = {{Term::Kind::Sinks, 2, -1}};
  EXPECT_EQ(row(reference::pairsOf(sinks, 0, {}, {}), 5), "xx......");
  EXPECT_EQ(row(reference::pairsOf({}, 0, {}, {}), 5), "xxxxxxxx");

  // Two heads, groups of 4 rows, 2 keys each.
  std::vector<int32_t> indices = {0, 1, 2, 3, 4, 5, 6, 7};
  std::vector<heddle::abi::IndexList> lists = {
      heddle::bundle::int32Lists(indices.data(), 2, 2)};
  std::vector<int64_t> groups = {4};
  std::vector<Term> columns = {{Term::Kind::Columns, 0, 0}};
  EXPECT_EQ(row(reference::pairsOf(columns, 0, lists, groups), 3), "xx......");
  EXPECT_EQ(row(reference::pairsOf(columns, 0, lists, groups), 4), "..xx....");
  EXPECT_EQ(row(reference::pairsOf(columns, 1, lists, groups), 7), "......xx");
  columns.push_back(window[0]);
  EXPECT_EQ(row(reference::pairsOf(columns, 1, lists, groups), 0), "xxx.xx..");
}

TEST(Reference, HeadsAndStridesFollowTheAbi) {
  // Two query heads on one key/value head of one element, rows 3 apart.
  float query[] = {1, 2, -1, 3, 4, -1}, key[] = {5, -1, -1, 6, -1, -1};
  heddle::abi::AttentionArgs args{};
  args.query = query;
  args.key = args.value = key;
  args.queryStride = args.keyStride = args.valueStride = 3;
  args.n = 2;
  args.kvGroup = 2;
  args.scale = 1;
  reference::Head head = reference::headOf(args, 1, 1, DType::F32);
  EXPECT_EQ(reference::load(head.query, 1 * head.queryStride, head.dtype), 4);
  EXPECT_EQ(reference::load(head.key, 1 * head.keyStride, head.dtype), 6);
  EXPECT_EQ(reference::headOf(args, 0, 1, DType::F32).query, query);
}

TEST(Reference, BFloat16RoundsToNearestEven) {
  uint16_t value = 0;
  reference::store(&value, 0, DType::BF16, 1.0 + 1.0 / 256); // halfway
  EXPECT_EQ(reference::load(&value, 0, DType::BF16), 1.0);
  reference::store(&value, 0, DType::BF16, 1.0 + 3.0 / 256);
  EXPECT_EQ(reference::load(&value, 0, DType::BF16), 1.0 + 4.0 / 256);
}
