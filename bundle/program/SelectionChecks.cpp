//===- SelectionChecks.cpp - What a selection may be ----------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "bundle/program/ManifestNames.h"
#include "bundle/program/ProgramChecks.h"

using namespace heddle::bundle;

std::optional<std::string>
heddle::bundle::checkForm(const Selection &selection) {
  // P27: what a logit has not, or what changes no order of them.
  if (!readsLse(selection.scorer) &&
      selection.scale != Selection::Scale::HeadDim)
    return "is scaled by the heads, and is scored by " +
           detail::nameOf(selection.scorer) +
           ", whose order no scale changes; drop scaled_by";
  if (!readsLse(selection.scorer) &&
      selection.isolation == Selection::Isolation::Filtered)
    return "isolates by the probability among the response's keys, and is "
           "scored by " +
           detail::nameOf(selection.scorer) +
           ", which is none; isolate aligned or spans";
  if (selection.kind == Selection::Kind::Blocks) {
    // P6, P8, P9, P15: what only columns can, and what blocks can be.
    if (selection.group > maxBlock)
      return "has blocks of " + std::to_string(selection.group) +
             " keys, at most " + std::to_string(maxBlock) + " are possible";
    if (selection.perKvHead)
      return "has a list for each key/value head, which only columns can";
    if (selection.perLayer)
      return "has a list for the layer, which only columns can";
    if (selection.pooled > 0)
      return "pools the scores of keys, which only columns can: a block's "
             "score "
             "is the mean of its keys'";
    if (selection.rows >= 0 || selection.always >= 0)
      return "names a set of positions, which only columns can";
    if (selection.within >= 0)
      return "chooses within another selection, which only columns can";
    return std::nullopt;
  }
  if (selection.isolation != Selection::Isolation::None)
    return "isolates spans, which only blocks can";
  if (selection.scale != Selection::Scale::HeadDim)
    return "is scaled by the heads, which only blocks can be";
  if (selection.perKvHead && selection.perLayer)
    return "has a list for each key/value head and one for the layer; drop "
           "per_kv_head or per_layer";
  if (selection.pooled > 0 && selection.pooled % 2 == 0)
    return "pools the scores of " + std::to_string(selection.pooled) +
           " keys; name an odd number, as many before a key as behind it";
  // P16: of several groups some would have none of these rows.
  if (selection.rows >= 0 && selection.group != groupOfAll)
    return "is scored by the rows of a set and has groups of " +
           std::to_string(selection.group) +
           " rows, of which some may have none of the set; write group = all";
  return std::nullopt;
}

/// "all rows", "32 rows".
static std::string rowsText(int64_t group) {
  return group == groupOfAll ? "all rows" : std::to_string(group) + " rows";
}

std::optional<std::string> heddle::bundle::checkWithin(const Selection &inner,
                                                       const Selection &outer) {
  // P18: one list, of a number of keys that is known.
  if (outer.within >= 0)
    return "chooses within a selection that is within another one itself; "
           "choose within that one";
  if (outer.isolation == Selection::Isolation::Filtered)
    return "chooses within blocks that are isolating(filtered), of which a "
           "list has any number; isolate aligned or spans";
  // P19: each list is within one of the other's.
  if (outer.group % inner.group != 0)
    return "has a list for " + rowsText(inner.group) +
           ", and the selection that it chooses within one for " +
           rowsText(outer.group) +
           ", so that there would be several to choose within; write a group "
           "that divides the other one";
  auto shares = [](const Selection &selection) {
    return selection.perLayer ? 2 : selection.perKvHead ? 1 : 0;
  };
  if (shares(inner) > shares(outer))
    return "has a list for heads that have several of the selection that it "
           "chooses within; write per_kv_head or per_layer there, or for fewer "
           "heads here";
  // P20: what it chooses within is there, and not newer than its own lists.
  if (!includesAll(inner.cadence, outer.cadence))
    return "is refreshed on " + toString(inner.cadence) +
           ", which may lack steps of " + toString(outer.cadence) +
           ", on which the selection that it chooses within is refreshed; "
           "refresh it at these steps too";
  if (!startsNoLater(outer.cadence, inner.cadence))
    return "is refreshed on " + toString(inner.cadence) +
           ", which may begin before " + toString(outer.cadence) +
           ", on which the selection that it chooses within is refreshed; "
           "let both begin at one step";
  return std::nullopt;
}

std::vector<Phase::Scoring>
heddle::bundle::scoringsOf(const Selection &selection, int64_t scorer) {
  std::vector<Phase::Scoring> scorings;
  if (selection.scale != Selection::Scale::HeadDim)
    scorings.push_back({scorer, selection.scale, false});
  if (selection.isolation == Selection::Isolation::Filtered)
    scorings.push_back({scorer, selection.scale, true});
  return scorings;
}

/// "attention scaled_by(heads) of response".
static std::string spelled(const std::vector<Phase::Scoring> &scorings) {
  std::string text;
  for (const Phase::Scoring &each : scorings)
    text += (text.empty() ? "attention scaled_by(" : ", attention scaled_by(") +
            detail::nameOf(each.scale) +
            (each.ofResponse ? ") of response" : ")");
  return text.empty() ? "none" : text;
}

std::optional<std::string>
heddle::bundle::checkScorings(const Selection &selection, int64_t scorer,
                              const Scores &scores,
                              const std::vector<Phase::Scoring> &scorings) {
  // F4: their positions would be others.
  if (selection.isolation == Selection::Isolation::Filtered && !scores.empty())
    return "needs attention among the response's keys alone, which can't have "
           "scores";
  const std::vector<Phase::Scoring> needed = scoringsOf(selection, scorer);
  if (scorings == needed)
    return std::nullopt;
  return "needs, to be scored by, of the phase's kernel: " + spelled(needed) +
         "; found " + spelled(scorings) +
         (spelled(scorings) == spelled(needed) ? " of another kernel" : "");
}
