//===- CommitChecks.cpp - What becomes a token, and when it may -----------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "bundle/program/ProgramChecker.h"

#include <algorithm>
#include <string>

using namespace heddle::bundle;
using namespace heddle::bundle::detail;

using At = ProgramProblem::At;

void Checker::checkCommit() {
  const std::vector<DatedCommit> &dated = manifest.datedCommits;
  for (size_t i = 0; i < dated.size() && !problem; ++i) {
    const CommitRule &rule = dated[i].rule;
    if (dated[i].when.empty() ||
        std::ranges::any_of(dated[i].when, [](const When &when) {
          return when.kind != When::Kind::On;
        }))
      return fail(At::Commit, i,
                  "has no cadence, so that those after it never come");
    // M6: blocks end by one rule.
    if (rule.leastPasses != 1)
      return fail(At::Commit, i,
                  "says when blocks end, which only the last commit, the one "
                  "without a cadence, can");
    // M15: what is cached would be of masks at some steps, of noise at others.
    if (rule.renoises)
      return fail(At::Commit, i,
                  "puts noise in the place of masks, which the last commit, "
                  "the one without a cadence, says of the whole run; write "
                  "`renoise` there");
    if (rule.kind == CommitRule::Kind::RandomOrder || inOrder())
      return fail(At::Commit, i,
                  "comes with an order that is drawn for the whole run; a "
                  "schedule with `random_order` has one commit");
    checkRule(i, rule);
  }
  if (!problem)
    checkRule(dated.size(), manifest.commit);
  // M14: what a step commits bounds what one step revokes, and not two.
  const CommitRule *first = nullptr;
  for (size_t i = 0; i <= dated.size(); ++i) {
    const CommitRule &rule = i < dated.size() ? dated[i].rule : manifest.commit;
    if (!rule.revokes())
      continue;
    if (first && first->revokeFewerThan != rule.revokeFewerThan)
      return fail(At::Commit, i,
                  "has another `fewer_than` than an earlier commit that "
                  "revokes, so that a block might never end; write the same "
                  "for both");
    first = &rule;
  }
  if (!problem)
    problem = checkDrafts(manifest);
  if (!problem)
    problem = checkShadows(manifest);
}

void Checker::checkRule(size_t index, const CommitRule &rule) {
  // M7: what is behind EOS is known once it was looked for.
  if (rule.narrows && !rule.stopAtEos)
    return fail(At::Commit, index,
                "narrows to what stands before EOS but does not stop at it");
  // M8: what is next in an order would be known no longer.
  if (rule.revokes() && rule.kind == CommitRule::Kind::RandomOrder)
    return fail(At::Commit, index,
                "revokes tokens, of which an order that is drawn before the "
                "run knows nothing; leave `revoke` out, or commit by "
                "confidence");
  // M16: the rule goes by confidences one by one.
  if (rule.lifts() && rule.kind == CommitRule::Kind::RandomOrder)
    return fail(At::Commit, index,
                "goes by an order that is drawn before the run, and not by "
                "confidences, which `near` would lift; leave `near` out, or "
                "commit by confidence");
  if (rule.lifts() && rule.kind == CommitRule::Kind::Entropy)
    return fail(At::Commit, index,
                "bounds a sum of entropies, which is none of what `near` makes "
                "of them; leave `near` out, or commit by probability");
  // M11: what a step leaves out later ones take.
  if (rule.isLimited() && rule.byQuota())
    return fail(At::Commit, index,
                "takes a planned number of tokens, which `at_most` would leave "
                "short; leave `at_most` out, or commit by above, factor, best "
                "or entropy");
  if (rule.isLimited() && rule.limitLeast > rule.limitMost)
    return fail(
        At::Commit, index,
        "may be limited to no fewer than " + std::to_string(rule.limitLeast) +
            " tokens and no more than " + std::to_string(rule.limitMost) +
            "; `least` of `at_most` is no more than `most`");
  SetFacts within = factsOf(rule.within);
  if (within.ofRows)
    return fail(At::Commit, index,
                "commits within rows (predicting); name the positions");
  if (within.late)
    return fail(At::Commit, index,
                "commits within positions that go back to a cadence which "
                "begins at step 2, so that there are none at step 1");
  // M4: something can be committed.
  if (!canCommit(within))
    return fail(
        At::Commit, index,
        "commits within positions that need not hold the first masked one, "
        "so that a run may stop short of its end; add undecoded(first = 1) "
        "or the block to them");
  // M5: what one of them holds is no use if another does not hold it.
  SetFacts visible = factsOf(manifest.visible);
  auto commits = [&](Holding SetFacts::*position, const SetFacts &rows) {
    return (visible.*position & within.*position & rows.*position).run !=
           Holding::No;
  };
  for (size_t i = 0; i < std::max<size_t>(1, manifest.passes.size()); ++i) {
    SetFacts rows = manifest.passes.empty() ? SetFacts::all()
                                            : predictedBy(manifest.passes[i]);
    if (!commits(&SetFacts::first, rows) && !commits(&SetFacts::next, rows))
      return fail(
          At::Commit, index,
          "goes by a drawn order, and of the positions that are visible, "
          "computed by a pass and committed within, some need hold only "
          "what comes next in it and others only the first masked one, so that "
          "a run may stop short of its end; let all hold the same, or the "
          "block");
  }
}

/// What of a schedule lets a step leave out rows or keys; null: nothing.
static const char *whatLeavesOut(const Manifest &manifest) {
  if (manifest.visible >= 0)
    return "visible";
  if (!manifest.passes.empty())
    return "recompute";
  return manifest.reuse != Reuse() || !manifest.layeredReuses.empty() ? "reuse"
                                                                      : nullptr;
}

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
  if (const char *kept = whatLeavesOut(manifest))
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
    if (const char *other = whatLeavesOut(manifest))
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
