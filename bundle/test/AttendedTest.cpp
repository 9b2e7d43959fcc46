//===- AttendedTest.cpp - Sets by the attention that positions drew -------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "bundle/program/Program.h"
#include "bundle/program/ProgramChecks.h"
#include "bundle/test/Refusal.h"

#include <algorithm>

using namespace heddle;
using namespace heddle::bundle;
using namespace heddle::bundle::test;

namespace {

/// Dense attention with cached keys; after step 1 the first masked position is
/// computed, and what drew most.
Manifest attendedManifest() {
  Manifest manifest = testManifest();
  const auto select =
      std::ranges::find(manifest.kernels, Kernel::Kind::Select, &Kernel::kind);
  Kernel dense = manifest.kernels[0], added = *select;
  manifest.selections.clear();
  dense.name = "dense";
  dense.writesLse = true;
  static_cast<ListForm &>(added) = rolloutKernel();
  added.name = "select_added";
  for (Kernel *kernel : {&dense, &added})
    for (KernelVariant &variant : kernel->variants)
      variant.symbol =
          expectedSymbol(*kernel, variant, manifest.targets.front());
  manifest.kernels = {dense, added};
  manifest.rules.resize(1);
  manifest.rules[0].phases.assign(1, {});
  manifest.rules[0].phases[0].attention = 0;
  manifest.rules[0].phases[0].rollout = 1;
  auto add = [&](Positions::Kind kind, std::vector<int64_t> of,
                 int64_t count = 0) {
    Positions &set = manifest.positions.emplace_back();
    set.kind = kind;
    set.of = std::move(of);
    set.count = count;
  };
  manifest.positions.clear();
  add(Positions::Kind::Undecoded, {}, 1);
  add(Positions::Kind::All, {});
  add(Positions::Kind::Attended, {1});
  manifest.positions.back().share = {1, 10};
  manifest.positions.back().name = "drawing";
  add(Positions::Kind::Union, {0, 2});
  Cadence start;
  start.kind = Cadence::Kind::First;
  start.count = 1;
  manifest.passes.assign(2, {});
  manifest.passes[0].when = {{When::Kind::On, start}};
  manifest.passes[1].rows = 3;
  manifest.reuse = {};
  manifest.reuse.kv = true;
  return manifest;
}

void expectRefused(const std::function<void(Json &)> &change,
                   const std::string &wanted) {
  EXPECT_PRED2(says, refusal(attendedManifest(), change), wanted);
}

} // namespace

TEST(Attended, RoundTripsThroughJson) {
  const Manifest manifest = attendedManifest();
  EXPECT_EQ(refusal(manifest, [](Json &) {}), "");
  EXPECT_TRUE(readsAttention(manifest));
  const Manifest back = readBack(manifest);
  EXPECT_EQ(back.positions, manifest.positions);
  EXPECT_EQ(back.rules[0].phases[0].rollout, 1);
  EXPECT_EQ(definitionOf(back, 2).substr(0, 29),
            "attended(share = 1/10) of all");
  Positions other = back.positions[2];
  other.share = {1, 5};
  EXPECT_FALSE(other.isLike(back.positions[2]));
  // Older readers take bundles that have none of this.
  EXPECT_FALSE(readsAttention(testManifest()));
  EXPECT_EQ(toJson(testManifest()).find("rollout"), std::string::npos);
}

TEST(Attended, SharesAreMoreThanNoneAndAtMostAll) {
  for (const char *share : {"0", "11/10", "-1/2"})
    expectRefused([&](Json &json) { json["positions"][2]["share"] = share; },
                  "positions[2].share");
  expectRefused([](Json &json) { json["positions"][2].erase("share"); },
                "positions[2]");
  expectRefused([](Json &json) { json["positions"][2]["count"] = 2; },
                "positions[2]");
}

TEST(Attended, PhasesAddUpWhatASetGoesBy) {
  auto phase = [](Json &json) -> Json & {
    return json["rules"][0]["phases"][0];
  };
  expectRefused([&](Json &json) { phase(json).erase("rollout"); },
                "rules[0].phases[0].rollout: has no kernel that adds up the "
                "attention that positions drew");
  expectRefused(
      [](Json &json) {
        json["positions"][2] = {{"kind", "last"}, {"of", {1}}, {"count", 1}};
      },
      "rules[0].phases[0].rollout: adds up the attention that positions drew, "
      "by which no set goes");
  expectRefused([&](Json &json) { phase(json)["rollout"] = 0; },
                "needs to add up attention a select kernel of group all by "
                "mean_probability, by the scores of its own attention, which "
                "kernel \"dense\" is not");
  expectRefused([&](Json &json) { phase(json)["rollout"] = 2; },
                "rules[0].phases[0].rollout");
  expectRefused([](Json &json) { json["kernels"][0]["writes_lse"] = false; },
                "adds up attention by log-sum-exps, which kernel \"dense\" "
                "does not write");
}

TEST(Attended, WhatKeysAreAddedUpFrom) {
  auto refused = [](const std::function<void(Manifest &)> &change) {
    Manifest changed = attendedManifest();
    change(changed);
    std::optional<ProgramProblem> problem = checkProgram(changed);
    return problem ? problem->what : "";
  };
  EXPECT_EQ(refused([](Manifest &) {}), "");
  EXPECT_PRED2(says, refused([](Manifest &m) { m.passes.resize(1); }),
               "the schedule caches none");
  EXPECT_PRED2(says, refused([](Manifest &m) { m.passes[1].unseen = true; }),
               "write a recompute without `unseen`");
  EXPECT_PRED2(says, refused([](Manifest &m) { m.positions[2].of = {0, 1}; }),
               "is made of exactly one set");
  EXPECT_EQ(checkRollout(/*dense=*/true, {}), std::nullopt);
  EXPECT_PRED2(says, checkRollout(/*dense=*/false, {}).value_or(""),
               "must be dense");
}
