//===- NoiseTest.cpp - Blocks whose masks are noise, on a GPU -------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/test/engine/RunFixture.h"

using namespace heddle;
using namespace heddle::rt;
using namespace heddle::rt::cuda;
using namespace heddle::rt::cuda::test;

namespace {

using Kind = bundle::Positions::Kind;

class NoiseTest : public RunTest {
protected:
  /// All rows at every step, or the block's behind its first step; two tokens a
  /// step, the surest first.
  static bundle::Manifest noise(bool cached) {
    bundle::Manifest manifest = gpuManifest();
    manifest.selections.clear();
    manifest.kernels.resize(1);
    manifest.commit.kind = bundle::CommitRule::Kind::Best;
    manifest.commit.count = 2;
    manifest.commit.renoises = true;
    if (!cached)
      return manifest;
    bundle::Cadence start;
    start.kind = bundle::Cadence::Kind::First;
    start.count = 1;
    start.inBlock = true;
    manifest.positions.emplace_back().kind = Kind::Block;
    bundle::Pass all, some;
    all.when.push_back({bundle::When::Kind::On, start});
    some.rows = 0;
    manifest.passes = {all, some};
    manifest.reuse.kv = true;
    return manifest;
  }
};

TEST_F(NoiseTest, HostDrivenBlocksOfNoise) {
  for (bool dream : {false, true}) {
    dream ? makeDream(2) : makeModel(tiny);
    for (bool cached : {false, true}) {
      bundle::Manifest manifest = noise(cached);
      const Prompts prompts = promptsOf({5, 20, 9});
      GenerateOptions options = lengthsOf(16, 8, 8);
      compareHostDriven(manifest, prompts, options);
      // Not because noise says nothing.
      const Trace drawn = onHost(manifest, prompts, options);
      options.sampling.seed = 3;
      const Trace other = onHost(manifest, prompts, options);
      EXPECT_NE(drawn.generation.sequences, other.generation.sequences);
      manifest.commit.renoises = false;
      const Trace masks = onHost(manifest, prompts, options);
      EXPECT_NE(other.generation.sequences, masks.generation.sequences);
    }
  }
}

TEST_F(NoiseTest, HostDrivenBesideOtherClauses) {
  makeModel(tiny);
  const Prompts prompts = promptsOf({5, 20, 9});
  bundle::Manifest manifest = noise(/*cached=*/true);
  GenerateOptions guided = lengthsOf(16, 8, 8);
  guided.sampling.cfgScale = 1.5;
  compareHostDriven(manifest, prompts, guided);
  manifest.commit.kind = bundle::CommitRule::Kind::Entropy;
  manifest.commit.count = 0;
  manifest.commit.ratio = {6, 1};
  compareHostDriven(manifest, prompts, lengthsOf(16, 8, 8));
  manifest = noise(/*cached=*/true);
  manifest.commit.editAbove = {1, 1000};
  manifest.commit.furtherPasses = 3;
  compareHostDriven(manifest, prompts, lengthsOf(16, 8, 8));
  manifest.commit.editAbove = {};
  manifest.commit.furtherPasses = 0;
  manifest.commit.count = 4;
  manifest.commit.revokeBelow = {1, 1};
  compareHostDriven(manifest, prompts, lengthsOf(16, 8, 8));
  manifest = noise(/*cached=*/false);
  manifest.commit.drafts = 3;
  compareHostDriven(manifest, prompts, lengthsOf(16, 8, 8));
}

} // namespace
