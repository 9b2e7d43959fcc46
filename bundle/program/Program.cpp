//===- Program.cpp - What runs at a step of a run -------------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "bundle/program/Program.h"
#include "bundle/program/ManifestNames.h"
#include "bundle/program/Printable.h"

#include <algorithm>
#include <cstdio>
#include <span>

using namespace heddle;
using namespace heddle::bundle;

static constexpr size_t noChoice = SIZE_MAX;

std::string heddle::bundle::keepText(const Selection &selection) {
  return selection.count > 0 ? std::to_string(selection.count)
                             : detail::toString(selection.keep);
}

/// C4: in a model cadences by drift are of layers that there are, and of one
/// each.
static Status checkDriftsIn(const Manifest &manifest, int64_t layers) {
  std::vector<int64_t> measured;
  const std::vector<Cadence> drifts = driftsOf(manifest);
  for (const Cadence &drift : drifts) {
    const int64_t layer = drift.layer + (drift.layer < 0 ? layers : 0);
    if (layer < 0 || layer >= layers)
      return Error("the schedule goes by " + toString(drift) +
                   ", the model has layers 0 to " + std::to_string(layers - 1));
    auto twice = std::ranges::find(measured, layer);
    if (twice != measured.end())
      return Error(
          "the schedule goes by " + toString(drift) + " and by " +
          toString(drifts[static_cast<size_t>(twice - measured.begin())]) +
          ", which are of one layer in a model of " + std::to_string(layers) +
          " layers");
    measured.push_back(layer);
  }
  return Status::success();
}

Result<std::vector<size_t>>
heddle::bundle::rulesOfLayers(const Manifest &manifest, int64_t layers) {
  if (layers < 1)
    return Error("a model of " + std::to_string(layers) +
                 " layers, expected at least 1");
  if (Status status = checkDriftsIn(manifest, layers); !status)
    return status.takeError();
  constexpr size_t none = SIZE_MAX;
  size_t defaultRule = none;
  std::vector<size_t> rules(static_cast<size_t>(layers), none);
  for (size_t i = 0; i < manifest.rules.size(); ++i) {
    const Rule &rule = manifest.rules[i];
    if (rule.isDefault) {
      defaultRule = i;
      continue;
    }
    std::string named = "the schedule names layers " +
                        std::to_string(rule.firstLayer) + " to " +
                        std::to_string(rule.lastLayer);
    int64_t first = rule.firstLayer + (rule.firstLayer < 0 ? layers : 0);
    int64_t last = rule.lastLayer + (rule.lastLayer < 0 ? layers : 0);
    if (first < 0 || last < 0 || first >= layers || last >= layers ||
        first > last)
      return Error(named + ", the model has layers 0 to " +
                   std::to_string(layers - 1));
    for (int64_t layer = first; layer <= last; ++layer) {
      size_t &slot = rules[static_cast<size_t>(layer)];
      if (slot != none)
        return Error(named + ", of which layer " + std::to_string(layer) +
                     " has a schedule already in a model of " +
                     std::to_string(layers) + " layers");
      slot = i;
    }
  }
  for (size_t layer = 0; layer < rules.size(); ++layer) {
    if (rules[layer] == none)
      rules[layer] = defaultRule;
    if (rules[layer] == none)
      return Error("the schedule says nothing for layer " +
                   std::to_string(layer) + " of a model of " +
                   std::to_string(layers) + " layers, and has no default");
  }
  return rules;
}

Result<std::vector<std::vector<int64_t>>>
heddle::bundle::listSources(const Manifest &manifest,
                            const std::vector<size_t> &rules) {
  std::vector<int64_t> latest(manifest.selections.size(), -1);
  std::vector<std::vector<int64_t>> sources;
  for (size_t rule : rules) {
    const auto layer = std::ssize(sources);
    const std::vector<Phase> &phases = manifest.rules[rule].phases;
    for (const Phase &phase : phases)
      for (const Phase::Refresh &refresh : phase.refreshes)
        latest[static_cast<size_t>(refresh.selection)] = layer;
    for (const Phase &phase : phases)
      for (const Term &term : manifest.kernel(phase.attention).terms)
        if (readsList(term) && latest[static_cast<size_t>(term.selection)] < 0)
          return Error("layer " + std::to_string(layer) + " of a model of " +
                       std::to_string(rules.size()) +
                       " layers reads selection '" +
                       printable(manifest.selection(term.selection).name) +
                       "', which neither it nor a layer before it refreshes");
    sources.push_back(latest);
  }
  return sources;
}

bool heddle::bundle::holds(const When &when, const StepPlace &place) {
  switch (when.kind) {
  case When::Kind::On:
    return includes(when.cadence, place);
  case When::Kind::Before:
    return !begun(when.cadence, place);
  case When::Kind::Otherwise:
    return true;
  }
  return true;
}

size_t heddle::bundle::phaseAt(const Rule &rule, const StepPlace &place) {
  for (size_t i = 0; i < rule.phases.size(); ++i)
    if (holds(rule.phases[i].when, place))
      return i;
  return 0; // a manifest that was checked ends with Otherwise
}

static bool allHold(const std::vector<When> &when, const StepPlace &place) {
  return std::ranges::all_of(
      when, [&](const When &each) { return holds(each, place); });
}

std::vector<size_t> heddle::bundle::passesAt(const Manifest &manifest,
                                             const StepPlace &place) {
  std::vector<size_t> passes;
  for (size_t i = 0; i < manifest.passes.size(); ++i) {
    if (!allHold(manifest.passes[i].when, place))
      continue;
    passes.push_back(i);
    if (manifest.passes[i].layers.empty())
      break;
  }
  return passes;
}

bool heddle::bundle::hasLayer(const std::vector<LayerRange> &ranges,
                              int64_t layer, int64_t layers) {
  auto fromFront = [&](int64_t of) { return of < 0 ? of + layers : of; };
  return ranges.empty() ||
         std::ranges::any_of(ranges, [&](const LayerRange &each) {
           return fromFront(each.first) <= layer &&
                  layer <= fromFront(each.last);
         });
}

const Reuse &heddle::bundle::reuseOf(const Manifest &manifest, int64_t layer,
                                     int64_t layers) {
  for (const LayeredReuse &each : manifest.layeredReuses)
    if (hasLayer(each.layers, layer, layers))
      return each.reuse;
  return manifest.reuse;
}

std::string heddle::bundle::toString(const std::vector<LayerRange> &ranges) {
  std::string text;
  for (const LayerRange &each : ranges) {
    text += (text.empty() ? "layers(" : ", ") + std::to_string(each.first);
    if (each.last != each.first)
      text += " to " + std::to_string(each.last);
  }
  return text.empty() ? text : text + ")";
}

std::optional<size_t>
heddle::bundle::datedCommitAt(std::span<const DatedCommit> dated,
                              const StepPlace &place) {
  for (size_t i = 0; i < dated.size(); ++i)
    if (allHold(dated[i].when, place))
      return i;
  return std::nullopt;
}

const CommitRule &heddle::bundle::commitAt(const Manifest &manifest,
                                           const StepPlace &place) {
  std::optional<size_t> dated = datedCommitAt(manifest.datedCommits, place);
  return dated ? manifest.datedCommits[*dated].rule : manifest.commit;
}

int64_t CommitRule::limitOf(int64_t candidates) const {
  const auto share = static_cast<int64_t>(
      static_cast<__int128>(limitShare.num) * candidates / limitShare.den);
  return std::min(std::max(share, limitLeast), limitMost);
}

bool heddle::bundle::takesPlannedSteps(const Manifest &manifest,
                                       int64_t blockSteps) {
  return manifest.commit.leastPasses <= blockSteps &&
         !anyCommit(manifest, [](const CommitRule &rule) {
           return !rule.byQuota() || rule.revokes() || rule.furtherPasses > 0;
         });
}

bool heddle::bundle::readsAttention(const Manifest &manifest) {
  return std::ranges::count(manifest.positions, Positions::Kind::Attended,
                            &Positions::kind) > 0;
}

bool heddle::bundle::readsConfidences(const Manifest &manifest) {
  return std::ranges::count(manifest.positions, Positions::Kind::Confident,
                            &Positions::kind) > 0;
}

int64_t heddle::bundle::visibleAt(const Manifest &manifest,
                                  const StepPlace &place) {
  return includes(manifest.allVisible, place) ? -1 : manifest.visible;
}

std::vector<Cadence> heddle::bundle::driftsOf(const Manifest &manifest) {
  std::vector<Cadence> drifts;
  auto look = [&](const Cadence &cadence) {
    if (cadence.kind == Cadence::Kind::Drift &&
        std::ranges::find(drifts, cadence) == drifts.end())
      drifts.push_back(cadence);
  };
  auto lookAll = [&](const std::vector<When> &when) {
    for (const When &each : when)
      look(each.cadence);
  };
  for (const Selection &selection : manifest.selections)
    look(selection.cadence);
  for (const Positions &set : manifest.positions)
    look(set.cadence);
  look(manifest.allVisible);
  look(manifest.reuse.cadence);
  for (const Pass &pass : manifest.passes)
    lookAll(pass.when);
  for (const DatedCommit &dated : manifest.datedCommits)
    lookAll(dated.when);
  for (const Rule &rule : manifest.rules)
    for (const Phase &phase : rule.phases)
      look(phase.when.cadence);
  return drifts;
}

DriftWatch::DriftWatch(const Manifest &manifest, int64_t layers) {
  std::vector<std::pair<int64_t, Cadence>> found;
  for (Cadence &drift : driftsOf(manifest))
    found.emplace_back(drift.layer + (drift.layer < 0 ? layers : 0),
                       std::move(drift));
  std::ranges::sort(found, {}, &std::pair<int64_t, Cadence>::first);
  for (auto &[layer, cadence] : found) {
    measured.push_back(layer);
    watched.push_back({std::move(cadence)});
  }
}

bool DriftWatch::isDue(const Watched &watched, const StepPlace &place) {
  const Cadence &cadence = watched.cadence;
  if (watched.latest == 0)
    return includes(cadence, place);
  return (cadence.afterEos && place.afterEos) ||
         (cadence.inBlock ? place.stepInBlock : place.step) == 1 ||
         watched.drifted || place.step - watched.latest >= cadence.period;
}

StepPlace DriftWatch::at(StepPlace place) const {
  place.drifted.reset();
  if (watched.empty())
    return place;
  std::vector<int64_t> drifted;
  for (const Watched &each : watched)
    if (!drifted.empty() || isDue(each, place))
      drifted.push_back(each.cadence.layer);
  place.drifted = std::move(drifted);
  return place;
}

bool DriftWatch::renews(size_t i, const StepPlace &place) const {
  return includes(watched[i].cadence, place);
}

void DriftWatch::finish(const StepPlace &place,
                        std::span<const std::optional<double>> similarities) {
  for (size_t i = 0; i < watched.size(); ++i) {
    Watched &each = watched[i];
    if (renews(i, place)) {
      each.latest = place.step;
      each.drifted = false;
      continue;
    }
    const Ratio below = each.cadence.fraction;
    // NaN has drifted. Right after a refresh there is nothing to compare with.
    each.drifted = place.step - each.latest > 1 && similarities[i] &&
                   !(*similarities[i] >= static_cast<double>(below.num) /
                                             static_cast<double>(below.den));
  }
}

StepPlace heddle::bundle::plannedPlace(int64_t step, int64_t totalSteps,
                                       int64_t blockSteps) {
  if (blockSteps < 1 || blockSteps > totalSteps)
    blockSteps = totalSteps;
  return {step, totalSteps, (step - 1) / blockSteps,
          (step - 1) % blockSteps + 1, blockSteps};
}

std::vector<int64_t> heddle::bundle::plannedSteps(const Cadence &cadence,
                                                  int64_t totalSteps,
                                                  int64_t blockSteps) {
  if (!cadence.inBlock)
    return refreshSteps(cadence, totalSteps);
  if (totalSteps < 1)
    return {};
  if (blockSteps < 1 || blockSteps > totalSteps)
    blockSteps = totalSteps;
  std::vector<int64_t> all, ofBlock = refreshSteps(cadence, blockSteps);
  for (int64_t before = 0; before < totalSteps; before += blockSteps)
    for (int64_t step : ofBlock)
      if (step <= totalSteps - before)
        all.push_back(before + step);
  return all;
}

std::vector<bool> heddle::bundle::includesSteps(const Cadence &cadence,
                                                int64_t totalSteps,
                                                int64_t blockSteps) {
  std::vector<bool> result(static_cast<size_t>(totalSteps));
  for (int64_t step : plannedSteps(cadence, totalSteps, blockSteps))
    result[static_cast<size_t>(step - 1)] = true;
  return result;
}

/// For each step of a run whether the condition holds. Not by asking `holds`
/// step by step: a random cadence would draw its window each time.
static std::vector<bool> holdsAt(const When &when, int64_t totalSteps,
                                 int64_t blockSteps) {
  if (when.kind == When::Kind::Otherwise)
    return std::vector<bool>(static_cast<size_t>(totalSteps), true);
  std::vector<bool> result =
      includesSteps(when.cadence, totalSteps, blockSteps);
  if (when.kind == When::Kind::On)
    return result;
  bool begun = false;
  for (int64_t step = 1; step <= totalSteps; ++step) {
    if (when.cadence.inBlock &&
        plannedPlace(step, totalSteps, blockSteps).stepInBlock == 1)
      begun = false;
    begun |= result[static_cast<size_t>(step - 1)];
    result[static_cast<size_t>(step - 1)] = !begun;
  }
  return result;
}

/// Of each step whether all conditions hold.
static std::vector<bool> allHoldAt(std::span<const When> when,
                                   int64_t totalSteps, int64_t blockSteps) {
  std::vector<bool> good(static_cast<size_t>(totalSteps), true);
  for (const When &each : when) {
    std::vector<bool> one = holdsAt(each, totalSteps, blockSteps);
    for (size_t i = 0; i < good.size(); ++i)
      good[i] = good[i] && one[i];
  }
  return good;
}

std::vector<size_t> heddle::bundle::phasesOfSteps(const Rule &rule,
                                                  int64_t totalSteps,
                                                  int64_t blockSteps) {
  if (totalSteps < 1 || rule.phases.empty())
    return {};
  std::vector<size_t> phases(static_cast<size_t>(totalSteps), noChoice);
  // The first phase whose condition holds wins: later ones fill what is left.
  for (size_t i = 0; i < rule.phases.size(); ++i) {
    const std::vector<bool> good =
        allHoldAt({&rule.phases[i].when, 1}, totalSteps, blockSteps);
    for (size_t step = 0; step < good.size(); ++step)
      if (good[step] && phases[step] == noChoice)
        phases[step] = i;
  }
  // A manifest that was checked ends with Otherwise; others keep phase 0.
  std::replace(phases.begin(), phases.end(), noChoice, size_t{0});
  return phases;
}

std::vector<std::vector<size_t>>
heddle::bundle::passesOfSteps(const Manifest &manifest, int64_t totalSteps,
                              int64_t blockSteps) {
  if (totalSteps < 1 || manifest.passes.empty())
    return {};
  std::vector<std::vector<size_t>> passes(static_cast<size_t>(totalSteps));
  for (size_t i = 0; i < manifest.passes.size(); ++i) {
    const std::vector<bool> good =
        allHoldAt(manifest.passes[i].when, totalSteps, blockSteps);
    for (size_t step = 0; step < good.size(); ++step)
      if (good[step] && (passes[step].empty() ||
                         !manifest.passes[passes[step].back()].layers.empty()))
        passes[step].push_back(i);
  }
  return passes;
}

std::string heddle::bundle::toString(const Manifest &manifest, int64_t index) {
  if (index < 0)
    return "all";
  const std::string &name = manifest.positions[static_cast<size_t>(index)].name;
  return name.empty() ? definitionOf(manifest, index) : "%" + name;
}

/// "36%".
static std::string percentOf(Ratio ratio) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.4g%%",
                100 * static_cast<double>(ratio.num) /
                    static_cast<double>(ratio.den));
  return text;
}

std::string heddle::bundle::toString(const Manifest &manifest,
                                     const Fallback &fallback) {
  std::string machines;
  for (const Target &target : manifest.targets)
    machines += (machines.empty() ? " on " : ", ") + target.cpu;
  return "all keys in place of " + fallback.selection + ", which keeps " +
         percentOf(fallback.keep) + " of the " +
         (fallback.kind == Selection::Kind::Blocks ? "blocks" : "keys") +
         (fallback.group == groupOfAll
              ? " for all rows"
              : " for each " + std::to_string(fallback.group) + " rows") +
         ": dense attention takes less time above " +
         percentOf(fallback.denseAbove) + machines +
         "; --crossovers=none keeps the lists";
}

std::string heddle::bundle::definitionOf(const Manifest &manifest,
                                         int64_t index) {
  // Sets that share parts can be exponentially many paths: long ones are cut.
  constexpr size_t longest = 200;
  std::vector<std::string> texts;
  for (int64_t i = 0; i <= index; ++i) {
    const Positions &set = manifest.positions[static_cast<size_t>(i)];
    if (i < index && !set.name.empty()) {
      texts.push_back("%" + set.name);
      continue;
    }
    std::string text = detail::nameOf(set.kind);
    if (!set.isMadeOfSets()) {
      detail::Speller speller(std::move(text));
      detail::fieldsOfForm(speller, set);
      speller.close();
      text = std::move(speller.text);
    }
    auto of = [&](size_t part) {
      return texts[static_cast<size_t>(set.of[part])];
    };
    std::string parts;
    for (size_t part = 0; part < set.of.size(); ++part)
      parts += (part ? ", " : "") + of(part);
    if (!set.of.empty() && set.count > 0)
      text += "(" + std::to_string(set.count) +
              (set.near > 0 ? ", near = " + std::to_string(set.near) : "") +
              ") of " + of(0) + (set.of.size() > 1 ? " in " + of(1) : "");
    else if (set.kind == Positions::Kind::Attended)
      text += "(share = " + detail::toString(set.share) + ") of " + of(0);
    else if (!set.of.empty())
      text += "(" + parts + ")";
    if (set.kind == Positions::Kind::Fixed)
      text += " on " + toString(set.cadence);
    if (text.size() > longest)
      text = text.substr(0, longest) + "...";
    texts.push_back(std::move(text));
  }
  return texts.back();
}
