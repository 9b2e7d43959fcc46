//===- ShadowChecksTest.cpp - Tokens that are revoked by shadows ----------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "bundle/program/Program.h"
#include "bundle/program/ProgramChecks.h"
#include "bundle/test/Refusal.h"

using namespace heddle;
using namespace heddle::bundle;
using namespace heddle::bundle::test;

namespace {

/// Dense attention, whose kernels have all forms that the target asks for.
Manifest shadowManifest() {
  Manifest manifest = testManifest();
  manifest.selections.clear();
  Kernel dense = manifest.kernels[0], others = manifest.kernels[2];
  dense.name = "dense";
  dense.writesLse = false;
  others.name = "others";
  others.terms = {{.kind = Term::Kind::Others}};
  for (Kernel *kernel : {&dense, &others})
    for (KernelVariant &variant : kernel->variants)
      variant.symbol =
          expectedSymbol(*kernel, variant, manifest.targets.front());
  manifest.kernels = {dense, others};
  manifest.rules.resize(1);
  manifest.rules[0].phases.assign(1, {});
  manifest.rules[0].phases[0].attention = 0;
  manifest.rules[0].phases[0].shadow = 1;
  CommitRule &rule = manifest.commit;
  rule.kind = CommitRule::Kind::Above;
  rule.ratio = {3, 5};
  rule.strictly = true;
  rule.limitShare = {7, 10};
  rule.limitLeast = 5;
  rule.limitMost = 20;
  rule.revokeBelow = {9, 10};
  rule.revokeBy = CommitRule::RevokeBy::Shadow;
  rule.revokeFewerThan = CommitRule::RevokeFewerThan::StepBefore;
  return manifest;
}

void expectRefused(const std::function<void(Json &)> &change,
                   const std::string &wanted) {
  EXPECT_TRUE(says(refusal(shadowManifest(), change), wanted));
}

} // namespace

TEST(ShadowChecks, ManifestsSaySoWhereThereIsOne) {
  const Manifest manifest = shadowManifest();
  EXPECT_EQ(refusal(manifest, [](Json &) {}), "");
  const Manifest back = readBack(manifest);
  EXPECT_EQ(back.commit, manifest.commit);
  EXPECT_EQ(back.rules[0].phases[0].shadow, 1);
  // Older readers take bundles that have none of this.
  Manifest older = manifest;
  older.commit = {};
  older.commit.kind = CommitRule::Kind::Above;
  older.commit.ratio = {3, 5};
  older.commit.revokeBelow = {9, 10};
  older.rules[0].phases[0].shadow = -1;
  const std::string text = toJson(older);
  for (const char *field :
       {"shadow", "strictly", "limit_", "revoke_by", "revoke_fewer_than"})
    EXPECT_EQ(text.find(std::string("\"") + field), std::string::npos) << field;
}

TEST(ShadowChecks, PhasesAttendForShadowsWhereACommitHasOne) {
  expectRefused(
      [](Json &json) { json["rules"][0]["phases"][0].erase("shadow"); },
      "rules[0].phases[0].shadow: has no attention for shadows, by "
      "which a commit revokes");
  expectRefused([](Json &json) { json["commit"].erase("revoke_by"); },
                "rules[0].phases[0].shadow: has attention for shadows, by "
                "which no commit revokes");
  expectRefused(
      [](Json &json) { json["rules"][0]["phases"][0]["shadow"] = 0; },
      "needs for shadows attention over `others`, by the scores of its own "
      "attention and without log-sum-exps, which kernel \"dense\" is not");
  expectRefused(
      [](Json &json) { json["rules"][0]["phases"][0]["attention"] = 1; },
      "with kernel \"others\" must be dense where tokens are revoked by a "
      "shadow");
  expectRefused([](Json &json) { json["rules"][0]["phases"][0]["shadow"] = 2; },
                "rules[0].phases[0].shadow");
}

TEST(ShadowChecks, WhatAShadowCannotStandBeside) {
  Manifest manifest = shadowManifest();
  EXPECT_EQ(checkShadows(manifest), std::nullopt);
  auto refused = [&](const std::function<void(Manifest &)> &change) {
    Manifest changed = manifest;
    change(changed);
    std::optional<ProgramProblem> problem = checkShadows(changed);
    return problem ? problem->what : "";
  };
  EXPECT_PRED2(says, refused([](Manifest &m) { m.commit.editAbove = {1, 2}; }),
               "looks at each token in one row");
  EXPECT_PRED2(says, refused([](Manifest &m) { m.commit.within = 0; }),
               "leave `within` out");
  EXPECT_PRED2(says, refused([](Manifest &m) { m.visible = 0; }), "`visible`");
  EXPECT_PRED2(says, refused([](Manifest &m) { m.passes.emplace_back(); }),
               "`recompute`");
  EXPECT_PRED2(says, refused([](Manifest &m) { m.reuse.kv = true; }),
               "`reuse`");
  EXPECT_PRED2(says, refused([](Manifest &m) {
                 m.positions.emplace_back().cadence.kind = Cadence::Kind::Drift;
               }),
               "drift");
  // Whatever commits at the other steps.
  EXPECT_PRED2(says, refused([](Manifest &m) {
                 m.datedCommits.push_back({{}, m.commit});
                 m.commit = {};
                 m.reuse.kv = true;
               }),
               "`reuse`");
}

TEST(ShadowChecks, LimitsAndBoundsOfWhatIsRevoked) {
  expectRefused([](Json &json) { json["commit"]["limit_least"] = 21; },
                "may be limited to no fewer than 21 tokens and no more than "
                "20");
  expectRefused([](Json &json) { json["commit"]["limit_share"] = "8/7"; },
                "commit.limit_share");
  expectRefused([](Json &json) { json["commit"]["limit_most"] = 0; },
                "commit.limit_most");
  expectRefused([](Json &json) { json["commit"]["revoke_by"] = "mask"; },
                "commit.revoke_by");
  Manifest manifest = shadowManifest();
  manifest.commit.kind = CommitRule::Kind::Quota;
  EXPECT_TRUE(says(refusal(manifest, [](Json &) {}), "takes a planned number"));
  // Two steps might revoke what one of them commits.
  manifest = shadowManifest();
  DatedCommit dated;
  dated.when = {{When::Kind::On, every(2)}};
  dated.rule = manifest.commit;
  manifest.datedCommits = {dated};
  EXPECT_EQ(refusal(manifest, [](Json &) {}), "");
  manifest.commit.revokeFewerThan = CommitRule::RevokeFewerThan::Step;
  EXPECT_TRUE(
      says(refusal(manifest, [](Json &) {}), "a block might never end"));
}
