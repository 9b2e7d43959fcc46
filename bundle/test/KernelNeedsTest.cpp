//===- KernelNeedsTest.cpp - What a program needs of its kernels ----------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "bundle/program/KernelNeeds.h"
#include "bundle/test/TestManifest.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

using namespace heddle::bundle;
using namespace heddle::bundle::test;

namespace {

bool needs(const Manifest &manifest, RowOp op) {
  const std::vector<RowOp> ops = rowOpsOf(manifest);
  return std::find(ops.begin(), ops.end(), op) != ops.end();
}

/// All rows at step 1, then those that are chosen so.
Manifest choosing(Pass::Exact exact) {
  Manifest manifest;
  manifest.passes.resize(2);
  manifest.passes[0].when = {{When::Kind::On, first(1)}};
  manifest.passes[1].rows = 0;
  manifest.passes[1].exact = exact;
  manifest.passes[1].keep = {1, 4};
  manifest.positions.resize(1);
  return manifest;
}

TEST(KernelNeeds, AModelAndItsSamplerNeedMostRowOperations) {
  EXPECT_EQ(rowOpsOf({}), (std::vector<RowOp>{
                              RowOp::Embed, RowOp::RmsNorm, RowOp::Rotate,
                              RowOp::SwiGlu, RowOp::Copy, RowOp::MaskedCount,
                              RowOp::Candidates, RowOp::Draw, RowOp::Commit}));
}

TEST(KernelNeeds, WhateverComparesRowsNeedsCompare) {
  EXPECT_FALSE(needs(choosing(Pass::Exact::All), RowOp::Compare));
  EXPECT_TRUE(needs(choosing(Pass::Exact::Salient), RowOp::Compare));
  EXPECT_TRUE(needs(choosing(Pass::Exact::SalientFfn), RowOp::Compare));
  Manifest least = choosing(Pass::Exact::LeastSimilar);
  EXPECT_TRUE(needs(least, RowOp::Compare));
  least.passes[1].keep = {0, 1}; // nothing is compared
  EXPECT_FALSE(needs(least, RowOp::Compare));

  Manifest drifting;
  drifting.selections.resize(1);
  EXPECT_FALSE(needs(drifting, RowOp::Compare));
  drifting.selections[0].cadence.kind = Cadence::Kind::Drift;
  EXPECT_TRUE(needs(drifting, RowOp::Compare));
}

TEST(KernelNeeds, KeptAttentionOfSomeLayersIsEnough) {
  for (bool layered : {false, true}) {
    auto keeping = [&](Reuse::Attention attention) {
      Manifest manifest;
      Reuse &reuse = layered ? manifest.layeredReuses.emplace_back().reuse
                             : manifest.reuse;
      reuse.attention = attention;
      reuse.keep = {1, 2};
      return manifest;
    };
    for (auto attention :
         {Reuse::Attention::None, Reuse::Attention::Context,
          Reuse::Attention::Output, Reuse::Attention::Propagated,
          Reuse::Attention::Outside}) {
      const Manifest manifest = keeping(attention);
      const bool adds = attention == Reuse::Attention::Propagated;
      EXPECT_EQ(needs(manifest, RowOp::Change), adds);
      EXPECT_EQ(needs(manifest, RowOp::Compare), adds);
      EXPECT_EQ(needs(manifest, RowOp::Merge),
                attention == Reuse::Attention::Outside);
    }
    Manifest refreshed = keeping(Reuse::Attention::Outside);
    (layered ? refreshed.layeredReuses[0].reuse : refreshed.reuse).refreshed =
        0;
    EXPECT_TRUE(needs(refreshed, RowOp::Compare));
  }
}

TEST(KernelNeeds, ListsOfBlocksHaveOneEncoding) {
  const std::vector<Encoding> ofKeys = {Encoding::Uint16, Encoding::Int32};
  const std::vector<Encoding> ofBlocks = {Encoding::Int32};
  auto encodings = [&](const std::function<void(Kernel &)> &edit) {
    Kernel kernel;
    edit(kernel);
    return encodingsOf(kernel, ofKeys);
  };
  auto select = [](bool blocks, int64_t within = 0, bool ofBlocks = false) {
    return [=](Kernel &kernel) {
      kernel.kind = Kernel::Kind::Select;
      kernel.group = 32;
      kernel.blocks = blocks;
      kernel.withinGroup = within;
      kernel.withinBlocks = ofBlocks;
    };
  };
  EXPECT_EQ(encodings(select(false)), ofKeys);
  EXPECT_EQ(encodings(select(false, 128, true)), ofKeys);
  EXPECT_EQ(encodings(select(true)), ofBlocks);
  EXPECT_EQ(encodings(select(true, 128, true)), ofBlocks);
  EXPECT_EQ(encodings(select(true, 128, false)), ofKeys);

  auto reading = [](std::vector<Term::Kind> kinds) {
    return [=](Kernel &kernel) {
      for (Term::Kind kind : kinds)
        kernel.terms.push_back({kind, 32});
    };
  };
  EXPECT_EQ(encodings(reading({})), ofBlocks);
  EXPECT_EQ(encodings(reading({Term::Kind::Window})), ofBlocks);
  EXPECT_EQ(encodings(reading({Term::Kind::Blocks, Term::Kind::Sinks})),
            ofBlocks);
  EXPECT_EQ(encodings(reading({Term::Kind::Blocks, Term::Kind::Columns})),
            ofKeys);
}

/// Kernel 0 runs on step 1 and kernel 1 at all others.
Manifest twoKernels() {
  Manifest manifest = choosing(Pass::Exact::All);
  manifest.kernels.resize(4);
  std::vector<Phase> &phases = manifest.rules.emplace_back().phases;
  phases.resize(2);
  phases[0].when = {When::Kind::On, first(1)};
  phases[0].attention = 0;
  phases[1].attention = 1;
  return manifest;
}

TEST(KernelNeeds, AKernelOfStepsThatComputeAllRowsHasNoneOfSome) {
  Manifest manifest = twoKernels();
  EXPECT_TRUE(computesAllRowsOn(manifest, first(1)));
  EXPECT_FALSE(computesSomeRows(manifest, 0));
  EXPECT_TRUE(computesSomeRows(manifest, 1));

  // A layer that has no such phase.
  Manifest layered = twoKernels();
  layered.rules.emplace_back().phases.emplace_back().attention = 0;
  EXPECT_TRUE(computesSomeRows(layered, 0));

  // Step 1 is one of the phase's, and of the pass's some others are not.
  Manifest longer = twoKernels();
  longer.rules[0].phases[0].when.cadence.count = 2;
  EXPECT_FALSE(
      computesAllRowsOn(longer, longer.rules[0].phases[0].when.cadence));
  EXPECT_TRUE(computesSomeRows(longer, 0));

  // Before a cadence there may be steps of any kind.
  Manifest before = twoKernels();
  before.rules[0].phases[0].when.kind = When::Kind::Before;
  EXPECT_TRUE(computesSomeRows(before, 0));

  Manifest whole = twoKernels();
  whole.passes.clear();
  EXPECT_FALSE(computesSomeRows(whole, 0));
  EXPECT_FALSE(computesSomeRows(whole, 1));
}

TEST(KernelNeeds, WhatScoresIsOfAllRowsAndWhatMeasuresIsNot) {
  Manifest manifest = twoKernels();
  Phase &rest = manifest.rules[0].phases[1];
  rest.scoring = 2;
  rest.measures = {{first(1), 3}};
  EXPECT_FALSE(computesSomeRows(manifest, 2));
  EXPECT_TRUE(computesSomeRows(manifest, 3));
}

} // namespace
