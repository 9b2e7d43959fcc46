//===- PairCount.cpp - Exactly how many pairs a pattern keeps -------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/schedule/PairCount.h"

#include "bundle/IndexLayout.h"

#include <algorithm>
#include <cassert>

using namespace heddle;
using namespace heddle::rt;
using bundle::Term;

namespace {

/// Keys [0, sinks) and [begin, end), disjoint: what the terms without lists
/// keep for one row. All windows are centred on the row, so the widest holds
/// the others; likewise the sinks.
struct StaticKeys {
  int64_t sinks = 0;
  int64_t begin = 0;
  int64_t end = 0;
  int64_t count() const { return sinks + (end - begin); }
};

StaticKeys staticKeys(std::span<const Term> terms, int64_t n, int64_t row) {
  StaticKeys keys;
  int64_t half = -1;
  for (const Term &term : terms) {
    if (term.kind == Term::Kind::Window)
      half = std::max(half, term.size / 2);
    else if (term.kind == Term::Kind::Sinks)
      keys.sinks = std::max(keys.sinks, std::min(term.size, n));
  }
  keys.begin = keys.end = keys.sinks;
  if (half >= 0) {
    keys.begin = std::max(keys.sinks, row - half);
    int64_t last = half >= n - 1 - row ? n - 1 : row + half;
    keys.end = std::max(keys.begin, last + 1);
  }
  return keys;
}

} // namespace

bool heddle::rt::pairsDependOnLists(std::span<const Term> terms) {
  return terms.size() > 1 &&
         std::any_of(terms.begin(), terms.end(), [](const Term &term) {
           return term.kind == Term::Kind::Columns;
         });
}

int64_t heddle::rt::fixedPairs(std::span<const Term> terms, int64_t n,
                               int64_t keep) {
  assert(!pairsDependOnLists(terms));
  if (terms.empty())
    return n * n;
  if (terms.front().kind == Term::Kind::Columns)
    return n * keep;
  int64_t pairs = 0;
  for (int64_t row = 0; row < n; ++row)
    pairs += staticKeys(terms, n, row).count();
  return pairs;
}

int64_t heddle::rt::listedPairs(std::span<const Term> terms, int64_t n,
                                int64_t head,
                                std::span<const abi::IndexList> lists,
                                std::span<const int64_t> groups,
                                std::span<int32_t> merged) {
  int64_t pairs = 0;
  for (int64_t row = 0; row < n;) {
    // Rows [row, end) share all their lists.
    int64_t end = n;
    auto last = merged.begin();
    for (size_t c = 0; c < lists.size(); ++c) {
      int64_t group = row / groups[c];
      end = std::min(end, (group + 1) * groups[c]);
      const abi::IndexList &list = lists[c];
      const int32_t *keys = bundle::int32Keys(list, head, group);
      last = std::copy(keys, keys + list.keep, last);
    }
    if (lists.size() > 1) { // std::inplace_merge would allocate
      std::sort(merged.begin(), last);
      last = std::unique(merged.begin(), last);
    }
    for (; row < end; ++row) {
      StaticKeys fixed = staticKeys(terms, n, row);
      auto below = [&](int64_t key) {
        return std::lower_bound(merged.begin(), last, key) - merged.begin();
      };
      int64_t covered =
          below(fixed.sinks) + (below(fixed.end) - below(fixed.begin));
      pairs += fixed.count() + (last - merged.begin()) - covered;
    }
  }
  return pairs;
}
