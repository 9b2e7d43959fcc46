//===- Program.h - What runs at a step of a run -----------------*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The meaning of a manifest's cadences, rules, phases and passes, once numbers
// are known. Pure functions, in integers.
//
// A run whose blocks end by confidence is at no step known before: it asks by
// StepPlace. A run of planned steps may as well ask for all of them at once.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_BUNDLE_PROGRAM_PROGRAM_H
#define HEDDLE_BUNDLE_PROGRAM_PROGRAM_H

#include "bundle/Result.h"
#include "bundle/program/Manifest.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

namespace heddle::bundle {

/// The most steps of a run: what depends on the step is tabulated.
inline constexpr int64_t maxSteps = int64_t(1) << 20;

/// For each of `layers` layers the index of its rule. An error when a rule
/// names a layer that there is not, two rules name the same layer, or no rule
/// takes a layer; or when a cadence by drift is of no layer, or of another's.
Result<std::vector<size_t>> rulesOfLayers(const Manifest &manifest,
                                          int64_t layers);

/// For each layer and selection the layer whose lists it reads: the nearest one
/// up to itself that refreshes the selection; -1: none does. `rules` are those
/// of the layers. An error where a layer reads what none of these has.
Result<std::vector<std::vector<int64_t>>>
listSources(const Manifest &manifest, const std::vector<size_t> &rules);

//===----------------------------------------------------------------------===//
// At one step
//===----------------------------------------------------------------------===//

/// Whether the step is one of the cadence's. Steps may go on after
/// place.totalSteps (a block that is not decoded when its planned steps are
/// over goes on): every, first and at(step s) mean there what they say, forms
/// with a window have no step there. Constant time but for Random, which draws
/// its window again.
bool includes(const Cadence &cadence, const StepPlace &place);

/// Whether this step or one before it is the cadence's: one of the same block,
/// if the cadence counts in blocks.
bool begun(const Cadence &cadence, const StepPlace &place);

/// Whether a condition holds.
bool holds(const When &when, const StepPlace &place);

/// The index of the rule's phase that runs.
size_t phaseAt(const Rule &rule, const StepPlace &place);

/// The indices of the passes that a step's layers run, in order, the last of
/// which has all layers: a layer's is the first that has it. Empty in a
/// manifest without passes, where every step computes all visible rows.
std::vector<size_t> passesAt(const Manifest &manifest, const StepPlace &place);

/// Whether `ranges` have `layer` of a model of `layers`; none have all.
bool hasLayer(const std::vector<LayerRange> &ranges, int64_t layer,
              int64_t layers);

/// What `layer` of a model of `layers` keeps.
const Reuse &reuseOf(const Manifest &manifest, int64_t layer, int64_t layers);

/// "layers(0 to 3, -1)".
std::string toString(const std::vector<LayerRange> &ranges);

/// The index of the rule, of those of some steps, that a step commits by; none
/// where it is the one of the other steps.
std::optional<size_t> datedCommitAt(std::span<const DatedCommit> dated,
                                    const StepPlace &place);

/// The rule that a step commits by.
const CommitRule &commitAt(const Manifest &manifest, const StepPlace &place);

/// Whether some rule of the manifest is such that `holds`.
template <typename Predicate>
bool anyCommit(const Manifest &manifest, Predicate holds) {
  return std::invoke(holds, manifest.commit) ||
         std::ranges::any_of(manifest.datedCommits, holds, &DatedCommit::rule);
}

/// Whether some layer keeps something such that `holds`.
template <typename Predicate>
bool anyReuse(const Manifest &manifest, Predicate holds) {
  return std::invoke(holds, manifest.reuse) ||
         std::ranges::any_of(manifest.layeredReuses, holds,
                             &LayeredReuse::reuse);
}

/// Whether blocks take the planned number of steps, if none lacks candidates.
bool takesPlannedSteps(const Manifest &manifest, int64_t blockSteps);

/// Whether some set goes by the attention that positions drew in the step
/// before.
bool readsAttention(const Manifest &manifest);

/// Whether some set goes by how confident earlier predictions were.
bool readsConfidences(const Manifest &manifest);

/// The set's name, "%active", or without one what it is, "union(block, %near)";
/// "all" for -1.
std::string toString(const Manifest &manifest, int64_t positions);

/// "all keys in place of cols, which keeps 50% of the keys for each 32 rows:
/// dense attention takes less time above 36% on sm_90a; --crossovers=none keeps
/// the lists".
std::string toString(const Manifest &manifest, const Fallback &fallback);

/// What the set is, whatever its name: "fixed(%seen) on every(32)".
std::string definitionOf(const Manifest &manifest, int64_t positions);

/// The index of the set of positions that a step sees; -1: all.
int64_t visibleAt(const Manifest &manifest, const StepPlace &place);

//===----------------------------------------------------------------------===//
// Drift
//===----------------------------------------------------------------------===//

/// The manifest's cadences by drift, of which no layer has two (C4).
std::vector<Cadence> driftsOf(const Manifest &manifest);

/// What a sequence's run knows of drift. For each cadence a step measures how
/// similar the rows that it computes are to what they were at the first step
/// after the cadence's latest one that computed them, which is the first to
/// read what was refreshed. By this the next step is one of the cadence's or
/// not. So nothing within a step waits for what it measures. What a layer
/// refreshes changes all that lies behind it: a step of one cadence is one of
/// all that are measured in later layers.
///
/// Worked example, drift(below = 0.9, within = 8): step 1 is one; steps 3 and 4
/// find 0.97 and 0.89 against step 2: step 5 is one. Steps 7 to 12 find 0.93
/// against step 6: step 13 is one.
class DriftWatch {
public:
  DriftWatch() = default;
  /// Of a model of `layers`, which the manifest fits.
  DriftWatch(const Manifest &manifest, int64_t layers);

  /// The layers in which it is measured, ascending.
  const std::vector<int64_t> &layers() const { return measured; }
  /// A step's place with what is known before it.
  StepPlace at(StepPlace place) const;
  /// Whether the step is one of the cadence of layers()[i]; `place` as at()
  /// gives it.
  bool renews(size_t i, const StepPlace &place) const;
  /// The step at `place` is done. `similarities`, of each of layers(): the mean
  /// cosine of the rows that were compared, none if none were.
  void finish(const StepPlace &place,
              std::span<const std::optional<double>> similarities);

private:
  struct Watched {
    Cadence cadence;
    int64_t latest = 0; ///< the latest step of the cadence
    bool drifted = false;
  };
  static bool isDue(const Watched &watched, const StepPlace &place);

  std::vector<int64_t> measured;
  std::vector<Watched> watched; ///< [measured]
};

//===----------------------------------------------------------------------===//
// Over a run of planned steps, before EOS is found
//===----------------------------------------------------------------------===//

/// The place of `step` in a run in which every block takes `blockSteps` steps;
/// 0 means that the run is one block.
StepPlace plannedPlace(int64_t step, int64_t totalSteps, int64_t blockSteps);

/// The cadence's steps of such a run, ascending.
std::vector<int64_t> plannedSteps(const Cadence &cadence, int64_t totalSteps,
                                  int64_t blockSteps);

/// For each step 1 .. totalSteps (entry 0 is step 1) whether it is one of them.
std::vector<bool> includesSteps(const Cadence &cadence, int64_t totalSteps,
                                int64_t blockSteps);

/// For each step the index of the rule's phase that runs.
std::vector<size_t> phasesOfSteps(const Rule &rule, int64_t totalSteps,
                                  int64_t blockSteps = 0);

/// The same for the manifest's passes, as passesAt() has them; empty if it has
/// none.
std::vector<std::vector<size_t>> passesOfSteps(const Manifest &manifest,
                                               int64_t totalSteps,
                                               int64_t blockSteps = 0);

} // namespace heddle::bundle

#endif // HEDDLE_BUNDLE_PROGRAM_PROGRAM_H
