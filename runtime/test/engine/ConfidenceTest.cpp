//===- ConfidenceTest.cpp - Runs whose rows go by past confidence ---------===//
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

class ConfidenceTest : public RunTest {
protected:
  /// All rows at a block's first step; after it
  /// the two surest positions of the block, two beside each of them, the first
  /// masked one and the last step's tokens.
  static bundle::Manifest blocks() {
    bundle::Manifest manifest = gpuManifest();
    manifest.selections.clear();
    manifest.kernels.resize(1);
    auto add = [&](Kind kind, int64_t count, std::vector<int64_t> of = {}) {
      bundle::Positions &set = manifest.positions.emplace_back();
      set.kind = kind;
      set.count = count;
      set.of = std::move(of);
    };
    add(Kind::Block, 0);
    add(Kind::Confident, 2, {0});
    add(Kind::Neighbors, 2, {1, 0});
    add(Kind::Undecoded, 1);
    add(Kind::Committed, 1);
    add(Kind::Union, 0, {1, 2, 3, 4});
    add(Kind::Union, 0, {1, 3});
    add(Kind::Except, 0, {0, 6});
    bundle::Cadence start;
    start.kind = bundle::Cadence::Kind::First;
    start.count = 1;
    start.inBlock = true;
    bundle::Pass all, some;
    all.when.push_back({bundle::When::Kind::On, start});
    some.rows = 5;
    manifest.passes = {all, some};
    manifest.reuse.kv = true;
    return manifest;
  }
};

TEST_F(ConfidenceTest, RowsOfAllLayers) {
  bundle::Manifest manifest = blocks();
  makeModel(tiny);
  const Trace run =
      onHost(manifest, promptsOf({5, 20, 9}), lengthsOf(16, 8, 8));
  int64_t fewest = 99;
  for (const Trace::Step &step : run.steps)
    fewest = std::min(fewest, step.rows);
  EXPECT_LT(fewest, 3 * 8) << "the block is computed at every step";
  compareHostDriven(manifest, promptsOf({5, 20, 9}), lengthsOf(16, 8, 8));
  GenerateOptions guided = lengthsOf(16, 16, 8);
  guided.sampling.cfgScale = 1.5;
  compareHostDriven(manifest, promptsOf({7, 20}), guided);
  manifest.commit.kind = bundle::CommitRule::Kind::Above;
  manifest.commit.ratio = {1, 20};
  compareHostDriven(manifest, promptsOf({5, 20, 9}), lengthsOf(16, 8, 8));
}

/// Other positions are the surest by what is decoded near them.
TEST_F(ConfidenceTest, WhatIsDecodedNearLiftsThem) {
  bundle::Manifest manifest = blocks();
  makeModel(tiny);
  auto done = [&] {
    std::vector<int64_t> all; // rows and commits
    for (const Trace::Step &step :
         onHost(manifest, promptsOf({5, 20, 9}), lengthsOf(16, 16, 16)).steps) {
      all.push_back(step.rows);
      for (const Commit &commit : step.commits)
        all.push_back(commit.position);
    }
    return all;
  };
  const std::vector<int64_t> alone = done();
  manifest.positions[1].near = 2;
  EXPECT_NE(done(), alone);
  compareHostDriven(manifest, promptsOf({5, 20, 9}), lengthsOf(16, 8, 8));
  GenerateOptions guided = lengthsOf(16, 16, 8);
  guided.sampling.cfgScale = 1.5;
  compareHostDriven(manifest, promptsOf({7, 20}), guided);
}

/// In layer 1 those of the block end whose V changed least, but for the surest.
TEST_F(ConfidenceTest, RowsThatDoNotEnd) {
  bundle::Manifest manifest = blocks();
  bundle::Pass some;
  some.rows = 0;
  manifest.passes[1] = some;
  some.exact = bundle::Pass::Exact::LeastSimilar;
  some.keep = {1, 2};
  some.among = 7;
  some.layers = {{1, 1}};
  manifest.passes.insert(manifest.passes.begin() + 1, some);
  for (bundle::Ratio weight : {bundle::Ratio{}, bundle::Ratio{1, 2}}) {
    manifest.passes[1].confidence = weight;
    makeModel({.layers = 3, .mlpHidden = 40, .vocab = 61});
    compareHostDriven(manifest, promptsOf({5, 20, 9}), lengthsOf(16, 8, 8));
    makeDream(3);
    compareHostDriven(manifest, promptsOf({5, 20}), lengthsOf(16, 16, 8));
  }
}

} // namespace
