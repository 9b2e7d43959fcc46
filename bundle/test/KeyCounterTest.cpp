//===- KeyCounterTest.cpp - Counted is what sets hold ---------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "bundle/program/KeyCounter.h"
#include "bundle/program/Manifest.h"
#include "bundle/test/RandomTerm.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

using namespace heddle;
using namespace heddle::bundle;

/// Of all positions and of some, for rows in turn and in any order.
TEST(KeyCounter, countsThePairsThatSetsHold) {
  std::mt19937 random(16);
  auto below = [&](int64_t n) {
    return static_cast<int64_t>(random() % static_cast<uint64_t>(n));
  };
  for (int trial = 0; trial < 2000; ++trial) {
    const int64_t n = 1 + below(60), sinks = below(n + 2);
    std::vector<Term> terms;
    for (int64_t t = 1 + below(4); t > 0; --t)
      terms.push_back(test::randomTerm(random, 40));
    auto holds = pairsOf(terms, 0, {}, {}, nullptr, sinks);
    std::vector<int32_t> visible;
    for (int32_t key = 0; key < n; ++key)
      if (below(3))
        visible.push_back(key);
    KeyCounter all(terms, sinks, n), some(terms, sinks, n, visible);
    for (int64_t i = 0; i < 2 * n; ++i) {
      const int64_t query = i < n ? i : below(n);
      int64_t ofAll = 0, ofSome = 0;
      for (int64_t key = 0; key < n; ++key)
        ofAll += holds(query, key);
      for (int32_t key : visible)
        ofSome += holds(query, key);
      ASSERT_EQ(all.keysOf(query), ofAll)
          << words(terms, Manifest()) << " query " << query << " of " << n;
      if (!visible.empty())
        ASSERT_EQ(some.keysOf(query), ofSome)
            << words(terms, Manifest()) << " query " << query << " of " << n;
    }
  }
}

/// Sets that list keys have none here.
TEST(KeyCounter, listsAreNotCounted) {
  const Term terms[] = {{Term::Kind::Columns, 0, 0}, {Term::Kind::Sinks, 3}};
  KeyCounter keys(terms, 3, 100);
  EXPECT_EQ(keys.keysOf(50), 3);
  EXPECT_EQ(KeyCounter(std::span(terms).first(1), 0, 100).keysOf(50), 0);
}
