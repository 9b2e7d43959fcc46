//===- PairCountTest.cpp - Pair counts against brute force ----------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/schedule/PairCount.h"

#include "bundle/abi/IndexLayout.h"
#include "bundle/test/RandomTerm.h"
#include "runtime/reference/Reference.h"
#include "runtime/reference/ReferenceKernels.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
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

TEST(PairCount, SharesOfSinksEqualCountingOneByOne) {
  for (int64_t n : {1, 2, 5, 9, 10, 33})
    for (bundle::Ratio share :
         {bundle::Ratio{1, 100}, {1, 10}, {1, 3}, {2, 3}, {1, 1}}) {
      std::vector<Term> terms = {{Term::Kind::Window, 6, -1},
                                 {Term::Kind::Sinks, 2, -1},
                                 {Term::Kind::Sinks, 0, -1, share}};
      const int64_t bound = std::max<int64_t>(1, n * share.num / share.den);
      for (auto part : {std::span(terms), std::span(terms).last(2),
                        std::span(terms).last(1)})
        EXPECT_EQ(fixedPairs(part, n, 0),
                  countOneByOne(
                      reference::pairsOf(part, 0, {}, {}, nullptr, bound), n))
            << "n " << n << " share " << share.num << "/" << share.den;
      EXPECT_EQ(fixedPairs(std::span(terms).last(1), n, 0), n * bound);
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
    }
    if (below(2))
      terms.push_back({Term::Kind::Window, below(12), -1});
    if (below(2))
      terms.push_back({Term::Kind::Sinks, below(6), -1});
    if (below(2))
      terms.push_back({Term::Kind::Sinks, 0, -1, {1, 1 + below(12)}});
    for (Term &term : terms)
      if (!bundle::isShareOfSinks(term) && below(4) == 0)
        term.within = test::randomBound(random, 12);
    heddle::abi::AttentionArgs args{};
    args.n = args.rows = n;
    args.sinks = bundle::sinkBound(terms, n);
    std::ranges::copy(lists, args.lists);
    for (int64_t head = 0; head < heads; ++head)
      EXPECT_EQ(
          pairsOfRows(terms, args, head, groups),
          countOneByOne(reference::pairsOf(terms, head, lists, groups, nullptr,
                                           bundle::sinkBound(terms, n)),
                        n));
  }
}

TEST(PairCount, SomeRowsOfVisiblePositionsEqualCountingOneByOne) {
  std::mt19937 random(8);
  auto below = [&](int64_t bound) {
    return static_cast<int64_t>(random() % static_cast<uint64_t>(bound));
  };
  /// An ascending random share of [0, n), never empty.
  auto someOf = [&](int64_t n) {
    std::vector<int32_t> some;
    for (int64_t i = 0; i < n; ++i)
      if (below(3) > 0)
        some.push_back(static_cast<int32_t>(i));
    if (some.empty())
      some.push_back(static_cast<int32_t>(below(n)));
    return some;
  };
  for (int trial = 0; trial < 1000; ++trial) {
    std::vector<int32_t> position = someOf(1 + below(50));
    auto n = static_cast<int64_t>(position.size());
    std::vector<int32_t> place = someOf(n);
    const int64_t heads = 4;
    bundle::Manifest manifest;
    bundle::Kernel &kernel = manifest.kernels.emplace_back();
    std::vector<std::vector<int32_t>> memory;
    std::vector<int64_t> groups;
    heddle::abi::AttentionArgs args{};
    for (int64_t lists = below(4); lists > 0; --lists) {
      bool blocks = below(2) == 0;
      bundle::Selection &selection = manifest.selections.emplace_back();
      selection.group = 1 + below(9);
      heddle::abi::IndexList &list = args.lists[groups.size()];
      list.groups = (n - 1) / selection.group + 1;
      list.headsPerList = below(2) == 0 ? 1 : 2;
      list.split = blocks && below(2) == 0 ? below(n) : 0;
      int64_t choices = n;
      if (blocks)
        choices = (list.split + selection.group - 1) / selection.group +
                  (n - list.split + selection.group - 1) / selection.group;
      list.keep = 1 + below(choices);
      list.rowBytes = list.keep * 4;
      std::vector<int32_t> &entries = memory.emplace_back();
      for (int64_t row = 0; row < heads / list.headsPerList * list.groups;
           ++row) {
        std::vector<int32_t> all(choices);
        std::iota(all.begin(), all.end(), 0);
        std::shuffle(all.begin(), all.end(), random);
        std::sort(all.begin(), all.begin() + list.keep);
        if (blocks && list.keep > 1 && below(3) == 0)
          all[list.keep - 1] = -1;
        entries.insert(entries.end(), all.begin(), all.begin() + list.keep);
      }
      kernel.terms.push_back(
          {blocks ? Term::Kind::Blocks : Term::Kind::Columns, 0,
           static_cast<int64_t>(manifest.selections.size()) - 1});
      groups.push_back(selection.group);
    }
    for (size_t c = 0; c < memory.size(); ++c)
      args.lists[c].indices = memory[c].data();
    if (below(2) == 0)
      kernel.terms.push_back({Term::Kind::Window, below(20), -1});
    if (below(2) == 0)
      kernel.terms.push_back({Term::Kind::Sinks, below(20), -1});
    if (below(2) == 0)
      kernel.terms.push_back({Term::Kind::Sinks, 0, -1, {1, 1 + below(12)}});
    for (Term &term : kernel.terms)
      if (!bundle::isShareOfSinks(term) && below(3) == 0)
        term.within = test::randomBound(random, 20);
    args.sinks =
        bundle::sinkBound(kernel.terms, position.back() + 1 + below(9));

    args.n = n;
    args.rows = static_cast<int64_t>(place.size());
    args.place = place.data();
    args.position = position.data();
    args.kvGroup = 1;
    args.heads = heads;
    args.queryStride = args.keyStride = args.valueStride = args.outputStride =
        heads;
    std::vector<float> zeros(n * heads), output(n * heads);
    args.query = args.key = args.value = zeros.data();
    args.output = output.data();
    ReferenceKernels reference(manifest, 1, DType::F32);
    ASSERT_TRUE(reference.attend(0, std::span(&args, 1)));
    int64_t pairs = 0;
    std::vector<int64_t> ofRow(place.size()); // less what its keys are: 0
    for (int64_t head = 0; head < heads; ++head)
      pairs += pairsOfRows(kernel.terms, args, head, groups, ofRow);
    EXPECT_EQ(pairs, reference.visitedPairs()) << "trial " << trial;
    // The keys themselves, row by row.
    int64_t listed = 0;
    std::vector<int32_t> keys;
    for (int64_t head = 0; head < heads; ++head)
      for (size_t row = 0; row < place.size(); ++row) {
        keysOfRow(kernel.terms, args, head, groups, place[row], keys);
        listed += static_cast<int64_t>(keys.size());
        ofRow[row] -= static_cast<int64_t>(keys.size());
        EXPECT_TRUE(keys.empty() || (keys.front() >= 0 && keys.back() < n));
        EXPECT_EQ(std::adjacent_find(keys.begin(), keys.end(),
                                     std::greater_equal<>()),
                  keys.end());
      }
    EXPECT_EQ(listed, pairs) << "trial " << trial;
    EXPECT_EQ(std::ranges::count(ofRow, 0), std::ssize(ofRow))
        << "trial " << trial;
  }
}
