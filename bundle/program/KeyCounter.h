//===- KeyCounter.h - How many keys sets pair with a row -*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_BUNDLE_PROGRAM_KEYCOUNTER_H
#define HEDDLE_BUNDLE_PROGRAM_KEYCOUNTER_H

#include "bundle/program/PairSets.h"

#include <cstdint>
#include <span>
#include <vector>

namespace heddle::bundle {

/// Counts the keys that the terms which go by positions pair with a row, each
/// once. Rows next to each other share what does not move with the row: a row
/// with a random block in eight has a run of keys for each, in a long sequence
/// thousands.
class KeyCounter {
public:
  /// Of the positions below `limit`; unless it is empty, of those in `visible`
  /// alone, ascending, which is referred to and not copied. `sinks` is
  /// abi::AttentionArgs::sinks.
  KeyCounter(std::span<const Term> terms, int64_t sinks, int64_t limit,
             std::span<const int32_t> visible = {});

  /// The keys of the row at position `query`. Takes the least time for rows in
  /// turn.
  int64_t keysOf(int64_t query);

private:
  void share(int64_t query);
  int64_t placesBelow(int64_t position) const;
  int64_t sharedBelow(int64_t place) const;

  std::vector<Term> moving, steady;
  int64_t sinks, limit;
  std::span<const int32_t> visible;
  // Of `steady`, for the queries [from, until): places, and how many come
  // before each run.
  int64_t from = 0, until = 0, shared = 0;
  std::vector<KeyRun> runs;
  std::vector<int64_t> before;
};

} // namespace heddle::bundle

#endif // HEDDLE_BUNDLE_PROGRAM_KEYCOUNTER_H
