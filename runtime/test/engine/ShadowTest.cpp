//===- ShadowTest.cpp - Runs whose tokens are revoked by shadows ----------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/test/engine/RunFixture.h"

#include <algorithm>
#include <cmath>

using namespace heddle;
using namespace heddle::rt;
using namespace heddle::rt::cuda;
using namespace heddle::rt::cuda::test;

namespace {

class ShadowTest : public RunTest {};

/// Revokes by a token's own row; with `shadow` by a shadow's.
bundle::Manifest revoking(bool shadow) {
  bundle::Manifest manifest = denseManifest();
  manifest.commit.kind = bundle::CommitRule::Kind::Best;
  manifest.commit.count = 3;
  manifest.commit.revokeBelow = {1, 1};
  if (!shadow)
    return manifest;
  manifest.commit.revokeBy = bundle::CommitRule::RevokeBy::Shadow;
  const bundle::Manifest all = gpuManifest();
  bundle::Kernel others = all.kernels[kernelNamed(all, "share")];
  others.name = "others";
  others.terms = {{.kind = bundle::Term::Kind::Others}};
  for (bundle::KernelVariant &variant : others.variants)
    variant.symbol = expectedSymbol(others, variant, all.targets.front());
  manifest.rules[0].phases[0].shadow = std::ssize(manifest.kernels);
  manifest.kernels.push_back(others);
  return manifest;
}

/// In ragged batches, models that predict a position in the row before it, and
/// both halves of guided batches.
TEST_F(ShadowTest, AreComputedBehindTheirSequences) {
  for (bool dream : {false, true}) {
    dream ? makeDream(2) : makeModel(grouped);
    const Prompts prompts = promptsOf({5, 20, 9});
    for (double guidance : {0.0, 1.5}) {
      if (dream && guidance > 0)
        continue;
      GenerateOptions options = lengthsOf(16, 8, 16);
      options.sampling.cfgScale = guidance;
      if (dream) {
        options.sampling.timesteps.emplace();
        options.sampling.timesteps->rule = TransferRule::MaskgitPlus;
      }
      compareHostDriven(revoking(true), prompts, options);
      const Trace found = onHost(revoking(true), prompts, options);
      const Trace byRow = onHost(revoking(false), prompts, options);
      ASSERT_GT(found.steps.size(), 2u);
      EXPECT_EQ(found.steps[0].rows, byRow.steps[0].rows) << "no tokens yet";
      const Trace::Step &step = found.steps[1], &without = byRow.steps[1];
      const int64_t halves = guidance > 0 ? 2 : 1;
      EXPECT_EQ(step.rows, without.rows + halves * 3 * 8);
      EXPECT_EQ(step.logitRows, without.logitRows);
      EXPECT_EQ(step.counters.densePairs, without.counters.densePairs);
      int64_t pairs = 0;
      for (const std::vector<int32_t> &prompt : prompts)
        pairs += 8 * (std::ssize(prompt) + 16 + 8 - 1);
      EXPECT_EQ(step.counters.pairs,
                without.counters.pairs +
                    halves * config.layers * config.queryHeads * pairs);
      // What the first step made is what both look at.
      double apart = 0;
      for (const Commit &one : step.commits)
        for (const Commit &other : without.commits)
          if (one.revoked && other.revoked && one.sequence == other.sequence &&
              one.position == other.position)
            apart =
                std::max(apart, std::abs(one.confidence - other.confidence));
          else if (one.position == other.position &&
                   one.sequence == other.sequence)
            EXPECT_NEAR(one.confidence, other.confidence, 1e-4);
      EXPECT_GT(apart, 1e-4) << "a shadow's rows do not see the token";
    }
  }
}

/// A sequence's tokens are the same in any batch.
TEST_F(ShadowTest, OfOneSequenceAreNoOthersBusiness) {
  makeModel(grouped);
  const Prompts prompts = promptsOf({5, 20, 9});
  const GenerateOptions options = lengthsOf(16, 8, 16);
  const Trace together = onHost(revoking(true), prompts, options);
  for (size_t i = 0; i < prompts.size(); ++i)
    EXPECT_EQ(
        onHost(revoking(true), {prompts[i]}, options).generation.sequences[0],
        together.generation.sequences[i]);
}

TEST_F(ShadowTest, MemoryHoldsTheBlockOnceMore) {
  const std::vector<SequenceShape> shapes = sequenceShapes(
      {2, 5}, {.genLength = 8, .blockLength = 4, .sampling = {.cfgScale = 1}},
      revoking(true));
  ASSERT_EQ(shapes.size(), 8u);
  for (size_t i : {1, 3, 5, 7}) {
    EXPECT_EQ(shapes[i].shadowRows, 4);
    EXPECT_EQ(shapes[i].mostRows(), 4);
    EXPECT_EQ(shapes[i].length, shapes[i - 1].length + 4);
    EXPECT_FALSE(shapes[i - 1].isShadow());
    EXPECT_EQ(shapes[i - 1].mostRows(), shapes[i - 1].length);
  }
  EXPECT_EQ(shapes[7].driftsAs, 3);
}

} // namespace
