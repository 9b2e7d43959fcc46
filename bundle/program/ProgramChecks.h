//===- ProgramChecks.h - What must hold in every run ------------*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Rows, keys, reuse and commit rules that any run can execute, whatever the
// number of steps, the blocks and what the model says. The compiler asks at the
// schedule's ops and at the plan's, a reader of manifests at their fields: one
// set of rules, docs/Spec/Plan.md says why they are enough.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_BUNDLE_PROGRAM_PROGRAMCHECKS_H
#define HEDDLE_BUNDLE_PROGRAM_PROGRAMCHECKS_H

#include "bundle/program/Manifest.h"

#include <cstddef>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace heddle::bundle {

/// True if step 1 of a run is the cadence's, whatever T.
bool includesFirst(const Cadence &cadence);

/// True if step 1 of a run is not the cadence's, whatever T.
bool excludesFirst(const Cadence &cadence);

/// True if, in every run (of a cadence in blocks: in every block), `a` begins
/// no later than `b`; an empty cadence begins infinitely late. False when that
/// cannot be shown.
bool startsNoLater(const Cadence &a, Cadence b);

/// True if every step of `b` is one of `a`, in every run. False when that
/// cannot be shown.
bool includesAll(const Cadence &a, Cadence b);

/// True if, in every run, each step of `a` comes right after one of `b`. False
/// when that cannot be shown.
bool follows(const Cadence &a, const Cadence &b);

/// Layers that do the same: `first` to `last` as a Rule has them, or all that
/// no other names.
struct LayerSpan {
  bool isDefault = true;
  int64_t first = 0, last = -1;
};

/// The first layer of each of a program's spans; negative counts from the end.
std::vector<int64_t> firstLayers(const std::vector<LayerSpan> &spans);

/// The first of some layers, counted from either end.
class FirstOf {
public:
  void add(int64_t layer);
  /// L3: whether one of them stands before `layer` in every model that is deep
  /// enough to have them apart. False when that cannot be shown.
  bool comesBefore(int64_t layer) const;

private:
  std::optional<int64_t> fromFront, fromEnd;
};

/// A rule that a program breaks.
struct ProgramProblem {
  enum class At { Positions, Visible, Pass, Reuse, Commit, Selection };
  At at = At::Positions;
  size_t index = 0; ///< Positions, Pass, Selection: which; Reuse, Commit: of
                    ///< layeredReuses or datedCommits, or behind them `reuse`
                    ///< or `commit`
  std::string what; ///< "recomputes ...": its subject is the thing at `at`
  /// Which other one of `at` has the same layers, if that is the problem.
  std::optional<size_t> other = std::nullopt;
};

/// Checks what a manifest says in `selections`, `positions`, `visible`,
/// `passes`, `reuse` and `commit`, whose indices are in range. Reads no other
/// fields, but `rules` where steps are drafted.
std::optional<ProgramProblem> checkProgram(const Manifest &manifest);

/// Checks the layers that passes and reuses of a program that was checked name
/// against a model that has `layers`: in one with few of them layers that count
/// from its end meet, or come before, layers that count from its front.
std::optional<ProgramProblem> checkLayers(const Manifest &manifest,
                                          int64_t layers);

/// What of a manifest keeps steps from being drafted ahead and verified
/// (CommitRule::drafts), if it says that they are. Part of checkProgram().
std::optional<ProgramProblem> checkDrafts(const Manifest &manifest);

/// What of a manifest keeps tokens from being revoked by shadows
/// (CommitRule::revokeBy), if it says that they are. Part of checkProgram().
std::optional<ProgramProblem> checkShadows(const Manifest &manifest);

/// "has ...", if the selection breaks a rule by itself, whatever the sets that
/// it names are.
std::optional<std::string> checkForm(const Selection &selection);

/// "chooses ...", if a selection can't choose within `outer`; the sets that
/// these name and the layers that refresh them are others' business.
std::optional<std::string> checkWithin(const Selection &inner,
                                       const Selection &outer);

/// What a refresh of the selection is scored by, beside the attention `scorer`
/// of its phase.
std::vector<Phase::Scoring> scoringsOf(const Selection &selection,
                                       int64_t scorer);

/// "needs ...", if `scorings` are not these, or can't be where `scores` becomes
/// of logits.
std::optional<std::string>
checkScorings(const Selection &selection, int64_t scorer, const Scores &scores,
              const std::vector<Phase::Scoring> &scorings);

/// Has each phase measure what it is to (N12): each cadence by drift whose
/// layer may be one of its rule's, unless all steps of the phase are the
/// cadence's; by attention with the phase's own kernel. Of rules that were
/// checked.
void setMeasures(Manifest &manifest);

/// The form, without scores, of a kernel that adds up the attention that keys
/// drew (Phase::rollout): of each query head the mean over some rows.
Kernel rolloutKernel();

/// The selections that phases of a rule refresh.
std::set<int64_t> refreshedBy(const Rule &rule);

/// What of the kernels, rules and phases of a program breaks a rule.
struct PlanProblem {
  enum class At {
    Kernel,
    Rules,
    Layers,
    Rule,
    Phase,
    Attention,
    Scoring,
    Shadow,
    Rollout,
    Measures,
    Refresh
  };
  size_t rule = 0, phase = 0;
  At at = At::Phase;
  size_t refresh = 0;    ///< Refresh: which of the phase's
  std::string what = {}; ///< "measures ...": its subject is the thing at `at`
  /// What it is about besides, or -1; Kernel: `kernel` is which.
  int64_t selection = -1, kernel = -1;
  std::optional<size_t> other = {}; ///< a rule that it is about, too
};

/// N2 to N5, N8 to N10 (docs/Spec/Plan.md): kernels can be, each layer has a
/// rule, and phases have all steps, launch what they can and read what was
/// written. Of a manifest whose indices are in range.
std::optional<PlanProblem> checkPlan(const Manifest &manifest);

/// N12, N14, N15, P20: that phases measure what they are to, attend for shadows
/// where there are some, add up attention where a set goes by it, and refresh a
/// selection within another one behind that one, in the same layers. Of a
/// program and plan that were checked.
std::optional<PlanProblem> checkPhases(const Manifest &manifest);

/// "must be ...", if a layer's attention can't be divided into one over the
/// keys inside of a set and a kept one over those outside
/// (Reuse::Attention::Outside): its kernel is dense or not, and `scores`
/// becomes of logits.
std::optional<std::string> checkOutside(bool dense, const Scores &scores);

/// "must be ...", if a layer's attention has no place for rows that are not
/// visible (Pass::unseen): its kernel is dense or not, and `scores` becomes of
/// logits.
std::optional<std::string> checkUnseen(bool dense, const Scores &scores);

/// "must be ...", if a layer's attention can't be that of a shadow, too: its
/// kernel is dense or not, and `scores` becomes of logits.
std::optional<std::string> checkShadow(bool dense, const Scores &scores);

/// "must be ...", if the attention that keys draw in a layer can't be added up
/// (Positions::Kind::Attended): its kernel is dense or not, and `scores`
/// becomes of logits.
std::optional<std::string> checkRollout(bool dense, const Scores &scores);

/// Whether a step may see, of a program that was checked, positions of the
/// prompt. Without them nothing predicts the response's first position in a
/// model whose row i - 1 predicts position i.
bool seesPrompt(const Manifest &manifest);

/// Whether the visible positions of a program that was checked may become
/// others at a step that does not compute all of them.
bool visibleMoves(const Manifest &manifest);

} // namespace heddle::bundle

#endif // HEDDLE_BUNDLE_PROGRAM_PROGRAMCHECKS_H
