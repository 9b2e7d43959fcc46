//===- PairSetsTest.cpp - Each set's parts say the same -------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "bundle/program/PairSets.h"
#include "bundle/format/ManifestJson.h"
#include "bundle/program/Manifest.h"
#include "bundle/test/RandomTerm.h"
#include "bundle/test/TestManifest.h"

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
      terms.push_back(heddle::test::randomTerm(random, 40));
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

/// A set that is said to hold another holds its pairs, whatever sinks are told.
TEST(PairSets, setsHoldWhatTheyAreSaidToHold) {
  std::mt19937 random(15);
  int held = 0;
  for (int trial = 0; trial < 20000; ++trial) {
    const Term a = heddle::test::randomTerm(random, 20),
               b = heddle::test::randomTerm(random, 20);
    if (!contains(a, b))
      continue;
    ++held;
    const int64_t n = 30;
    const Term both[] = {a, b};
    for (int64_t query = 0; query < n; ++query)
      for (int64_t key = 0; key < n; ++key) {
        auto holds = [&](const Term &term) {
          return pairsOf({&term, 1}, 0, {}, {}, nullptr,
                         sinkBound({&term, 1}, n))(query, key);
        };
        ASSERT_TRUE(holds(a) || !holds(b))
            << words(both, Manifest()) << " query " << query << " key " << key;
      }
  }
  EXPECT_GT(held, 1000);
}

TEST(PairSets, IntersectionsRoundTripThroughJson) {
  Manifest manifest = testManifest();
  Term &columns = manifest.kernels[1].terms[0];
  columns.within = {{Term::Kind::Sinks, 4, -1},
                    {.kind = Term::Kind::Window, .size = 8, .dilation = 2}};
  Term sinks = {Term::Kind::Sinks, 4, -1};
  sinks.within = {{Term::Kind::Window, 8, -1}};
  manifest.kernels[2].terms = {sinks};
  EXPECT_EQ(sinkBound(manifest.kernels[2].terms, 100), 0)
      << "sinks within others are no sinks of the union";
  EXPECT_EQ(words(manifest.kernels[1].terms, manifest),
            "columns(cols) within sinks(4) within window(8, dilation = 2)");
  EXPECT_TRUE(manifest.kernels[1].comparesPositions());
  Result<Manifest> back = manifestFromJson(toJson(manifest));
  ASSERT_TRUE(back) << back.error().text();
  EXPECT_EQ(back->kernels[1].terms, manifest.kernels[1].terms);
  EXPECT_EQ(back->kernels[2].terms, manifest.kernels[2].terms);
}

/// Selections may be within the same sets, in any order, or be whole.
TEST(PairSets, SelectionsAreWithinTheSameSets) {
  const Term near = {Term::Kind::Window, 8, -1}, first = {Term::Kind::Sinks, 4};
  auto list = [](int64_t selection, std::vector<Term> within) {
    Term term = {Term::Kind::Columns, 0, selection};
    term.within = std::move(within);
    return term;
  };
  auto different = [](std::vector<Term> terms) {
    return differentBounds(terms);
  };
  EXPECT_FALSE(different({}));
  EXPECT_FALSE(different({near, list(0, {}), list(1, {near})}));
  EXPECT_FALSE(different({list(0, {near}), list(1, {near})}));
  EXPECT_FALSE(different(
      {list(0, {near}), list(0, {first}), list(1, {first}), list(1, {near})}));
  EXPECT_EQ(different({near, list(0, {near}), list(1, {first})}),
            std::pair(size_t(1), size_t(2)));
  EXPECT_EQ(different({list(0, {near}), list(0, {first}), list(1, {near})}),
            std::pair(size_t(0), size_t(2)));
  EXPECT_TRUE(different({list(0, {near}), list(1, {near, first})}));
}
