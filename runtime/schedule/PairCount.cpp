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

/// The visible positions of a sequence; without an array, all of them.
struct Keys {
  int64_t n;
  const int32_t *position;
  int64_t sinks; ///< abi::AttentionArgs::sinks

  int64_t positionOf(int64_t place) const {
    return position ? position[place] : place;
  }
  /// Places whose position is below `limit`.
  int64_t below(int64_t limit) const {
    if (!position)
      return std::clamp<int64_t>(limit, 0, n);
    return std::lower_bound(position, position + n, limit) - position;
  }
};

/// Places [0, sinks) and [begin, end), disjoint: what the terms without lists
/// keep for one row. All windows are centred on the row, so the widest holds
/// the others; likewise the sinks.
struct StaticKeys {
  int64_t sinks = 0;
  int64_t begin = 0;
  int64_t end = 0;
  int64_t count() const { return sinks + (end - begin); }
};

StaticKeys staticKeys(std::span<const Term> terms, const Keys &all,
                      int64_t place) {
  StaticKeys keys;
  int64_t half = -1;
  for (const Term &term : terms) {
    if (term.kind == Term::Kind::Window)
      half = std::max(half, term.size / 2);
    else if (term.kind == Term::Kind::Sinks)
      keys.sinks = std::max(
          keys.sinks,
          all.below(bundle::isShareOfSinks(term) ? all.sinks : term.size));
  }
  keys.begin = keys.end = keys.sinks;
  if (half >= 0) {
    int64_t at = all.positionOf(place);
    keys.begin = std::max(keys.sinks, all.below(at - half));
    keys.end = std::max(keys.begin, all.below(at + half + 1));
  }
  return keys;
}

bool isListed(const Term &term) {
  return term.kind == Term::Kind::Columns || term.kind == Term::Kind::Blocks;
}

/// Calls `use` with the places [begin, end) of each block of a group's list.
template <typename Use>
void forBlocks(const abi::IndexList &list, int64_t row, int64_t group,
               int64_t size, int64_t n, Use use) {
  const int32_t *entries = bundle::int32Keys(list, row, group);
  int64_t first = list.split > 0 ? (list.split + size - 1) / size : 0;
  for (int64_t e = 0; e < list.keep; ++e) {
    int64_t block = entries[e];
    if (block < 0)
      continue;
    bool second = list.split > 0 && block >= first;
    int64_t begin = second ? list.split + (block - first) * size : block * size;
    int64_t end = std::min(begin + size, n);
    if (list.split > 0 && !second)
      end = std::min(end, list.split);
    use(begin, end);
  }
}

/// Appends the places that a list keeps for a group; returns the new end.
int32_t *expandList(const Term &term, const abi::IndexList &list, int64_t row,
                    int64_t group, int64_t size, int64_t n, int32_t *out) {
  if (term.kind == Term::Kind::Columns) {
    const int32_t *entries = bundle::int32Keys(list, row, group);
    return std::copy(entries, entries + list.keep, out);
  }
  forBlocks(list, row, group, size, n, [&](int64_t begin, int64_t end) {
    for (; begin < end; ++begin)
      *out++ = static_cast<int32_t>(begin);
  });
  return out;
}

} // namespace

bool heddle::rt::pairsDependOnLists(std::span<const Term> terms) {
  return std::any_of(terms.begin(), terms.end(), [&](const Term &term) {
    return term.kind == Term::Kind::Blocks ||
           (term.kind == Term::Kind::Columns && terms.size() > 1);
  });
}

int64_t heddle::rt::mergedKeys(std::span<const Term> terms,
                               const abi::AttentionArgs &args,
                               std::span<const int64_t> groups) {
  int64_t keys = 0;
  size_t c = 0;
  for (const Term &term : terms) {
    if (!isListed(term))
      continue;
    int64_t keep = args.lists[c].keep;
    if (term.kind == Term::Kind::Blocks)
      keep *= groups[c];
    keys += std::min(keep, args.n);
    ++c;
  }
  return keys;
}

int64_t heddle::rt::pairsOfRows(std::span<const Term> terms,
                                const abi::AttentionArgs &args, int64_t head,
                                std::span<const int64_t> groups,
                                std::span<int32_t> merged) {
  if (terms.empty())
    return args.rows * args.n;
  const Keys all{args.n, args.position, args.sinks};
  auto placeOf = [&](int64_t row) {
    return args.place ? args.place[row] : row;
  };
  int64_t pairs = 0;
  // Blocks alone: all rows of a group keep the same keys, and no two blocks
  // have one in common.
  if (terms.size() == 1 && terms.front().kind == Term::Kind::Blocks) {
    const abi::IndexList &list = args.lists[0];
    for (int64_t row = 0; row < args.rows;) {
      const int64_t group = placeOf(row) / groups[0], from = row;
      while (row < args.rows && placeOf(row) / groups[0] == group)
        ++row;
      forBlocks(list, head / list.headsPerList, group, groups[0], args.n,
                [&](int64_t begin, int64_t end) {
                  pairs += (row - from) * std::max<int64_t>(0, end - begin);
                });
    }
    return pairs;
  }
  for (int64_t row = 0; row < args.rows;) {
    // Rows at places below `end` share all their lists with this one.
    int64_t end = args.n;
    int32_t *last = merged.data();
    size_t lists = 0;
    for (const Term &term : terms) {
      if (!isListed(term))
        continue;
      int64_t size = groups[lists];
      int64_t group = placeOf(row) / size;
      end = std::min(end, (group + 1) * size);
      const abi::IndexList &list = args.lists[lists++];
      last = expandList(term, list, head / list.headsPerList, group, size,
                        args.n, last);
    }
    int32_t *begin = merged.data();
    if (lists > 1) { // std::inplace_merge would allocate
      std::sort(begin, last);
      last = std::unique(begin, last);
    }
    for (; row < args.rows && placeOf(row) < end; ++row) {
      StaticKeys fixed = staticKeys(terms, all, placeOf(row));
      auto below = [&](int64_t key) {
        return std::lower_bound(begin, last, key) - begin;
      };
      int64_t covered =
          below(fixed.sinks) + (below(fixed.end) - below(fixed.begin));
      pairs += fixed.count() + (last - begin) - covered;
    }
  }
  return pairs;
}

void heddle::rt::keysOfRow(std::span<const Term> terms,
                           const abi::AttentionArgs &args, int64_t head,
                           std::span<const int64_t> groups, int64_t place,
                           std::vector<int32_t> &keys) {
  auto add = [&](int64_t begin, int64_t end) {
    for (; begin < end; ++begin)
      keys.push_back(static_cast<int32_t>(begin));
  };
  keys.clear();
  if (terms.empty())
    return add(0, args.n);
  StaticKeys fixed =
      staticKeys(terms, {args.n, args.position, args.sinks}, place);
  add(0, fixed.sinks);
  add(fixed.begin, fixed.end);
  size_t c = 0;
  for (const Term &term : terms) {
    if (!isListed(term))
      continue;
    const abi::IndexList &list = args.lists[c];
    const int64_t size = groups[c++], group = place / size;
    const int64_t row = head / list.headsPerList;
    if (term.kind == Term::Kind::Columns) {
      const int32_t *entries = bundle::int32Keys(list, row, group);
      keys.insert(keys.end(), entries, entries + list.keep);
    } else {
      forBlocks(list, row, group, size, args.n, add);
    }
  }
  std::sort(keys.begin(), keys.end());
  keys.erase(std::unique(keys.begin(), keys.end()), keys.end());
}

int64_t heddle::rt::fixedPairs(std::span<const Term> terms, int64_t n,
                               int64_t keep) {
  assert(!pairsDependOnLists(terms));
  if (terms.empty())
    return n * n;
  if (terms.front().kind == Term::Kind::Columns)
    return n * keep;
  const Keys all{n, nullptr, bundle::sinkBound(terms, n)};
  int64_t pairs = 0;
  for (int64_t row = 0; row < n; ++row)
    pairs += staticKeys(terms, all, row).count();
  return pairs;
}

int64_t heddle::rt::listedPairs(std::span<const Term> terms, int64_t n,
                                int64_t head,
                                std::span<const abi::IndexList> lists,
                                std::span<const int64_t> groups,
                                std::span<int32_t> merged) {
  abi::AttentionArgs args{};
  args.n = args.rows = n;
  args.sinks = bundle::sinkBound(terms, n);
  for (size_t c = 0; c < lists.size(); ++c) {
    args.lists[c] = lists[c];
    if (args.lists[c].headsPerList < 1)
      args.lists[c].headsPerList = 1;
  }
  return pairsOfRows(terms, args, head, groups, merged);
}
