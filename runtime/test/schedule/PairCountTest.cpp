//===- PairCountTest.cpp - Pair counts against brute force ----------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/schedule/PairCount.h"

#include "runtime/reference/Reference.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

using namespace heddle;
using namespace heddle::rt;
using bundle::Term;

static int64_t countOneByOne(const reference::PairPredicate &keeps, int64_t n) {
  int64_t pairs = 0;
  for (int64_t i = 0; i < n; ++i)
    for (int64_t j = 0; j < n; ++j)
      pairs += keeps(i, j);
  return pairs;
}

TEST(PairCount, DenseAndColumnsByFormula) {
  EXPECT_EQ(fixedPairs({}, 1000, 0), 1000000);
  std::vector<Term> columns = {{Term::Kind::Columns, 0, 0}};
  EXPECT_FALSE(pairsDependOnLists(columns));
  EXPECT_EQ(fixedPairs(columns, 1000, 7), 7000);
}

TEST(PairCount, WindowsAndSinksEqualCountingOneByOne) {
  for (int64_t n : {1, 2, 5, 16, 33})
    for (int64_t window : {0, 1, 2, 5, 30, 31, 64, 1000})
      for (int64_t sinks : {0, 1, 3, 16, 40}) {
        std::vector<Term> terms = {{Term::Kind::Window, window, -1},
                                   {Term::Kind::Sinks, sinks, -1}};
        for (auto part : {std::span(terms), std::span(terms).first(1),
                          std::span(terms).last(1)})
          EXPECT_EQ(fixedPairs(part, n, 0),
                    countOneByOne(reference::pairsOf(part, 0, {}, {}), n))
              << "n " << n << " window " << window << " sinks " << sinks;
      }
}

TEST(PairCount, UnionsWithListsEqualCountingOneByOne) {
  std::mt19937 random(7);
  auto below = [&](int64_t bound) {
    return static_cast<int64_t>(random() % static_cast<uint64_t>(bound));
  };
  for (int trial = 0; trial < 200; ++trial) {
    int64_t n = 1 + below(40), heads = 2;
    int64_t columns = 1 + below(3);
    std::vector<Term> terms;
    std::vector<std::vector<int32_t>> memory;
    std::vector<heddle::abi::IndexList> lists;
    std::vector<int64_t> groups;
    int64_t room = 0;
    for (int64_t c = 0; c < columns; ++c) {
      terms.push_back({Term::Kind::Columns, 0, c});
      groups.push_back(1 + below(9));
      int64_t count = (n + groups.back() - 1) / groups.back();
      int64_t keep = 1 + below(n);
      std::vector<int32_t> keys(n);
      std::iota(keys.begin(), keys.end(), 0);
      std::vector<int32_t> &indices = memory.emplace_back();
      for (int64_t list = 0; list < heads * count; ++list) {
        std::shuffle(keys.begin(), keys.end(), random);
        std::sort(keys.begin(), keys.begin() + keep);
        indices.insert(indices.end(), keys.begin(), keys.begin() + keep);
      }
      lists.push_back(bundle::int32Lists(indices.data(), count, keep));
      room += keep;
    }
    if (below(2))
      terms.push_back({Term::Kind::Window, below(12), -1});
    if (below(2))
      terms.push_back({Term::Kind::Sinks, below(6), -1});
    std::vector<int32_t> merged(room);
    for (int64_t head = 0; head < heads; ++head)
      EXPECT_EQ(
          listedPairs(terms, n, head, lists, groups, merged),
          countOneByOne(reference::pairsOf(terms, head, lists, groups), n));
  }
}
