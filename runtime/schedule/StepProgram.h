//===- StepProgram.h - A step program fitted to a model and a run ---------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What a manifest's rules mean once the number of layers and of steps is known.
// Nothing here knows of memory, lengths or a device.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_SCHEDULE_STEPPROGRAM_H
#define HEDDLE_RUNTIME_SCHEDULE_STEPPROGRAM_H

#include "bundle/Result.h"
#include "bundle/program/Manifest.h"

#include <algorithm>
#include <cstdint>
#include <ranges>
#include <vector>

namespace heddle::rt {

class StepProgram {
public:
  StepProgram() = default;

  /// Fits the rules of `manifest`, which must outlive the result, to the layers
  /// of a model. An error when a rule names a layer that there is not, a layer
  /// has no rule or several, or reads what no layer up to it refreshes.
  static Result<StepProgram> create(const bundle::Manifest &manifest,
                                    int64_t layers);

  /// Tabulates a run of `totalSteps` planned steps, `blockSteps` in each block
  /// (0: one block). An error when there are fewer than 1 or more than
  /// bundle::maxSteps, or when a step reads a selection that no earlier step
  /// has refreshed; the run before is forgotten in any case.
  Status beginRun(int64_t totalSteps, int64_t blockSteps = 0);

  int64_t layers() const { return static_cast<int64_t>(ruleOfLayer.size()); }

  /// Steps of the run; 0 when there is none.
  int64_t totalSteps() const { return steps; }

  /// What `layer` does at the planned `step`, in [1, totalSteps()].
  const bundle::Phase &phase(int64_t layer, int64_t step) const {
    size_t rule = ruleOfLayer[layer];
    return manifest->rules[rule].phases[phases[rule][step - 1]];
  }

  /// The rule of a layer: index into Manifest::rules.
  size_t ruleOf(int64_t layer) const { return ruleOfLayer[layer]; }

  /// For each rule the index of the phase that runs at a place of a run, which
  /// need not be a planned one.
  std::vector<size_t> phasesAt(const bundle::StepPlace &place) const;

  /// Whether a selection's cadence names a place.
  bool refreshes(int64_t selection, const bundle::StepPlace &place) const;

  /// All that `layer` does at one step or another.
  const std::vector<bundle::Phase> &phasesOf(int64_t layer) const {
    return manifest->rules[ruleOfLayer[layer]].phases;
  }

  /// Whether the planned `step` is in the cadence of a selection.
  bool refreshes(int64_t selection, int64_t step) const {
    return refreshed[selection][step - 1];
  }

  /// What the phase refreshes at a place, which must outlive the result, or at
  /// a planned step.
  template <typename Place>
  auto due(const bundle::Phase &phase, const Place &place) const {
    return std::views::filter(
        phase.refreshes, [this, &place](const bundle::Phase::Refresh &each) {
          return refreshes(each.selection, place);
        });
  }

  /// Whether any of it reads log-sum-exps.
  template <typename Place>
  bool readsLse(const bundle::Phase &phase, const Place &place) const {
    return std::ranges::any_of(
        due(phase, place), [&](const bundle::Phase::Refresh &each) {
          return bundle::readsLse(manifest->selections[each.selection].scorer);
        });
  }

  /// As bundle::listSources() has them.
  const std::vector<std::vector<int64_t>> &listSources() const {
    return sources;
  }

  /// The layer whose lists of a selection `layer` reads: the nearest one up to
  /// itself that refreshes them, -1 if there is none.
  int64_t source(int64_t layer, int64_t selection) const {
    return sources[layer][selection];
  }

  /// Whether some layer runs the kernel.
  bool uses(size_t kernel) const { return used[kernel]; }

  /// Whether some refresh is scored by attention of its own.
  bool scores() const { return scoring; }

  /// Whether some phase measures what rows attend to.
  bool weighs() const { return weighing; }

  /// Whether the attention that positions drew is added up.
  bool rollsOut() const { return rolling; }

private:
  Status checkReads() const;
  Status checkOuter(int64_t selection, int64_t step,
                    const std::vector<bool> &filled) const;

  const bundle::Manifest *manifest = nullptr;
  std::vector<size_t> ruleOfLayer;
  std::vector<std::vector<int64_t>> sources; ///< [layer][selection]
  std::vector<bool> used;
  bool scoring = false, weighing = false, rolling = false;

  int64_t steps = 0;
  std::vector<std::vector<size_t>> phases;  ///< [rule][step - 1]
  std::vector<std::vector<bool>> refreshed; ///< [selection][step - 1]
};

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_SCHEDULE_STEPPROGRAM_H
