//===- PhaseChecks.cpp - What phases measure and refresh ------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "bundle/program/Printable.h"
#include "bundle/program/Program.h"
#include "bundle/program/ProgramChecks.h"

#include <algorithm>
#include <set>

using namespace heddle;
using namespace heddle::bundle;
using At = PlanProblem::At;

//===----------------------------------------------------------------------===//
// Measures
//===----------------------------------------------------------------------===//

/// Whether a rule that names its layers has `layer` in some model (`may`), or
/// in every one that has both. Layers that count from different ends may meet.
static bool takes(const Rule &rule, int64_t layer, bool may) {
  auto isOfSameEnd = [&](int64_t bound) { return (bound < 0) == (layer < 0); };
  const bool fromFirst = isOfSameEnd(rule.firstLayer)
                             ? layer >= rule.firstLayer
                             : may || rule.firstLayer == 0;
  const bool toLast = isOfSameEnd(rule.lastLayer) ? layer <= rule.lastLayer
                                                  : may || rule.lastLayer == -1;
  return fromFirst && toLast;
}

/// By layer, those that count from the front before the others.
static bool comesBefore(const Phase::Measure &a, const Phase::Measure &b) {
  const int64_t one = a.cadence.layer, other = b.cadence.layer;
  return (one < 0) != (other < 0) ? other < 0 : one < other;
}

/// Of each phase of a rule, in order of their layers.
static std::vector<std::vector<Phase::Measure>>
measuresOf(const Manifest &manifest, const std::vector<Cadence> &drifts,
           const Rule &rule) {
  std::vector<Phase::Measure> ofRule;
  for (const Cadence &drift : drifts)
    if (rule.isDefault ? std::ranges::none_of(manifest.rules,
                                              [&](const Rule &other) {
                                                return !other.isDefault &&
                                                       takes(other, drift.layer,
                                                             /*may=*/false);
                                              })
                       : takes(rule, drift.layer, /*may=*/true))
      ofRule.push_back({drift});
  std::ranges::sort(ofRule, comesBefore);
  std::vector<std::vector<Phase::Measure>> measures;
  for (const Phase &phase : rule.phases) {
    std::vector<Phase::Measure> &own = measures.emplace_back();
    for (Phase::Measure each : ofRule) {
      if (phase.when.kind == When::Kind::On &&
          includesAll(each.cadence, phase.when.cadence))
        continue;
      if (each.cadence.attention)
        each.kernel = phase.attention;
      own.push_back(std::move(each));
    }
  }
  return measures;
}

void heddle::bundle::setMeasures(Manifest &manifest) {
  const std::vector<Cadence> drifts = driftsOf(manifest);
  for (Rule &rule : manifest.rules) {
    std::vector<std::vector<Phase::Measure>> measures =
        measuresOf(manifest, drifts, rule);
    for (size_t i = 0; i < measures.size(); ++i)
      rule.phases[i].measures = std::move(measures[i]);
  }
}

/// "drift(attention, below = 0.9, within = 64) with dense".
static std::string spelled(const Manifest &manifest,
                           const std::vector<Phase::Measure> &measures) {
  std::string text;
  for (const Phase::Measure &each : measures) {
    text += (text.empty() ? "" : ", ") + toString(each.cadence);
    if (each.kernel >= 0)
      text += " with " + printable(manifest.kernel(each.kernel).name);
  }
  return text.empty() ? "nothing" : text;
}

//===----------------------------------------------------------------------===//
// Checks
//===----------------------------------------------------------------------===//

std::set<int64_t> heddle::bundle::refreshedBy(const Rule &rule) {
  std::set<int64_t> refreshed;
  for (const Phase &phase : rule.phases)
    for (const Phase::Refresh &refresh : phase.refreshes)
      refreshed.insert(refresh.selection);
  return refreshed;
}

/// P20: what a rule refreshes within another selection it refreshes that, too,
/// and in a phase that refreshes both behind it.
static std::optional<PlanProblem> checkOuters(const Manifest &manifest,
                                              size_t index) {
  const Rule &rule = manifest.rules[index];
  const std::set<int64_t> refreshed = refreshedBy(rule);
  for (size_t p = 0; p < rule.phases.size(); ++p) {
    const std::vector<Phase::Refresh> &refreshes = rule.phases[p].refreshes;
    for (size_t r = 0; r < refreshes.size(); ++r) {
      const int64_t outer = manifest.selection(refreshes[r].selection).within;
      const auto place = static_cast<size_t>(
          std::ranges::find(refreshes, outer, &Phase::Refresh::selection) -
          refreshes.begin());
      if (outer < 0 || place < r)
        continue;
      if (place < refreshes.size())
        return PlanProblem{index,
                           p,
                           At::Refresh,
                           r,
                           "must come behind the refresh of the selection "
                           "that it chooses within",
                           outer};
      if (!refreshed.count(outer))
        return PlanProblem{index,
                           p,
                           At::Refresh,
                           r,
                           "chooses within a selection that its rule does "
                           "not refresh",
                           outer};
    }
  }
  return std::nullopt;
}

/// N14: the shadow's attention is the phase's, but for one key of each row.
static std::string whyNoShadow(const Manifest &manifest, const Phase &phase) {
  const bool wanted = anyCommit(manifest, &CommitRule::hasShadow);
  if (!wanted || phase.shadow < 0)
    return wanted ? "has no attention for shadows, by which a commit revokes"
           : phase.shadow < 0
               ? ""
               : "has attention for shadows, by which no commit revokes";
  const Kernel &own = manifest.kernel(phase.attention);
  const Kernel &kernel = manifest.kernel(phase.shadow);
  if (auto problem = checkShadow(own.terms.empty(), own.scores))
    return "with kernel \"" + printable(own.name) + "\" " + *problem;
  const std::vector<Term> others = {{.kind = Term::Kind::Others}};
  return kernel.kind == Kernel::Kind::Attention && kernel.terms == others &&
                 !kernel.writesLse && kernel.scores == own.scores
             ? ""
             : "needs for shadows attention over `others`, by the scores of "
               "its own attention and without log-sum-exps, which kernel \"" +
                   printable(kernel.name) + "\" is not";
}

Kernel heddle::bundle::rolloutKernel() {
  Kernel kernel;
  kernel.kind = Kernel::Kind::Select;
  kernel.group = groupOfAll;
  return kernel;
}

/// N15: what keys draw is added up by the log-sum-exps of the phase's
/// attention, and by what it made of logits.
static std::string whyNoRollout(const Manifest &manifest, const Phase &phase) {
  const bool wanted = readsAttention(manifest);
  if (wanted && phase.rollout < 0)
    return "has no kernel that adds up the attention that positions drew, by "
           "which a set goes (attended)";
  if (!wanted && phase.rollout >= 0)
    return "adds up the attention that positions drew, by which no set goes "
           "(attended)";
  if (!wanted)
    return "";
  const Kernel &own = manifest.kernel(phase.attention);
  const Kernel &kernel = manifest.kernel(phase.rollout);
  if (auto problem = checkRollout(own.terms.empty(), own.scores))
    return "with kernel \"" + printable(own.name) + "\" " + *problem;
  if (!own.writesLse)
    return "adds up attention by log-sum-exps, which kernel \"" +
           printable(own.name) + "\" does not write";
  return kernel.kind == Kernel::Kind::Select &&
                 static_cast<const ListForm &>(kernel) == rolloutKernel() &&
                 kernel.scores == own.scores
             ? ""
             : "needs to add up attention a select kernel of group all by "
               "mean_probability, by the scores of its own attention, which "
               "kernel \"" +
                   printable(kernel.name) + "\" is not";
}

std::optional<PlanProblem>
heddle::bundle::checkPhases(const Manifest &manifest) {
  const std::vector<Cadence> drifts = driftsOf(manifest);
  for (size_t i = 0; i < manifest.rules.size(); ++i) {
    if (auto problem = checkOuters(manifest, i))
      return problem;
    for (size_t p = 0; p < manifest.rules[i].phases.size(); ++p)
      if (std::string why = whyNoShadow(manifest, manifest.rules[i].phases[p]);
          !why.empty())
        return PlanProblem{i, p, At::Shadow, 0, std::move(why)};
    for (size_t p = 0; p < manifest.rules[i].phases.size(); ++p)
      if (std::string why = whyNoRollout(manifest, manifest.rules[i].phases[p]);
          !why.empty())
        return PlanProblem{i, p, At::Rollout, 0, std::move(why)};
    // N12: the signals that cadences go by.
    const std::vector<std::vector<Phase::Measure>> wanted =
        measuresOf(manifest, drifts, manifest.rules[i]);
    for (size_t p = 0; p < wanted.size(); ++p) {
      std::vector<Phase::Measure> found = manifest.rules[i].phases[p].measures;
      std::ranges::sort(found, comesBefore);
      if (found != wanted[p])
        return PlanProblem{i, p, At::Measures, 0,
                           "measures " + spelled(manifest, found) +
                               ", expected " + spelled(manifest, wanted[p])};
    }
  }
  return std::nullopt;
}
