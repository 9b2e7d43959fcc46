//===- PairSetsTest.cpp - Each set's parts say the same -------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "bundle/program/PairSets.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

using namespace heddle;
using namespace heddle::bundle;

/// The runs of a union hold what the definitions of its sets hold, each key
/// once and ascending.
TEST(PairSets, runsAreThePairsThatSetsHold) {
  std::mt19937 random(14);
  auto below = [&](int64_t n) {
    return static_cast<int64_t>(random() % static_cast<uint64_t>(n));
  };
  for (int trial = 0; trial < 2000; ++trial) {
    const int64_t n = 1 + below(40), sinks = below(n + 2);
    std::vector<Term> terms;
    for (int64_t t = 1 + below(3); t > 0; --t)
      switch (below(3)) {
      case 0:
        terms.push_back({Term::Kind::Window, 1 + below(30), -1});
        break;
      case 1:
        terms.push_back({Term::Kind::Sinks, 1 + below(50), -1});
        break;
      default:
        terms.push_back({Term::Kind::Sinks, 0, -1, {1, 1 + below(12)}});
      }
    auto holds = pairsOf(terms, 0, {}, {}, nullptr, sinks);
    for (int64_t query = 0; query < n; ++query) {
      int64_t last = 0;
      std::vector<bool> held(static_cast<size_t>(n));
      forRuns(terms, query, sinks, n, [&](int64_t begin, int64_t end) {
        EXPECT_LE(last, begin);
        EXPECT_LT(begin, end);
        last = end;
        for (; begin < end; ++begin)
          held.at(static_cast<size_t>(begin)) = true;
      });
      for (int64_t key = 0; key < n; ++key)
        ASSERT_EQ(held[static_cast<size_t>(key)], holds(query, key))
            << words(terms, Manifest()) << " query " << query << " key " << key;
    }
  }
}

/// An entry that stands for a key has that key, and no more than it may.
TEST(PairSets, entriesHaveTheKeysThatTheyStandFor) {
  for (Term::Kind kind : {Term::Kind::Columns, Term::Kind::Blocks})
    for (int64_t split : {0, 1, 32, 40, 100})
      for (int64_t key = 0; key < 100; ++key)
        withSet({kind, 0, 0}, [&](auto set) {
          if constexpr (listed<decltype(set)>) {
            auto [begin, end] =
                set.keysOf(set.entryOf(key, 32, split), 32, split, 100);
            EXPECT_TRUE(begin <= key && key < end) << key << " of " << split;
            EXPECT_LE(end - begin, set.keysAtMost(32));
          }
        });
}
