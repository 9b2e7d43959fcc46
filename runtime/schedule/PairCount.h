//===- PairCount.h - Exactly how many pairs a pattern keeps -----*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_SCHEDULE_PAIRCOUNT_H
#define HEDDLE_RUNTIME_SCHEDULE_PAIRCOUNT_H

#include "bundle/abi/Abi.h"
#include "bundle/program/Manifest.h"

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace heddle::rt {

/// Whether the number of pairs depends on the contents of index lists: a union
/// or an intersection of columns with anything else, or blocks (which may be
/// cut off by the end of the sequence). One column term alone keeps rows *
/// keep.
bool pairsDependOnLists(std::span<const bundle::Term> terms);

/// Pairs (query, key) that a union of terms keeps in one head of a sequence of
/// n tokens, each pair once; no terms means all n * n. `keep` is the list
/// length when the only term is a column term. Terms must not depend on lists.
int64_t fixedPairs(std::span<const bundle::Term> terms, int64_t n,
                   int64_t keep);

/// Pairs that a union of terms keeps in one head for the rows of `args`, each
/// pair once: the general case, for any rows, visible positions and lists.
/// `groups[c]` is the group size (and block size) of the c-th list of `args`.
/// Adds each row's to `ofRow` ([rows]), unless that is empty. Time: a binary
/// search a row, and one merge for each run of rows with the same lists.
int64_t pairsOfRows(std::span<const bundle::Term> terms,
                    const abi::AttentionArgs &args, int64_t head,
                    std::span<const int64_t> groups,
                    std::span<int64_t> ofRow = {});

/// The places of the keys that a union of terms pairs with the row at `place`,
/// ascending, each once; no terms means all. Lists as in pairsOfRows().
void keysOfRow(std::span<const bundle::Term> terms,
               const abi::AttentionArgs &args, int64_t head,
               std::span<const int64_t> groups, int64_t place,
               std::vector<int32_t> &keys);

/// Counts the keys of rows that share their lists. A list may be within other
/// sets, so that each row has keys of its own. Lists name keys by their places;
/// a row's other keys are given as ranges of places.
class SharedLists {
public:
  explicit SharedLists(std::span<const bundle::Term> terms);

  /// Begins anew, without a key.
  void clear() { listed.clear(); }
  /// The c-th list has the keys [begin, end).
  void add(size_t c, int64_t begin, int64_t end);
  /// All keys are there.
  void close();

  /// Keys of one row. `forPlaces(terms, use)` calls use(begin, end) with the
  /// places that terms without lists pair with it, each once.
  template <typename ForPlaces> int64_t count(ForPlaces forPlaces) const {
    int64_t keys = 0;
    for (const Class &some : classes)
      keys += some.whole ? std::ssize(some.keys) : 0;
    forPlaces(fixed, [&](int64_t begin, int64_t end) {
      keys += end - begin;
      for (const Class &some : classes)
        keys -= some.between(begin, end);
    });
    // Those of the bounds beyond: of the union with what is counted already.
    for (const Class &some : classes)
      if (!some.whole && !some.keys.empty())
        forPlaces(some.terms, [&](int64_t begin, int64_t end) {
          keys += some.between(begin, end);
        });
    return keys;
  }

private:
  /// Keys that the same lists name.
  struct Class {
    std::vector<int32_t> keys; ///< ascending
    bool whole;                ///< a row has all of them
    /// Else those that these have, which are the fixed terms and the bounds.
    std::vector<bundle::Term> terms;
    int64_t between(int64_t begin, int64_t end) const;
  };
  std::vector<bundle::Term> fixed; ///< terms without lists
  std::vector<Class> classes; ///< by the set of lists, as bits; [0] is empty
  std::vector<std::pair<int32_t, uint32_t>>
      listed; ///< a key, and in which list
};

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_SCHEDULE_PAIRCOUNT_H
