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
#include <vector>

namespace heddle::rt {

/// Whether the number of pairs depends on the contents of index lists: a union
/// of columns with anything else, or blocks (which may be cut off by the end of
/// the sequence). One column term alone keeps rows * keep.
bool pairsDependOnLists(std::span<const bundle::Term> terms);

/// Pairs (query, key) that a union of terms keeps in one head of a sequence of
/// n tokens, each pair once; no terms means all n * n. `keep` is the list
/// length when the only term is a column term. Terms must not depend on lists.
int64_t fixedPairs(std::span<const bundle::Term> terms, int64_t n,
                   int64_t keep);

/// The same for a union with columns, by looking at the lists of one head.
/// `lists[c]` belongs to the c-th column term, `groups[c]` is its group size;
/// `head` the query head; `merged` room for the sum of the lists' keep. Time:
/// n binary searches and one merge for each run of rows with the same lists.
int64_t listedPairs(std::span<const bundle::Term> terms, int64_t n,
                    int64_t head, std::span<const abi::IndexList> lists,
                    std::span<const int64_t> groups, std::span<int32_t> merged);

/// Pairs that a union of terms keeps in one head for the rows of `args`, each
/// pair once: the general case, for any rows, visible positions and lists.
/// `groups[c]` is the group size (and block size) of the c-th list of `args`;
/// `merged` has room for mergedKeys() of them.
int64_t pairsOfRows(std::span<const bundle::Term> terms,
                    const abi::AttentionArgs &args, int64_t head,
                    std::span<const int64_t> groups, std::span<int32_t> merged);

/// The places of the keys that a union of terms pairs with the row at `place`,
/// ascending, each once; no terms means all. Lists as in pairsOfRows().
void keysOfRow(std::span<const bundle::Term> terms,
               const abi::AttentionArgs &args, int64_t head,
               std::span<const int64_t> groups, int64_t place,
               std::vector<int32_t> &keys);

/// Keys that the lists of one row can hold together, as often as each has them.
int64_t mergedKeys(std::span<const bundle::Term> terms,
                   const abi::AttentionArgs &args,
                   std::span<const int64_t> groups);

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_SCHEDULE_PAIRCOUNT_H
