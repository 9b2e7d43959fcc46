//===- PairCount.cpp - Exactly how many pairs a pattern keeps -------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/schedule/PairCount.h"

#include "bundle/program/KeyCounter.h"

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
  int64_t limit() const { return n > 0 ? positionOf(n - 1) + 1 : 0; }
  /// Places whose position is below `limit`.
  int64_t below(int64_t limit) const {
    if (!position || limit <= 0)
      return std::clamp<int64_t>(limit, 0, n);
    return std::lower_bound(position, position + n, limit) - position;
  }
};

/// Calls `use` with the places [begin, end) of the keys that terms without
/// lists pair with the row at `place`, each once and ascending.
template <typename Use>
void forPlaces(std::span<const Term> terms, const Keys &all, int64_t place,
               Use use) {
  bundle::forRuns(terms, all.positionOf(place), all.sinks, all.limit(),
                  [&](int64_t begin, int64_t end) {
                    use(all.below(begin), all.below(end));
                  });
}

} // namespace

bool heddle::rt::pairsDependOnLists(std::span<const Term> terms) {
  return std::any_of(terms.begin(), terms.end(), [&](const Term &term) {
    return term.kind == Term::Kind::Blocks ||
           (term.kind == Term::Kind::Columns &&
            (terms.size() > 1 || !term.within.empty()));
  });
}

SharedLists::SharedLists(std::span<const Term> terms) {
  std::vector<Term> lists;
  for (const Term &term : terms)
    (bundle::readsList(term) ? lists : fixed).push_back(term);
  classes.resize(size_t(1) << lists.size());
  for (size_t which = 0; which < classes.size(); ++which) {
    Class &some = classes[which];
    some.whole = false;
    some.terms = fixed;
    for (size_t c = 0; c < lists.size(); ++c) {
      if (!(which >> c & 1))
        continue;
      if (lists[c].within.empty())
        some.whole = true;
      else
        some.terms.push_back(bundle::boundOf(lists[c]));
    }
  }
}

void SharedLists::add(size_t c, int64_t begin, int64_t end) {
  for (; begin < end; ++begin)
    listed.emplace_back(static_cast<int32_t>(begin), uint32_t(1) << c);
}

void SharedLists::close() {
  if (!std::ranges::is_sorted(listed)) // of one list they are
    std::sort(listed.begin(), listed.end());
  for (Class &some : classes)
    some.keys.clear();
  for (size_t i = 0; i < listed.size();) {
    const int32_t key = listed[i].first;
    uint32_t which = 0;
    for (; i < listed.size() && listed[i].first == key; ++i)
      which |= listed[i].second;
    classes[which].keys.push_back(key);
  }
}

int64_t SharedLists::Class::between(int64_t begin, int64_t end) const {
  if (begin >= end)
    return 0;
  const auto first = std::lower_bound(keys.begin(), keys.end(), begin);
  return std::lower_bound(first, keys.end(), end) - first;
}

int64_t heddle::rt::pairsOfRows(std::span<const Term> terms,
                                const abi::AttentionArgs &args, int64_t head,
                                std::span<const int64_t> groups,
                                std::span<int64_t> ofRow) {
  assert(ofRow.empty() || static_cast<int64_t>(ofRow.size()) == args.rows);
  const Keys all{args.n, args.position, args.sinks};
  int64_t pairs = 0;
  auto add = [&](int64_t row, int64_t keys) {
    pairs += keys;
    if (!ofRow.empty())
      ofRow[row] += keys;
  };
  if (terms.empty()) {
    for (int64_t row = 0; row < args.rows; ++row)
      add(row, args.n);
    return pairs;
  }
  auto placeOf = [&](int64_t row) {
    return args.place ? args.place[row] : row;
  };
  // A list alone: all rows of a group keep the same keys, and no two entries
  // have one in common.
  if (terms.size() == 1 && bundle::readsList(terms.front()) &&
      terms.front().within.empty()) {
    const abi::IndexList &list = args.lists[0];
    for (int64_t row = 0; row < args.rows;) {
      const int64_t group = placeOf(row) / groups[0];
      int64_t keys = 0;
      bundle::forEntries(
          terms[0], list, head, group, groups[0], args.n,
          [&](int64_t begin, int64_t end) { keys += end - begin; });
      for (; row < args.rows && placeOf(row) / groups[0] == group; ++row)
        add(row, keys);
    }
    return pairs;
  }
  SharedLists lists(terms);
  for (int64_t row = 0; row < args.rows;) {
    // Rows at places below `end` share all their lists with this one.
    int64_t end = args.n;
    size_t c = 0;
    lists.clear();
    for (const Term &term : terms) {
      if (!bundle::readsList(term))
        continue;
      const int64_t group = placeOf(row) / groups[c];
      end = std::min(end, (group + 1) * groups[c]);
      bundle::forEntries(
          term, args.lists[c], head, group, groups[c], args.n,
          [&](int64_t first, int64_t to) { lists.add(c, first, to); });
      ++c;
    }
    lists.close();
    for (; row < args.rows && placeOf(row) < end; ++row)
      add(row, lists.count([&](std::span<const Term> each, auto use) {
        forPlaces(each, all, placeOf(row), use);
      }));
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
  forPlaces(terms, {args.n, args.position, args.sinks}, place, add);
  size_t c = 0;
  for (const Term &term : terms) {
    if (!bundle::readsList(term))
      continue;
    const abi::IndexList &list = args.lists[c];
    const int64_t size = groups[c++];
    const size_t before = keys.size();
    bundle::forEntries(term, list, head, place / size, size, args.n, add);
    const auto position = [&](int64_t key) {
      return args.position ? args.position[key] : key;
    };
    keys.erase(std::remove_if(keys.begin() + before, keys.end(),
                              [&](int32_t key) {
                                return !bundle::isWithin(term, position(place),
                                                         position(key),
                                                         args.sinks);
                              }),
               keys.end());
  }
  std::sort(keys.begin(), keys.end());
  keys.erase(std::unique(keys.begin(), keys.end()), keys.end());
}

int64_t heddle::rt::fixedPairs(std::span<const Term> terms, int64_t n,
                               int64_t keep) {
  assert(!pairsDependOnLists(terms));
  if (terms.empty())
    return n * n;
  if (bundle::readsList(terms.front()))
    return n * keep;
  bundle::KeyCounter keys(terms, bundle::sinkBound(terms, n), n);
  int64_t pairs = 0;
  for (int64_t row = 0; row < n; ++row)
    pairs += keys.keysOf(row);
  return pairs;
}
