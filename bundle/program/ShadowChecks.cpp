//===- ShadowChecks.cpp - Whether tokens can be revoked by shadows --------===//
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

/// M12: a shadow attends to keys and values that the step computes, of all
/// positions, and its rows are the only ones that look at the block's tokens.
std::optional<ProgramProblem>
heddle::bundle::checkShadows(const Manifest &manifest) {
  const std::vector<DatedCommit> &dated = manifest.datedCommits;
  const std::string otherwise = " out, or revoke without `by = shadow`";
  for (size_t i = 0; i <= dated.size(); ++i) {
    const CommitRule &rule = i < dated.size() ? dated[i].rule : manifest.commit;
    if (!rule.hasShadow())
      continue;
    auto problem = [&](const std::string &what) {
      return ProgramProblem{At::Commit, i,
                            "revokes by a shadow " + what + otherwise};
    };
    if (rule.edits())
      return problem("and edits, which goes by a token's own row: a step looks "
                     "at each token in one row; leave `edit`");
    if (rule.within >= 0)
      return problem("within positions, which are known when a step has begun, "
                     "and whether it has a shadow before; leave `within`");
    if (manifest.commit.renoises)
      return problem("of masks, in whose place the model would read noise; "
                     "leave `renoise`");
    const char *other =
        manifest.visible >= 0      ? "visible"
        : !manifest.passes.empty() ? "recompute"
        : manifest.reuse != Reuse() || !manifest.layeredReuses.empty()
            ? "reuse"
            : nullptr;
    if (other)
      return problem("that attends to what the step computes of all positions, "
                     "but the schedule has a `" +
                     std::string(other) + "`; leave that");
    if (const std::vector<Cadence> drifts = driftsOf(manifest); !drifts.empty())
      return problem("whose rows are not among those by which drift is "
                     "measured, but the schedule has " +
                     toString(drifts.front()) + "; leave that");
  }
  return std::nullopt;
}

std::optional<std::string> heddle::bundle::checkShadow(bool dense,
                                                       const Scores &scores) {
  // M13: a shadow's keys stand behind the sequence.
  if (!dense)
    return "must be dense where tokens are revoked by a shadow, whose rows and "
           "keys are in no list and no window; write `attend dense`, or "
           "revoke without `by = shadow`";
  if (scores.usesPositions())
    return "has scores that ask for positions, of which a shadow's keys have "
           "none of their own; revoke without `by = shadow`";
  return std::nullopt;
}
