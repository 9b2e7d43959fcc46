//===- ProgramTest.cpp - What runs at a step of a run ---------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "bundle/program/Program.h"
#include "bundle/test/Says.h"
#include "bundle/test/TestManifest.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

using namespace heddle;
using namespace heddle::bundle;
using namespace heddle::bundle::test;

namespace {

/// Whether a step computes all visible rows exactly in each layer.
bool computesAll(const Manifest &manifest, const StepPlace &place) {
  return std::ranges::all_of(passesAt(manifest, place), [&](size_t pass) {
    return manifest.passes[pass].computesAllRows();
  });
}

using Steps = std::vector<int64_t>;

std::vector<Cadence> allKinds() {
  std::vector<Cadence> all = {Cadence(), every(1),    every(4),  every(3, 5),
                              first(1),  first(1000), atStep(1), atStep(9)};
  for (Ratio fraction : {Ratio{1, 10}, Ratio{3, 10}, Ratio{1, 1}})
    for (int64_t count : {1, 2, 3, 8, 16, 90}) {
      all.push_back(windowed(Cadence::Kind::Uniform, fraction, count, 7));
      all.push_back(windowed(Cadence::Kind::Power, fraction, count, 7));
      all.push_back(windowed(Cadence::Kind::Random, fraction, count, 7));
    }
  Cadence share;
  share.kind = Cadence::Kind::At;
  share.fraction = {1, 5};
  all.push_back(share);
  share.from = 3;
  all.push_back(share);
  all.push_back(drift());
  return all;
}

TEST(Program, StepsOneByOneAreTheStepsOfTheTable) {
  for (const Cadence &plain : allKinds())
    for (bool blocks : {false, true})
      for (int64_t total : {1, 2, 7, 32, 60}) {
        Cadence cadence = blocks ? inBlock(plain) : plain;
        int64_t blockSteps = total >= 4 ? total / 4 : total;
        Steps steps = plannedSteps(cadence, total, blockSteps);
        bool begunBefore = false;
        for (int64_t step = 1; step <= total; ++step) {
          StepPlace place = plannedPlace(step, total, blockSteps);
          bool expected = std::binary_search(steps.begin(), steps.end(), step);
          EXPECT_EQ(includes(cadence, place), expected)
              << toString(cadence) << ", step " << step << " of " << total;
          if (blocks && place.stepInBlock == 1)
            begunBefore = false;
          begunBefore |= expected;
          EXPECT_EQ(begun(cadence, place), begunBefore)
              << toString(cadence) << ", step " << step << " of " << total;
        }
      }
}

TEST(Program, StepsAfterEosAreTheCadences) {
  for (const Cadence &plain : allKinds())
    for (bool blocks : {false, true}) {
      Cadence cadence = blocks ? inBlock(plain) : plain;
      cadence.afterEos = true;
      for (int64_t step = 1; step <= 32; ++step) {
        StepPlace place = plannedPlace(step, 32, 8);
        EXPECT_EQ(includes(cadence, place),
                  includes(blocks ? inBlock(plain) : plain, place));
        place.afterEos = true;
        EXPECT_TRUE(includes(cadence, place)) << toString(cadence);
        EXPECT_TRUE(begun(cadence, place)) << toString(cadence);
        cadence.afterEos = false;
        EXPECT_EQ(includes(cadence, place),
                  includes(cadence, plannedPlace(step, 32, 8)));
        cadence.afterEos = true;
      }
    }
  EXPECT_EQ(toString(inBlock(first(1))) + " or after eos", [] {
    Cadence cadence = inBlock(first(1));
    cadence.afterEos = true;
    return toString(cadence);
  }());
}

Manifest withRule(Manifest manifest) {
  manifest.rules.resize(1);
  manifest.rules.front().isDefault = true;
  return manifest;
}

// The worked example of DriftWatch, and in blocks of six steps.
TEST(Program, WhatAStepMeasuresDecidesTheNext) {
  Manifest manifest;
  EXPECT_TRUE(driftsOf(manifest).empty());
  Pass whole;
  whole.when = {{When::Kind::On, drift()}};
  manifest.passes = {whole, Pass()};
  EXPECT_EQ(driftsOf(manifest), std::vector{drift()});
  auto renewed = [&](int64_t blockSteps, auto similarityOf) {
    Steps steps;
    DriftWatch watch(manifest, 4);
    EXPECT_EQ(watch.layers(), std::vector<int64_t>{3});
    for (int64_t step = 1; step <= 13; ++step) {
      StepPlace place = watch.at(plannedPlace(step, 13, blockSteps));
      EXPECT_EQ(watch.renews(0, place),
                passesAt(manifest, place).front() == 0u);
      if (watch.renews(0, place))
        steps.push_back(step);
      const std::optional<double> similarity = similarityOf(step);
      watch.finish(place, {&similarity, 1});
    }
    return steps;
  };
  auto example = [](int64_t step) -> std::optional<double> {
    return step == 3 ? 0.97 : step == 4 ? 0.89 : 0.93;
  };
  EXPECT_EQ(renewed(0, example), (Steps{1, 5, 13}));
  EXPECT_EQ(renewed(6, example), (Steps{1, 5, 13})) << "not in blocks";
  using Similarity = std::optional<double>;
  auto same = [](Similarity each) { return [=](int64_t) { return each; }; };
  // Two steps compare nothing, so every third one at most.
  EXPECT_EQ(renewed(0, same(0.5)), (Steps{1, 4, 7, 10, 13}));
  EXPECT_EQ(renewed(0, same(std::nan(""))), (Steps{1, 4, 7, 10, 13}));
  EXPECT_EQ(renewed(0, same(0.9)), (Steps{1, 9})) << "not below";
  EXPECT_EQ(renewed(0, same(std::nullopt)), (Steps{1, 9}));
  manifest.passes.front().when.front().cadence.inBlock = true;
  EXPECT_EQ(renewed(6, example), (Steps{1, 5, 7, 13}));
  EXPECT_EQ(renewed(6, same(std::nullopt)), (Steps{1, 7, 13}));
  manifest.passes.front().when.front().cadence.period = 1;
  EXPECT_EQ(renewed(0, same(1)).size(), 13u);
}

// What a layer refreshes changes those behind it, and none before it.
TEST(Program, StepsOfDriftAreThoseOfLayersBefore) {
  Manifest manifest;
  for (int64_t layer : {-1, 1, 0})
    manifest.passes.emplace_back().when = {{When::Kind::On, drift(layer)}};
  DriftWatch watch(manifest, 6);
  ASSERT_EQ(watch.layers(), (std::vector<int64_t>{0, 1, 5}));
  std::vector<Steps> renewed(3);
  for (int64_t step = 1; step <= 13; ++step) {
    const StepPlace place = watch.at(plannedPlace(step, 13, 0));
    for (size_t i = 0; i < renewed.size(); ++i)
      if (watch.renews(i, place))
        renewed[i].push_back(step);
    // Layer 1 has drifted at step 4, the last layer at steps 5 and 8.
    const std::vector<std::optional<double>> found = {
        0.95, step == 4 ? 0.5 : 1, step == 5 || step == 8 ? 0.5 : 1};
    watch.finish(place, found);
  }
  EXPECT_EQ(renewed[0], (Steps{1, 9}));
  EXPECT_EQ(renewed[1], (Steps{1, 5, 9}));
  EXPECT_EQ(renewed[2], (Steps{1, 5, 9}));
  EXPECT_TRUE(rulesOfLayers(withRule(manifest), 6));
  for (int64_t layers : {1, 2}) // layer 1 is none, or the last
    EXPECT_FALSE(rulesOfLayers(withRule(manifest), layers)) << layers;
  const std::string why =
      rulesOfLayers(withRule(manifest), 2).takeError().text();
  EXPECT_TRUE(says(why,
                   "goes by drift(below = 0.9, within = 8, layer = 1) and by "
                   "drift(below = 0.9, within = 8), which are of one layer"));
}

// A block that is not decoded when its planned steps are over goes on.
TEST(Program, StepsBeyondThePlan) {
  StepPlace late{37, 32, 3, 13, 8};
  EXPECT_TRUE(includes(every(4), late));
  EXPECT_TRUE(includes(every(12, 25), late));
  EXPECT_TRUE(includes(inBlock(every(12)), late));
  EXPECT_TRUE(includes(first(37), late));
  EXPECT_FALSE(includes(first(36), late));
  EXPECT_TRUE(includes(atStep(37), late));
  EXPECT_FALSE(includes(windowed(Cadence::Kind::Uniform, {1, 1}, 99), late));
  EXPECT_FALSE(includes(windowed(Cadence::Kind::Power, {1, 1}, 99), late));
  EXPECT_FALSE(includes(windowed(Cadence::Kind::Random, {1, 1}, 99), late));
  EXPECT_TRUE(begun(windowed(Cadence::Kind::Random, {1, 1}, 2), late));
}

TEST(Program, LargeNumbersDoNotOverflow) {
  StepPlace far{maxSteps, maxSteps, 0, maxSteps, maxSteps};
  EXPECT_FALSE(includes(every(maxCount, maxCount), far));
  EXPECT_TRUE(
      includes(windowed(Cadence::Kind::Uniform, {1, 1}, maxCount), far));
  EXPECT_TRUE(includes(windowed(Cadence::Kind::Power, {1, 1}, maxCount), far));
  EXPECT_TRUE(includes(windowed(Cadence::Kind::Power, {1, 1}, 2), far));
  EXPECT_FALSE(refreshSteps(every(maxCount, maxCount), maxSteps).size());
}

TEST(Program, PlacesOfARunOfBlocks) {
  EXPECT_EQ(plannedPlace(1, 32, 8), (StepPlace{1, 32, 0, 1, 8}));
  EXPECT_EQ(plannedPlace(8, 32, 8), (StepPlace{8, 32, 0, 8, 8}));
  EXPECT_EQ(plannedPlace(9, 32, 8), (StepPlace{9, 32, 1, 1, 8}));
  EXPECT_EQ(plannedPlace(32, 32, 0), (StepPlace{32, 32, 0, 32, 32}));
  EXPECT_EQ(plannedSteps(inBlock(first(1)), 32, 8), (Steps{1, 9, 17, 25}));
  EXPECT_EQ(plannedSteps(inBlock(every(3)), 10, 4), (Steps{1, 4, 5, 8, 9}))
      << "the last block is cut off by the end of the run";
  EXPECT_EQ(plannedSteps(every(4, 5), 14, 0), (Steps{5, 9, 13}));
}

TEST(Program, PhasesOfBlocks) {
  Rule rule;
  rule.phases = {{{When::Kind::On, inBlock(atStep(3))}, 0, -1, -1, {}},
                 {{When::Kind::Before, inBlock(atStep(3))}, 1, -1, -1, {}},
                 {{When::Kind::Otherwise, {}}, 2, -1, -1, {}}};
  EXPECT_EQ(phasesOfSteps(rule, 8, 4),
            (std::vector<size_t>{1, 1, 0, 2, 1, 1, 0, 2}));
  EXPECT_EQ(phasesOfSteps(rule, 4), (std::vector<size_t>{1, 1, 0, 2}));
  for (int64_t step = 1; step <= 8; ++step)
    EXPECT_EQ(phaseAt(rule, plannedPlace(step, 8, 4)),
              phasesOfSteps(rule, 8, 4)[static_cast<size_t>(step - 1)]);
}

// The passes of dLLM-Cache with short intervals: the prompt every 4 steps, the
// response every 3, both together where they meet.
TEST(Program, TheFirstPassAllOfWhoseConditionsHold) {
  Manifest manifest;
  When onPrompt{When::Kind::On, every(4)}, onResponse{When::Kind::On, every(3)};
  Pass both, prompt, response, rest;
  both.when = {onPrompt, onResponse};
  prompt.when = {onPrompt};
  prompt.exact = Pass::Exact::LeastSimilar;
  response.when = {onResponse};
  response.rows = 0;
  rest.rows = 0;
  manifest.passes = {both, prompt, response, rest};
  std::vector<size_t> expected = {0, 3, 3, 2, 1, 3, 2, 3, 1, 2, 3, 3, 0};
  const std::vector<std::vector<size_t>> steps = passesOfSteps(manifest, 13);
  ASSERT_EQ(steps.size(), 13u);
  for (int64_t step = 1; step <= 13; ++step) {
    StepPlace place = plannedPlace(step, 13, 0);
    const std::vector<size_t> one = {expected[static_cast<size_t>(step - 1)]};
    EXPECT_EQ(passesAt(manifest, place), one);
    EXPECT_EQ(steps[static_cast<size_t>(step - 1)], one);
    EXPECT_EQ(computesAll(manifest, place), step == 1 || step == 13);
  }
}

// Layers 0 and 3 of four every second step, the last one always, the others
// what is left.
TEST(Program, TheFirstPassThatHasTheLayer) {
  Manifest manifest;
  Pass some, last, rest;
  some.when = {{When::Kind::On, every(2)}};
  some.layers = {{0, 0}, {3, 3}};
  last.layers = {{-1, -1}};
  rest.rows = 0;
  manifest.passes = {some, last, rest};
  for (int64_t step = 1; step <= 4; ++step) {
    const std::vector<size_t> expected =
        step % 2 ? std::vector<size_t>{0, 1, 2} : std::vector<size_t>{1, 2};
    EXPECT_EQ(passesAt(manifest, plannedPlace(step, 4, 0)), expected);
    EXPECT_EQ(passesOfSteps(manifest, 4)[static_cast<size_t>(step - 1)],
              expected);
    EXPECT_FALSE(computesAll(manifest, plannedPlace(step, 4, 0)));
  }
  EXPECT_TRUE(hasLayer(some.layers, 3, 4));
  EXPECT_FALSE(hasLayer(some.layers, 2, 4));
  EXPECT_TRUE(hasLayer(last.layers, 3, 4));
  EXPECT_FALSE(hasLayer(last.layers, 3, 5));
  EXPECT_TRUE(hasLayer(rest.layers, 2, 4));
  EXPECT_EQ(toString(some.layers), "layers(0, 3)");
  EXPECT_EQ(toString(std::vector<LayerRange>{{0, 3}, {-2, -1}}),
            "layers(0 to 3, -2 to -1)");
  manifest.reuse.kv = true;
  manifest.layeredReuses = {{{{1, 2}}, {true, Reuse::Attention::Output, true}}};
  EXPECT_EQ(reuseOf(manifest, 2, 4), manifest.layeredReuses[0].reuse);
  EXPECT_EQ(reuseOf(manifest, 3, 4), manifest.reuse);
}

TEST(Program, WithoutPassesEveryStepComputesAll) {
  Manifest manifest;
  EXPECT_TRUE(passesAt(manifest, {}).empty());
  EXPECT_TRUE(computesAll(manifest, StepPlace{}));
  EXPECT_TRUE(passesOfSteps(manifest, 5).empty());
}

TEST(Program, LayersGoToTheRuleThatNamesThem) {
  Manifest manifest = testManifest();
  Result<std::vector<size_t>> rules = rulesOfLayers(manifest, 4);
  ASSERT_TRUE(rules);
  EXPECT_EQ(*rules, (std::vector<size_t>{0, 0, 1, 1}));
  EXPECT_FALSE(rulesOfLayers(manifest, 1)) << "layer -2 of a single one";
  EXPECT_FALSE(rulesOfLayers(manifest, 0));
  manifest.rules[0].isDefault = false;
  manifest.rules[0].firstLayer = 0;
  manifest.rules[0].lastLayer = 1;
  EXPECT_TRUE(rulesOfLayers(manifest, 4));
  EXPECT_FALSE(rulesOfLayers(manifest, 5)) << "layer 2 has no rule";
  EXPECT_FALSE(rulesOfLayers(manifest, 3)) << "layer 1 has two";
}

TEST(Program, ListsAreReadOfTheNearestLayerBefore) {
  Manifest manifest;
  manifest.selections.resize(2);
  manifest.selections[1].name = "second";
  manifest.kernels.resize(2);
  manifest.kernels[1].terms = {{.kind = Term::Kind::Columns, .selection = 1}};
  auto rule = [&](std::vector<int64_t> refreshed, int64_t attention) {
    Phase &phase = manifest.rules.emplace_back().phases.emplace_back();
    phase.attention = attention;
    for (int64_t selection : refreshed)
      phase.refreshes.push_back({.selection = selection});
  };
  rule({0}, 0);
  rule({}, 0);
  rule({0, 1}, 1);
  rule({}, 1);
  auto sources = listSources(manifest, {0, 1, 2, 3, 0, 3});
  ASSERT_TRUE(sources);
  EXPECT_EQ(*sources, (std::vector<std::vector<int64_t>>{
                          {0, -1}, {0, -1}, {2, 2}, {2, 2}, {4, 2}, {4, 2}}));
  auto none = listSources(manifest, {0, 3, 2});
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().text(),
            "layer 1 of a model of 3 layers reads selection 'second', which "
            "neither it nor a layer before it refreshes");
}

TEST(Program, LayersComeBeforeOthersInEveryModel) {
  const std::vector<LayerSpan> spans = {
      {true, 0, 0}, {false, 2, 3}, {false, 0, 1}, {false, -2, -1}};
  EXPECT_EQ(firstLayers(spans), (std::vector<int64_t>{4, 2, 0, -2}));
  EXPECT_EQ(firstLayers({{true, 0, 0}, {false, 1, 9}}),
            (std::vector<int64_t>{0, 1}));
  FirstOf none, front, end;
  front.add(5);
  front.add(3);
  end.add(-2);
  for (int64_t layer : {-9, -2, -1, 0, 3, 4})
    EXPECT_FALSE(none.comesBefore(layer));
  EXPECT_TRUE(front.comesBefore(4) && front.comesBefore(-9));
  EXPECT_FALSE(front.comesBefore(3));
  EXPECT_TRUE(end.comesBefore(-1));
  EXPECT_FALSE(end.comesBefore(-2) || end.comesBefore(100));
}

TEST(Program, TheFirstPhaseThatHoldsRuns) {
  Rule rule = testManifest().rules[0];
  EXPECT_EQ(phasesOfSteps(rule, 8),
            (std::vector<size_t>{0, 0, 2, 2, 2, 2, 2, 2}));
  // Dense before an event, then on it, then after.
  rule.phases[0].when.cadence = rule.phases[1].when.cadence = atStep(3);
  EXPECT_EQ(phasesOfSteps(rule, 5), (std::vector<size_t>{1, 1, 0, 2, 2}));
  EXPECT_EQ(phasesOfSteps(rule, 2), (std::vector<size_t>{1, 1}))
      << "the event never comes";
}

TEST(Positions, AreCalledAsTheScheduleHasThem) {
  Manifest manifest = testRowsManifest();
  manifest.positions[1].name = "external";
  manifest.positions[2].name = "seen";
  EXPECT_EQ(toString(manifest, -1), "all");
  EXPECT_EQ(toString(manifest, 0), "decoded");
  EXPECT_EQ(toString(manifest, 2), "%seen");
  EXPECT_EQ(definitionOf(manifest, 2), "union(decoded, %external)");
  EXPECT_EQ(toString(manifest, 3),
            "fixed(%seen) on " + toString(manifest.positions[3].cadence));
  EXPECT_TRUE(manifest.positions[1].isLike(
      {Positions::Kind::Undecoded, 64, {}, {}, "other"}));
  EXPECT_FALSE(manifest.positions[1].isLike(manifest.positions[4]));
}

} // namespace
