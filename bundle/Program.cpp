//===- Program.cpp - Which phase runs in a layer at a step ----------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "bundle/Program.h"

#include <algorithm>

using namespace heddle;
using namespace heddle::bundle;

Result<std::vector<size_t>>
heddle::bundle::rulesOfLayers(const Manifest &manifest, int64_t layers) {
  if (layers < 1)
    return Error("a model of " + std::to_string(layers) +
                 " layers, expected at least 1");
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

std::vector<size_t> heddle::bundle::phasesOfSteps(const Rule &rule,
                                                  int64_t totalSteps) {
  if (totalSteps < 1 || rule.phases.empty())
    return {};
  constexpr size_t none = SIZE_MAX;
  std::vector<size_t> phases(static_cast<size_t>(totalSteps), none);
  // The first phase whose condition holds wins: later ones fill what is left.
  for (size_t i = 0; i < rule.phases.size(); ++i) {
    const When &when = rule.phases[i].when;
    auto take = [&](int64_t step) {
      size_t &slot = phases[static_cast<size_t>(step - 1)];
      if (slot == none)
        slot = i;
    };
    if (when.kind == When::Kind::On) {
      for (int64_t step : refreshSteps(when.cadence, totalSteps))
        take(step);
      continue;
    }
    int64_t end = totalSteps + 1;
    if (when.kind == When::Kind::Before) {
      std::vector<int64_t> steps = refreshSteps(when.cadence, totalSteps);
      if (!steps.empty())
        end = steps.front();
    }
    for (int64_t step = 1; step < end; ++step)
      take(step);
  }
  // A manifest that was checked ends with Otherwise; others keep phase 0.
  std::replace(phases.begin(), phases.end(), none, size_t{0});
  return phases;
}
