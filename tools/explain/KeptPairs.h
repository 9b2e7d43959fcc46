//===- KeptPairs.h - How many pairs attention will keep ---------*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Before a run: which keys a list will have is not known, only how many. What a
// run has kept is counted by runtime/schedule/PairCount.h.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_TOOLS_EXPLAIN_KEPTPAIRS_H
#define HEDDLE_TOOLS_EXPLAIN_KEPTPAIRS_H

#include "bundle/program/Manifest.h"

#include <cstdint>
#include <span>

namespace heddle::explain {

/// Positions of one sequence at a step.
struct StepPositions {
  int64_t length = 0;                 ///< tokens, prompt included
  int64_t prompt = 0;                 ///< tokens of the prompt
  std::span<const int32_t> visible{}; ///< ascending; empty: all
  std::span<const int32_t> rows{};    ///< of queries, ascending; empty: all
  /// [selections]: visible keys that are always listed; empty: none.
  std::span<const int64_t> always{};
};

/// Pairs (query, key) of one head.
struct Kept {
  int64_t pairs = 0;
  bool exact = true; ///< else the most there can be: which keys lists have
                     ///< decides, or a span's last block may be chosen or not
  bool even = true;  ///< all rows keep as many
};

Kept keptPairs(const bundle::Kernel &kernel, const bundle::Manifest &manifest,
               const StepPositions &step);

} // namespace heddle::explain

#endif // HEDDLE_TOOLS_EXPLAIN_KEPTPAIRS_H
