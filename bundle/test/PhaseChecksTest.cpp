//===- PhaseChecksTest.cpp - What kernels and phases do -------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "bundle/test/Refusal.h"

using namespace heddle;
using namespace heddle::bundle;
using namespace heddle::bundle::test;

namespace {

/// One of whose selection the lists are refreshed by drift: a default rule of
/// three phases and one of the last two layers.
Manifest driftManifest(int64_t layer, bool attention) {
  Manifest manifest = testManifest();
  manifest.selections[0].cadence = drift(layer, attention);
  for (Phase &phase : manifest.rules[0].phases)
    if (phase.when.kind != When::Kind::Otherwise)
      phase.when.cadence = manifest.selections[0].cadence;
  setMeasures(manifest);
  return manifest;
}

/// Has a rule of some layers beside a default one, each of one phase.
struct TwoRules {
  bool named, byDefault; ///< which measure
};
TwoRules measuringRules(int64_t first, int64_t last, int64_t layer) {
  Manifest manifest = testManifest();
  manifest.selections[0].cadence = drift(layer, false);
  manifest.rules[0].phases = {{{When::Kind::Otherwise, {}}, 0, -1, -1, {}}};
  manifest.rules[1].phases = manifest.rules[0].phases;
  manifest.rules[1].firstLayer = first;
  manifest.rules[1].lastLayer = last;
  setMeasures(manifest);
  return {!manifest.rules[1].phases[0].measures.empty(),
          !manifest.rules[0].phases[0].measures.empty()};
}

} // namespace

// In every rule that has the layer in some model, by all models of few layers.
TEST(PhaseChecks, MeasuresInEveryRuleThatMayHaveTheLayer) {
  constexpr int64_t most = 5;
  int64_t spared = 0;
  for (int64_t first = -most; first <= most; ++first)
    for (int64_t last = -most; last <= most; ++last)
      for (int64_t layer = -most; layer <= most; ++layer) {
        if ((first < 0) == (last < 0) && first > last)
          continue; // no range
        bool inNamed = false, inDefault = false;
        for (int64_t layers = 1; layers <= 4 * most; ++layers) {
          auto at = [&](int64_t l) { return l < 0 ? l + layers : l; };
          if (at(first) < 0 || at(first) > at(last) || at(last) >= layers ||
              at(layer) < 0 || at(layer) >= layers)
            continue; // does not fit the model
          const bool has = at(first) <= at(layer) && at(layer) <= at(last);
          inNamed |= has;
          inDefault |= !has;
        }
        const TwoRules found = measuringRules(first, last, layer);
        EXPECT_TRUE(found.named || !inNamed)
            << first << " " << last << " " << layer;
        if (first >= 0 || last < 0) // no schedule has others
          EXPECT_EQ(found.named, inNamed)
              << first << " " << last << " " << layer;
        EXPECT_TRUE(found.byDefault || !inDefault)
            << first << " " << last << " " << layer;
        spared += !found.byDefault;
      }
  EXPECT_GT(spared, 100) << "that surely do not have it";
  EXPECT_FALSE(measuringRules(-2, -1, -1).byDefault);
  EXPECT_FALSE(measuringRules(0, -1, 3).byDefault);
  EXPECT_TRUE(measuringRules(0, 3, -1).byDefault);
}

TEST(PlanChecks, KernelsAreWhatTheyCanBe) {
  auto refused = [](const std::function<void(std::vector<Kernel> &)> &change) {
    Manifest manifest = testManifest();
    change(manifest.kernels);
    const std::optional<PlanProblem> problem = checkPlan(manifest);
    return problem ? problem->what : "";
  };
  Scores negated;
  negated.nodes = {{.op = Scores::Op::NegF, .of = {Scores::Logit, -1, -1}}};
  EXPECT_EQ(refused([](auto &) {}), "");
  EXPECT_PRED2(says,
               refused([](auto &kernels) { kernels[3].writesLse = true; }),
               "selects, which has no terms and writes no log-sum-exp");
  EXPECT_PRED2(says,
               refused([](auto &kernels) { kernels[3].withinGroup = 16; }),
               "selects for groups that are no parts of those that it chooses");
  EXPECT_PRED2(says, refused([&](auto &kernels) {
                 kernels[3].scorer = Selection::Scorer::MeanLogit;
                 kernels[3].scores = negated;
               }),
               "selects by mean_logit, which takes no function of logits");
  for (size_t kernel : {0, 3})
    EXPECT_PRED2(
        says, refused([&](auto &kernels) { kernels[kernel].scores = negated; }),
        "must choose by the scores of the attention whose log-sum-exp");
}

TEST(PhaseChecks, MeasuresAtStepsThatAreNotTheCadences) {
  Manifest manifest = driftManifest(0, /*attention=*/true);
  const Phase::Measure dense = {drift(0, true), 0},
                       columns = {drift(0, true), 1},
                       window = {drift(0, true), 2};
  const std::vector<Phase> &phases = manifest.rules[0].phases;
  EXPECT_TRUE(phases[0].measures.empty()) << "on the cadence";
  EXPECT_EQ(phases[1].measures, std::vector{dense});
  EXPECT_EQ(phases[2].measures, std::vector{columns});
  // What counts from the front may be one of the last two layers.
  EXPECT_EQ(manifest.rules[1].phases[0].measures, std::vector{window});
  manifest = driftManifest(-3, /*attention=*/false);
  EXPECT_EQ(manifest.rules[0].phases[2].measures,
            (std::vector<Phase::Measure>{{drift(-3, false), -1}}));
  EXPECT_TRUE(manifest.rules[1].phases[0].measures.empty());

  // A step of layer 1's cadence is one of layer 3's, and not the other way.
  manifest = driftManifest(1, false);
  manifest.selections.push_back(manifest.selections[0]);
  manifest.selections[1].cadence = drift(3, false);
  manifest.rules[0].phases[1].when = {When::Kind::On, drift(3, false)};
  setMeasures(manifest);
  EXPECT_TRUE(manifest.rules[0].phases[0].measures.empty());
  EXPECT_EQ(manifest.rules[0].phases[1].measures,
            (std::vector<Phase::Measure>{{drift(1, false), -1}}));
  EXPECT_EQ(manifest.rules[0].phases[2].measures.size(), 2u);
  EXPECT_FALSE(checkPhases(manifest));
  std::reverse(manifest.rules[0].phases[2].measures.begin(),
               manifest.rules[0].phases[2].measures.end());
  EXPECT_FALSE(checkPhases(manifest)) << "in any order";
}

TEST(PhaseChecks, WhatIsMeasuredRoundTripsThroughJson) {
  EXPECT_EQ(toJson(testManifest()).find("measures"), std::string::npos)
      << "older readers take bundles that measure nothing";
  for (bool attention : {false, true}) {
    const Manifest manifest = driftManifest(0, attention);
    const Manifest back = readBack(manifest);
    for (size_t r = 0; r < manifest.rules.size(); ++r)
      for (size_t p = 0; p < manifest.rules[r].phases.size(); ++p)
        EXPECT_EQ(back.rules[r].phases[p].measures,
                  manifest.rules[r].phases[p].measures);
  }
}

// Every edit of the field that leaves a manifest is refused at its phase.
TEST(PhaseChecks, RefusesOtherMeasures) {
  const Manifest manifest = driftManifest(0, /*attention=*/true);
  auto refused = [&](const std::function<void(Json &)> &change,
                     const std::string &wanted) {
    const std::string found = refusal(
        manifest, [&](Json &json) { change(json["rules"][0]["phases"][2]); });
    EXPECT_TRUE(says(found, wanted)) << "found: " << found;
  };
  const std::string kept =
      "expected drift(attention, below = 0.9, within = 8, layer = 0) with "
      "columns";
  refused([](Json &phase) { phase.erase("measures"); },
          "rules[0].phases[2]: measures nothing, " + kept +
              "; if an older heddlec wrote the bundle, compile its schedule "
              "again");
  refused([](Json &phase) { phase["measures"] = Json::array(); },
          "rules[0].phases[2]: measures nothing, " + kept);
  const std::string at = "rules[0].phases[2].measures";
  refused([](Json &phase) { phase["measures"][0]["kernel"] = 0; },
          at +
              ": measures drift(attention, below = 0.9, within = 8, layer = "
              "0) with dense_lse, " +
              kept);
  refused([](Json &phase) { phase["measures"][0]["kernel"] = 3; },
          " with select, " + kept);
  refused([](Json &phase) { phase["measures"][0].erase("kernel"); },
          at +
              ": measures drift(attention, below = 0.9, within = 8, layer = "
              "0), " +
              kept);
  refused([](Json &phase) { phase["measures"][0]["kernel"] = 4; },
          at + "[0].kernel: index 4 is out of range: there are 4 kernels");
  refused([](Json &phase) { phase["measures"][0]["kernel"] = -1; },
          at + "[0].kernel: -1 is out of range");
  refused([](Json &phase) { phase["measures"][0]["cadence"]["layer"] = 1; },
          "layer = 1) with columns, " + kept);
  refused([](Json &phase) { phase["measures"][0]["cadence"]["below"] = "1/2"; },
          "below = 0.5, within = 8, layer = 0) with columns, " + kept);
  refused(
      [](Json &phase) { phase["measures"][0]["cadence"]["attention"] = false; },
      at + ": measures drift(below");
  refused(
      [](Json &phase) {
        phase["measures"][0]["cadence"] = {{"kind", "never"}};
      },
      at + ": measures never with columns, " + kept);
  refused(
      [](Json &phase) {
        phase["measures"].push_back(Json(phase["measures"][0]));
      },
      " with columns, drift(");
  refused([](Json &phase) { phase["measures"] = 3; },
          at + ": expected a list, found number");
  refused([](Json &phase) { phase["measures"][0]["kernels"] = 1; },
          at + "[0]: the field \"kernels\" is not known");
  // Nor is anything measured of what a phase's every step refreshes.
  EXPECT_TRUE(says(refusal(manifest,
                           [](Json &json) {
                             Json &phases = json["rules"][0]["phases"];
                             phases[0]["measures"] =
                                 Json(phases[1]["measures"]);
                           }),
                   "rules[0].phases[0].measures: measures drift(attention, "
                   "below = 0.9, within = 8, layer = 0) with dense_lse, "
                   "expected nothing"));
}
