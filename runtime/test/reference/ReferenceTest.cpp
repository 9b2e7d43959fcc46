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

TEST(Reference, MeanLogitByHand) {
  Small small; // queries (1, 0) and (0, 0), as attention by hand shows
  std::vector<double> scores = reference::meanLogit(small.head(), 0, 2);
  EXPECT_NEAR(scores[0], 0, 1e-6);
  EXPECT_NEAR(scores[1], std::log(2.0) / 2, 1e-6);
  EXPECT_NEAR(scores[2], std::log(5.0) / 2, 1e-6);
  EXPECT_EQ(reference::meanLogit(small.head(), 1, 2),
            (std::vector<double>{0, 0, 0}));

  // Both rows as heads of one list: less the least.
  small.query[0] = -1;
  heddle::abi::SelectArgs args{};
  args.query = small.query;
  args.key = small.key;
  args.n = 3;
  args.queryStride = 4;
  args.keyStride = 2;
  args.kvGroup = 2;
  args.scale = 1;
  args.list.headsPerList = 2;
  heddle::bundle::Kernel kernel;
  kernel.scorer = heddle::bundle::Selection::Scorer::MeanLogit;
  scores =
      reference::scoresOfList(args, kernel, 0, 0, 1, nullptr, 2, DType::F32);
  EXPECT_NEAR(scores[0], std::log(5.0) / 2, 1e-6);
  EXPECT_NEAR(scores[1], std::log(2.5) / 2, 1e-6);
  EXPECT_EQ(scores[2], 0);

  // Of two blocks the second, of one key, has none to take away.
  kernel.blocks = true;
  kernel.group = 2;
  scores =
      reference::scoresOfList(args, kernel, 0, 0, 1, nullptr, 2, DType::F32);
  ASSERT_EQ(scores.size(), 2);
  EXPECT_NEAR(scores[0], std::log(12.5) / 4, 1e-6);
  EXPECT_EQ(scores[1], 0);
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

TEST(Reference, PairsGoByPlaceOrPosition) {
  // Five visible positions; three rows, at places 1, 3 and 4.
  const int32_t position[] = {0, 1, 2, 4, 6}, place[] = {1, 3, 4};
  auto keys = [](const reference::PairPredicate &keeps, int64_t i) {
    std::string text;
    for (int64_t j = 0; j < 5; ++j)
      text += keeps(i, j) ? 'x' : '.';
    return text;
  };
  std::vector<Term> window = {{Term::Kind::Window, 4, -1}};
  auto near = reference::pairsOf(window, 0, {}, {}, position);
  EXPECT_EQ(keys(near, 1), "xxx..");
  EXPECT_EQ(keys(near, 3), "..xxx");
  std::vector<Term> sinks = {{Term::Kind::Sinks, 3, -1}};
  EXPECT_EQ(keys(reference::pairsOf(sinks, 0, {}, {}, position), 4), "xxx..");
  std::vector<Term> share = {{Term::Kind::Sinks, 0, -1, {1, 2}}};
  EXPECT_EQ(keys(reference::pairsOf(share, 0, {}, {}, position, 5), 4),
            "xxxx.");
  share.push_back(sinks[0]);
  EXPECT_EQ(keys(reference::pairsOf(share, 0, {}, {}, position, 5), 4),
            "xxxx.");
  EXPECT_EQ(keys(reference::pairsOf(share, 0, {}, {}, position, 1), 4),
            "xxx..");

  // Blocks of 2 that start anew at key 3: {0,1} {2} {3,4}. Two query heads
  // share a list; the second list of a group misses an entry.
  std::vector<int32_t> indices = {0, 2, 1, -1, 0, 1};
  heddle::abi::IndexList list =
      heddle::bundle::int32Lists(indices.data(), 3, 2);
  list.split = 3;
  list.headsPerList = 2;
  std::vector<heddle::abi::IndexList> lists = {list};
  std::vector<int64_t> sizes = {2};
  std::vector<Term> blocks = {{Term::Kind::Blocks, 0, 0}};
  for (int64_t head : {0, 1}) {
    auto keeps = reference::pairsOf(blocks, head, lists, sizes, position);
    EXPECT_EQ(keys(keeps, 1), "xx.xx");
    EXPECT_EQ(keys(keeps, 2), "..x..");
    EXPECT_EQ(keys(keeps, 4), "xxx..");
  }

  float query[] = {0, 0, 0}, key[] = {1, 2, 3, 4, 5};
  heddle::abi::AttentionArgs args{};
  args.query = query;
  args.key = args.value = key;
  args.queryStride = args.keyStride = args.valueStride = 1;
  args.n = 5;
  args.rows = 3;
  args.place = place;
  args.kvGroup = 1;
  reference::RowResult row =
      reference::attendRow(reference::headOf(args, 0, 1, DType::F32), 1, near);
  EXPECT_DOUBLE_EQ(row.output[0], 4); // of keys 2, 3 and 4
  EXPECT_EQ(row.pairs, 3);
}

TEST(Reference, BlocksByHand) {
  EXPECT_EQ(reference::blockOf(39, 32, 40), 1);
  EXPECT_EQ(reference::blockOf(40, 32, 40), 2);
  EXPECT_EQ(reference::blockOf(99, 32, 40), 3);
  EXPECT_EQ(reference::blockOf(40, 32, 0), 1);
  // {0,1} {2} {3,4} {5}
  std::vector<double> scores = {1, 3, 8, 5, 6, 7};
  EXPECT_EQ(reference::blockMeans(scores, 2, 3, false),
            (std::vector<double>{2, 8, 5.5, 7}));
  EXPECT_EQ(reference::blockMeans(scores, 4, 0, false),
            (std::vector<double>{4.25, 6.5}));
  EXPECT_EQ(reference::blockMeans(scores, 4, 0, true),
            (std::vector<double>{4.25, 3.25}));

  heddle::abi::SelectArgs args{};
  args.list.keep = 2;
  std::vector<double> means = {2, 8, 5.5, 7};
  auto chosen = [&](const std::vector<double> &span) {
    return reference::chosenBlocks(args, means, span);
  };
  EXPECT_EQ(chosen({}), (std::vector<int32_t>{1, 3}));
  args.boundary = 2;
  args.spanKeep = 1;
  args.list.keep = 3;
  EXPECT_EQ(chosen({}), (std::vector<int32_t>{1, 2, 3}));
  args.list.keep = 2;
  EXPECT_EQ(chosen({}), (std::vector<int32_t>{1, 3}));
  // By its own scores the second span prefers its first block; of the best two
  // of all, one is in the first span.
  args.spanKeep = 2;
  args.list.keep = 3;
  EXPECT_EQ(chosen({9, 1}), (std::vector<int32_t>{1, 2, -1}));
}

TEST(Reference, SharedListsScoreByTheMeanOverHeads) {
  Small small;
  // The two rows as two heads of one row.
  heddle::abi::SelectArgs args{};
  args.query = small.query;
  args.key = small.key;
  args.n = 1;
  args.queryStride = 4;
  args.keyStride = 2;
  args.kvGroup = 2;
  args.scale = 1;
  args.list.headsPerList = 2;
  const float lse[] = {1, 2};
  std::vector<double> scores =
      reference::listScores(args, 0, 0, 1, lse, 2, DType::F32);
  ASSERT_EQ(scores.size(), 1u);
  EXPECT_NEAR(scores[0], (1 / 2.0 + 1 / 4.0) / 2, 1e-6);
}

TEST(Reference, KeysOutsideOfAnotherListScoreNothing) {
  using heddle::bundle::Encoding;
  // Of two lists for two heads each, for groups of 64 rows, the second one's
  // for its second group: of row 3 and group 5 of lists for a head and 16 rows.
  heddle::bundle::Kernel kernel;
  kernel.group = 16;
  heddle::abi::SelectArgs args{};
  args.n = 6;
  args.list.headsPerList = 1;
  args.alwaysBegin = 4;
  args.alwaysEnd = 5;
  int32_t keys[] = {0, 1, 2, 3, 4, 5, 1, 3};
  args.within = heddle::bundle::int32Lists(keys, 2, 2);
  args.within.headsPerList = 2;
  const double inf = std::numeric_limits<double>::infinity(),
               least = std::numeric_limits<float>::denorm_min();
  const std::vector<double> by = {5, 0, 3, 2, inf, 1};
  auto left = [&](Encoding encoding = Encoding::Int32) {
    return reference::chosenWithin(args, kernel, 3, 5, by, encoding);
  };
  EXPECT_EQ(left(), by); // within none
  kernel.withinGroup = 64;
  EXPECT_EQ(left(), (std::vector<double>{0, least, 0, 2, inf, 0}));
  uint8_t bits[64] = {};
  bits[3 * 16] = 0b101010;
  args.within.indices = bits;
  args.within.rowBytes = 16;
  args.within.keep = 3;
  EXPECT_EQ(left(Encoding::Bitmap),
            (std::vector<double>{0, least, 0, 2, inf, 1}));
  // Blocks of 4 that start anew at key 2: {0, 1} {2, 3, 4, 5}.
  kernel.withinBlocks = true;
  kernel.withinGroup = 4;
  kernel.group = 4;
  int32_t block = 1;
  args.within = heddle::bundle::int32Lists(&block, 1, 1);
  args.within.split = 2;
  EXPECT_EQ(reference::chosenWithin(args, kernel, 0, 0, by),
            (std::vector<double>{0, 0, 3, 2, inf, 1}));
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
