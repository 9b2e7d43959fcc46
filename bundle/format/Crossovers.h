//===- Crossovers.h - Above which share dense attention gains ---*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Attention over lists of many keys takes longer than attention over all keys.
// From which share of them on is data: a table in JSON,
//
//   {"dense_above": [{"target": "sm_90a", "lists": "columns", "group": 32,
//                     "percent": 36}]}
//
// An entry is of one machine ("target" as Target::cpu), of "columns" or
// "blocks", a list a query head, each for "group" rows, where a step computes
// all rows and logits stay as they are. What has no entry is not known. The
// built-in entries are those that were measured, with bf16 heads of 128
// (docs/Performance.md, "When lists gain"); they decide for other heads, too.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_BUNDLE_FORMAT_CROSSOVERS_H
#define HEDDLE_BUNDLE_FORMAT_CROSSOVERS_H

#include "bundle/Result.h"
#include "bundle/program/Manifest.h"

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace heddle::bundle {

struct Crossover {
  std::string target; ///< Target::cpu
  Selection::Kind lists = Selection::Kind::Columns;
  int64_t group = 0;
  int64_t percent = 0; ///< of the keys; 100: dense attention never gains
};

/// The table of what was measured (docs/Performance.md), as text and read.
std::string_view builtInCrossovers();
const std::vector<Crossover> &measuredCrossovers();

/// An error where no table has so many bytes.
Status checkCrossoversSize(uint64_t bytes);

/// Reads a table. Fails with a sentence that says what was found and what was
/// expected.
Result<std::vector<Crossover>> crossoversFromJson(std::string_view text);

/// Null if the table has no figure.
const Crossover *findCrossover(std::span<const Crossover> table,
                               std::string_view target, Selection::Kind lists,
                               int64_t group);

/// How a program attends to the lists of a selection.
struct ListReads {
  bool read = false;     ///< by attention; else others choose within them alone
  bool bounded = false;  ///< somewhere within other sets of pairs
  bool scored = false;   ///< somewhere with a function of the logits
  bool someRows = false; ///< some steps compute some rows alone
  /// At once in one stage, and to those of other selections in another. With
  /// dense attention in its place nothing would be refreshed in the first.
  bool staged = false;
};

/// The share above which attention over all keys takes less time, on all
/// targets, than that over the lists of a selection, which keeps more in every
/// run. Else an error says why it is not to take their place: "keeps ...".
Result<Ratio> fallsBackAbove(std::span<const Crossover> table,
                             std::span<const Target> targets,
                             const Selection &selection,
                             const ListReads &reads);

} // namespace heddle::bundle

#endif // HEDDLE_BUNDLE_FORMAT_CROSSOVERS_H
