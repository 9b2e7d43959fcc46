//===- PairSets.h - What each set of pairs means ----------------*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The meaning of each kind of Term, once: whoever counts pairs, checks code or
// explains asks here, by withSet() or by what is made of it below. A set goes
// by positions or, if it derives from ListSet, by the entries of an index list:
//
//   words    as a schedule states it
//   holds    positions: the definition, is (query, key) in the set?
//   runs     positions: the same as ranges, the first run of keys from `from`
//            on that it pairs with a query, empty if there is none. A set of
//            every second key has many runs.
//   entryOf  lists: the entry that stands for a key
//   keysOf   lists: the keys that an entry stands for, keysAtMost() of them
//
// Positions are those in the sequence; `sinks` is abi::AttentionArgs::sinks.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_BUNDLE_PROGRAM_PAIRSETS_H
#define HEDDLE_BUNDLE_PROGRAM_PAIRSETS_H

#include "bundle/abi/IndexLayout.h"
#include "bundle/program/Manifest.h"

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <span>
#include <string>
#include <type_traits>

namespace heddle::bundle {

/// Keys [begin, end).
struct KeyRun {
  int64_t begin, end;
};

/// The number of the block that holds a key (abi::IndexList).
inline int64_t blockOf(int64_t key, int64_t size, int64_t split) {
  return key < split ? key / size
                     : (split + size - 1) / size + (key - split) / size;
}

struct ListSet {
  static std::string words(const Term &term, const Manifest &manifest);
};

//===----------------------------------------------------------------------===//
// The sets
//===----------------------------------------------------------------------===//

struct WindowSet {
  static bool holds(const Term &term, int64_t query, int64_t key, int64_t) {
    return std::abs(query - key) <= term.size / 2;
  }
  static KeyRun runs(const Term &term, int64_t query, int64_t from, int64_t) {
    return {std::max(from, query - term.size / 2), query + term.size / 2 + 1};
  }
  static std::string words(const Term &term, const Manifest &);
};

struct SinksSet {
  static int64_t bound(const Term &term, int64_t sinks) {
    return isShareOfSinks(term) ? sinks : term.size;
  }
  static bool holds(const Term &term, int64_t, int64_t key, int64_t sinks) {
    return key < bound(term, sinks);
  }
  static KeyRun runs(const Term &term, int64_t, int64_t from, int64_t sinks) {
    return {from, bound(term, sinks)};
  }
  static std::string words(const Term &term, const Manifest &);
};

struct ColumnsSet : ListSet {
  static int64_t keysAtMost(int64_t) { return 1; }
  static int64_t entryOf(int64_t key, int64_t, int64_t) { return key; }
  static KeyRun keysOf(int64_t entry, int64_t, int64_t, int64_t) {
    return {entry, entry + 1};
  }
};

struct BlocksSet : ListSet {
  static int64_t keysAtMost(int64_t size) { return size; }
  static int64_t entryOf(int64_t key, int64_t size, int64_t split) {
    return blockOf(key, size, split);
  }
  /// Cut off where the sequence or its first span ends; none for an entry that
  /// is not used.
  static KeyRun keysOf(int64_t entry, int64_t size, int64_t split, int64_t n) {
    if (entry < 0)
      return {0, 0};
    const int64_t before = (split + size - 1) / size;
    if (entry < before)
      return {entry * size, std::min({entry * size + size, n, split})};
    const int64_t begin = split + (entry - before) * size;
    return {begin, std::min(begin + size, n)};
  }
};

/// Calls `use` with the set of a term: the only place that goes by kinds.
template <typename Use> decltype(auto) withSet(const Term &term, Use use) {
  switch (term.kind) {
  case Term::Kind::Columns:
    return use(ColumnsSet());
  case Term::Kind::Blocks:
    return use(BlocksSet());
  case Term::Kind::Window:
    return use(WindowSet());
  case Term::Kind::Sinks:
    break;
  }
  return use(SinksSet());
}

template <typename Set>
inline constexpr bool listed = std::is_base_of_v<ListSet, Set>;

//===----------------------------------------------------------------------===//
// Unions
//===----------------------------------------------------------------------===//

/// Calls `use(begin, end)` with the positions below `limit` that the terms
/// without lists pair with a query, each once and ascending.
template <typename Use>
void forRuns(std::span<const Term> terms, int64_t query, int64_t sinks,
             int64_t limit, Use use) {
  KeyRun next{0, 0};
  for (int64_t from = 0; from < limit; from = next.end) {
    next = {limit, limit};
    for (const Term &term : terms)
      withSet(term, [&](auto set) {
        if constexpr (!listed<decltype(set)>) {
          KeyRun run = set.runs(term, query, from, sinks);
          run.end = std::min(run.end, limit);
          if (run.begin < run.end && run.begin < next.begin)
            next = run;
        }
      });
    if (next.begin < next.end)
      use(next.begin, next.end);
  }
}

/// Calls `use(begin, end)` with the places of each entry of a term's list of a
/// head and group: `size` is its group or block size, of n keys.
template <typename Use>
void forEntries(const Term &term, const abi::IndexList &list, int64_t head,
                int64_t group, int64_t size, int64_t n, Use use) {
  const int32_t *entries = int32Keys(list, head / list.headsPerList, group);
  withSet(term, [&](auto set) {
    if constexpr (listed<decltype(set)>)
      for (int64_t e = 0; e < list.keep; ++e)
        if (KeyRun keys = set.keysOf(entries[e], size, list.split, n);
            keys.begin < keys.end)
          use(keys.begin, keys.end);
  });
}

/// The most keys that an entry of a term's list stands for.
inline int64_t keysAtMost(const Term &term, int64_t size) {
  return withSet(term, [&](auto set) -> int64_t {
    if constexpr (listed<decltype(set)>)
      return set.keysAtMost(size);
    return 0;
  });
}

/// Whether the query row at a place attends to a key.
using PairPredicate = std::function<bool(int64_t place, int64_t key)>;

/// The pairs that a union of terms keeps in query head `head`; no terms means
/// all. `lists[c]` belongs to the c-th term of columns or blocks and is Int32,
/// `groups[c]` is its group or block size; `position[j]` is where key j stands
/// in the sequence, null: at j. All are referred to, not copied.
PairPredicate pairsOf(std::span<const Term> terms, int64_t head,
                      std::span<const abi::IndexList> lists,
                      std::span<const int64_t> groups,
                      const int32_t *position = nullptr, int64_t sinks = 0);

/// "dense", "columns(cols)", "window(64) + sinks(4)".
std::string words(std::span<const Term> terms, const Manifest &manifest);

} // namespace heddle::bundle

#endif // HEDDLE_BUNDLE_PROGRAM_PAIRSETS_H
