//===- StepProgram.cpp - A step program fitted to a model and a run -------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/schedule/StepProgram.h"

#include "bundle/program/Printable.h"
#include "bundle/program/Program.h"

#include <string>

using namespace heddle;
using namespace heddle::rt;
using bundle::Phase;
using bundle::Term;

Result<StepProgram> StepProgram::create(const bundle::Manifest &manifest,
                                        int64_t layers) {
  Result<std::vector<size_t>> rules = bundle::rulesOfLayers(manifest, layers);
  if (!rules)
    return rules.takeError();
  auto sources = bundle::listSources(manifest, *rules);
  if (!sources)
    return sources.takeError();
  StepProgram program;
  program.manifest = &manifest;
  program.sources = std::move(*sources);
  program.ruleOfLayer = std::move(*rules);
  program.used.resize(manifest.kernels.size());
  for (size_t rule : program.ruleOfLayer)
    for (const Phase &phase : manifest.rules[rule].phases) {
      program.used[phase.attention] = program.used[phase.scorer()] = true;
      if (phase.shadow >= 0)
        program.used[phase.shadow] = true;
      if (phase.rollout >= 0)
        program.used[phase.rollout] = program.rolling = true;
      for (const Phase::Refresh &refresh : phase.refreshes) {
        program.used[refresh.kernel] = true;
        for (const Phase::Scoring &each : refresh.scorings)
          program.used[each.kernel] = program.scoring = true;
      }
      for (const Phase::Measure &each : phase.measures)
        if (each.kernel >= 0)
          program.used[each.kernel] = program.weighing = true;
    }
  return program;
}

Status StepProgram::beginRun(int64_t totalSteps, int64_t blockSteps) {
  steps = 0;
  phases.clear();
  refreshed.clear();
  if (totalSteps < 1 || totalSteps > bundle::maxSteps)
    return Error("a run of " + std::to_string(totalSteps) +
                 " steps is not possible, 1 to " +
                 std::to_string(bundle::maxSteps) + " are");
  for (const bundle::Rule &rule : manifest->rules)
    phases.push_back(bundle::phasesOfSteps(rule, totalSteps, blockSteps));
  for (const bundle::Selection &selection : manifest->selections)
    refreshed.push_back(
        bundle::includesSteps(selection.cadence, totalSteps, blockSteps));
  steps = totalSteps;
  Status status = checkReads();
  if (!status)
    steps = 0;
  return status;
}

std::vector<size_t>
StepProgram::phasesAt(const bundle::StepPlace &place) const {
  std::vector<size_t> result;
  for (const bundle::Rule &rule : manifest->rules)
    result.push_back(bundle::phaseAt(rule, place));
  return result;
}

bool StepProgram::refreshes(int64_t selection,
                            const bundle::StepPlace &place) const {
  return bundle::includes(manifest->selections[selection].cadence, place);
}

/// What a refresh chooses within has been refreshed; `filled` says what has in
/// its layer.
Status StepProgram::checkOuter(int64_t selection, int64_t step,
                               const std::vector<bool> &filled) const {
  const bundle::Selection &inner = manifest->selections[selection];
  if (inner.within < 0 || filled[inner.within])
    return Status::success();
  const bundle::Selection &outer = manifest->selections[inner.within];
  return Error("with " + std::to_string(steps) + " steps, step " +
               std::to_string(step) + " refreshes selection '" +
               printable(inner.name) + "' within '" + printable(outer.name) +
               "', which no step so far has filled; its cadence " +
               bundle::toString(outer.cadence) + " must name one");
}

/// Every list that a phase reads has been refreshed at an earlier step, or in
/// the same one by a layer before or a phase that refreshes first.
Status StepProgram::checkReads() const {
  const size_t selections = manifest->selections.size();
  std::vector<std::vector<bool>> filled(ruleOfLayer.size(),
                                        std::vector<bool>(selections));
  for (int64_t step = 1; step <= steps; ++step) {
    for (int64_t layer = 0; layer < layers(); ++layer) {
      const Phase &now = phase(layer, step);
      auto refresh = [&]() -> Status {
        for (const Phase::Refresh &each : due(now, step))
          filled[layer][each.selection] = true;
        for (const Phase::Refresh &each : due(now, step))
          if (Status status = checkOuter(each.selection, step, filled[layer]);
              !status)
            return status;
        return Status::success();
      };
      if (now.refreshesFirst)
        if (Status status = refresh(); !status)
          return status;
      for (const Term &term : manifest->kernels[now.attention].terms) {
        if (term.selection < 0 ||
            filled[source(layer, term.selection)][term.selection])
          continue;
        const bundle::Selection &selection =
            manifest->selections[term.selection];
        return Error("with " + std::to_string(steps) + " steps, step " +
                     std::to_string(step) + " reads selection '" +
                     printable(selection.name) + "' in layer " +
                     std::to_string(layer) +
                     ", which no step so far has filled; its cadence " +
                     bundle::toString(selection.cadence) +
                     " must name one, or the schedule must attend to "
                     "something else until then");
      }
      if (!now.refreshesFirst)
        if (Status status = refresh(); !status)
          return status;
    }
  }
  return Status::success();
}
