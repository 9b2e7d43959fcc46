//===- PairsTest.cpp - Runs over selections, windows and sinks ------------===//
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

class PairsTest : public RunTest {};

TEST_F(PairsTest, Columns) {
  makeModel(tiny);
  bundle::Manifest manifest = gpuManifest();
  setRule(manifest, "columns", {0});
  compare(manifest, promptsOf({7, 30}), lengthsOf(16, 8, 10));
}

TEST_F(PairsTest, NumbersOfColumns) {
  makeModel(tiny);
  bundle::Manifest manifest = gpuManifest();
  manifest.selections[0].count = 11;
  setRule(manifest, "columns", {0});
  compare(manifest, promptsOf({40, 9, 1}), lengthsOf(8, 8, 10));
  compareHostDriven(manifest, promptsOf({40, 9, 1}), lengthsOf(8, 8, 10));
  // 11 keys for each row, whatever the length; the shortest has fewer.
  const StepCounters step =
      onHost(manifest, promptsOf({40, 9, 1}), lengthsOf(8, 8, 10))
          .steps[1]
          .counters;
  EXPECT_EQ(step.pairs,
            config.layers * config.queryHeads * (48 * 11 + 17 * 11 + 9 * 9));
}

// Columns with a window and sinks until step 6, others alone from then on.
TEST_F(PairsTest, StagesOfPairs) {
  makeModel(tiny);
  bundle::Manifest manifest = gpuManifest();
  setRule(manifest, "columns", {0, 2});
  std::vector<bundle::Phase> &phases = manifest.rules.front().phases;
  phases.insert(phases.begin() + 1, phaseBefore(6, manifest, "union"));
  const Prompts prompts = promptsOf({40, 9});
  const GenerateOptions lengths = lengthsOf(16, 16, 10);
  compare(manifest, prompts, lengths);
  compareHostDriven(manifest, prompts, lengths);
  const auto steps = onHost(manifest, prompts, lengths).steps;
  EXPECT_GT(steps[3].counters.pairs, steps[6].counters.pairs);
  EXPECT_EQ(steps[5].counters.pairs, steps[6].counters.pairs);
}

TEST_F(PairsTest, ColumnsAsBitmaps) {
  makeModel(tiny);
  bundle::Manifest manifest =
      gpuManifest({.encodings = {bundle::Encoding::Bitmap}});
  setRule(manifest, "columns", {0});
  compare(manifest, promptsOf({7, 30}), lengthsOf(16, 8, 10));
  // Those of a stage to come are empty until its selection is made.
  bundle::Phase refresh = manifest.rules.front().phases.front();
  const bundle::Phase first = phaseBefore(6, manifest, "columns");
  manifest.selections[2].cadence = first.when.cadence;
  setRule(manifest, "union", {2});
  std::vector<bundle::Phase> &phases = manifest.rules.front().phases;
  refresh.refreshes.push_back(phases.front().refreshes.front());
  phases.insert(phases.begin(), refresh);
  phases.insert(phases.begin() + 2, first);
  compare(manifest, promptsOf({40, 9}), lengthsOf(16, 16, 10));
}

// Pairs of a union are counted from the lists on the device.
TEST_F(PairsTest, UnionsWithColumns) {
  makeModel(tiny);
  bundle::Manifest manifest = gpuManifest();
  setRule(manifest, "union", {2});
  compare(manifest, promptsOf({7, 40}), lengthsOf(16, 8, 10));
}

// So are those of lists within other sets, of which each row has its own.
TEST_F(PairsTest, ListsWithinOtherSets) {
  using bundle::Term;
  makeModel(tiny);
  const std::vector<Term> near = {
      {Term::Kind::Window, 20, -1},
      {.kind = Term::Kind::RandomBlocks, .size = 3, .oneIn = 2}};
  for (bundle::Encoding encoding :
       {bundle::Encoding::Int32, bundle::Encoding::Bitmap}) {
    bundle::Manifest manifest = gpuManifest({.encodings = {encoding}});
    auto termsOf = [&](const char *name) -> std::vector<Term> & {
      return manifest.kernels[kernelNamed(manifest, name)].terms;
    };
    termsOf("columns")[0].within = {{Term::Kind::Sinks, 9, -1}};
    termsOf("union")[0].within = near;
    termsOf("two_columns")[0].within = termsOf("two_columns")[1].within = near;
    for (auto [name, selections] :
         {std::pair("columns", std::vector<int64_t>{0}),
          std::pair("union", std::vector<int64_t>{2}),
          std::pair("two_columns", std::vector<int64_t>{0, 1})}) {
      SCOPED_TRACE(name);
      setRule(manifest, name, selections);
      compare(manifest, promptsOf({7, 40}), lengthsOf(16, 8, 10));
      compareHostDriven(manifest, promptsOf({7, 40}), lengthsOf(16, 8, 10));
    }
  }
}

// A share of sinks is another number of them in each sequence.
TEST_F(PairsTest, SharesOfSinks) {
  makeModel(tiny);
  bundle::Manifest manifest = gpuManifest();
  setRule(manifest, "share_union", {2});
  compare(manifest, promptsOf({7, 40}), lengthsOf(16, 8, 10));
  manifest.rules.front().phases = {bundle::Phase()};
  manifest.rules.front().phases.front().attention =
      kernelNamed(manifest, "share");
  compare(manifest, promptsOf({7, 90, 1}), lengthsOf(16, 8, 10));
}

} // namespace
