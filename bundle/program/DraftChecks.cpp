//===- DraftChecks.cpp - Whether steps can be drafted ahead ---------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "bundle/program/Program.h"
#include "bundle/program/ProgramChecks.h"

#include <string>

using namespace heddle::bundle;

using At = ProgramProblem::At;

/// M10: a step that was drafted is the one that would have been made.
std::optional<ProgramProblem>
heddle::bundle::checkDrafts(const Manifest &manifest) {
  const std::vector<DatedCommit> &dated = manifest.datedCommits;
  if (!anyCommit(manifest, &CommitRule::verifies))
    return std::nullopt;
  for (size_t i = 0; i < dated.size(); ++i)
    if (dated[i].rule.verifies())
      return ProgramProblem{
          At::Commit, i,
          "verifies drafts, which the last commit, the one without a "
          "cadence, says of the whole run; write `verify` there"};
  for (size_t i = 0; i <= dated.size(); ++i) {
    const CommitRule &rule = i < dated.size() ? dated[i].rule : manifest.commit;
    const char *why =
        rule.kind == CommitRule::Kind::RandomOrder
            ? "goes by a drawn order, in which a step predicts what it commits "
              "and nothing that the next one could be drafted from"
        : rule.within >= 0
            ? "commits within positions, which are known when a step begins "
              "and not when it is drafted"
        : rule.revokes()
            ? "revokes tokens, and which ones no earlier prediction says"
        : rule.edits()
            ? "edits tokens, and which ones no earlier prediction says"
            : "takes as many tokens as the step's own confidences say, which "
              "are not known when it is drafted";
    if (!rule.canBeDrafted())
      return ProgramProblem{
          At::Commit, i,
          std::string(why) +
              "; commit by quota, best, timesteps or even alone, or "
              "leave `verify` out"};
  }
  const char *kept =
      manifest.visible >= 0      ? "visible"
      : !manifest.passes.empty() ? "recompute"
      : manifest.reuse != Reuse() || !manifest.layeredReuses.empty() ? "reuse"
                                                                     : nullptr;
  if (kept)
    return ProgramProblem{
        At::Commit, dated.size(),
        "verifies drafts, whose copies of a sequence compute all positions and "
        "keep nothing for a later step, but the schedule has a `" +
            std::string(kept) + "`; leave that or `verify` out"};
  for (const Rule &rule : manifest.rules)
    for (const Phase &phase : rule.phases)
      if (phase.when.kind == When::Kind::On &&
          phase.when.cadence.kind == Cadence::Kind::Drift)
        return ProgramProblem{
            At::Commit, dated.size(),
            "verifies drafts, and a phase runs on " +
                toString(phase.when.cadence) +
                ", of which a step that is drafted knows nothing; name a "
                "cadence of another form, or leave `verify` out"};
  for (size_t i = 0; i < manifest.selections.size(); ++i) {
    const Selection &selection = manifest.selections[i];
    if (selection.cadence.kind == Cadence::Kind::Drift)
      return ProgramProblem{
          At::Selection, i,
          "is refreshed on " + toString(selection.cadence) +
              ", of which a step that is drafted knows nothing; name a cadence "
              "of another form, or leave `verify` out"};
    if (selection.rows >= 0 || selection.always >= 0)
      return ProgramProblem{
          At::Selection, i,
          "goes by a set of positions, which is known when a step begins and "
          "not when it is drafted; leave `of` and `always` or `verify` out"};
  }
  return std::nullopt;
}
