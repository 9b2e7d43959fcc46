//===- LogitsTest.cpp - Runs that select by logits ------------------------===//
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

/// Columns, or blocks in their place, that are chosen by logits.
bundle::Manifest byLogits(bool blocks = false) {
  constexpr auto scorer = bundle::Selection::Scorer::MeanLogit;
  bundle::Manifest manifest = gpuManifest();
  bundle::Selection &selection = manifest.selections.front();
  selection.scorer = scorer;
  if (blocks) {
    chooseBlocks(manifest);
    selection.isolation = bundle::Selection::Isolation::Spans;
  }
  manifest.kernels[kernelNamed(manifest, "select_16")].scorer = scorer;
  setRule(manifest, "columns", {0});
  return manifest;
}

/// Each step refreshes what is due and attends over it; a kernel is `scoring`
/// for its log-sum-exps, if any is.
bundle::Manifest atOnce(bundle::Manifest manifest, int64_t scoring = -1) {
  std::vector<bundle::Phase> &phases = manifest.rules.front().phases;
  bundle::Phase fresh = phases.back();
  fresh.refreshes = phases.front().refreshes;
  fresh.refreshesFirst = true;
  fresh.scoring = scoring;
  phases = {fresh};
  return manifest;
}

TEST_F(RunTest, SelectsByLogits) {
  makeModel(tiny);
  const GenerateOptions lengths = lengthsOf(16, 16, 10);
  ASSERT_TRUE(CudaEngine::supports(byLogits(), config));
  compare(byLogits(), promptsOf({40, 9}), lengths);
  compareHostDriven(byLogits(), promptsOf({40, 9}), lengths);
  compareHostDriven(byLogits(true), promptsOf({50, 7}), lengthsOf(32, 32, 10));
  ASSERT_FALSE(CudaEngine::supports(atOnce(byLogits()), config));
  compareHostDriven(atOnce(byLogits()), promptsOf({40, 9}), lengths);
  compareHostDriven(atOnce(byLogits(true)), promptsOf({50, 7}),
                    lengthsOf(32, 32, 10));
}

// A query for each group of 16 rows meets the 56 keys, and no pair is computed
// but those that are chosen.
TEST_F(RunTest, LogitsTakeAPairForAGroup) {
  makeModel(tiny);
  const GenerateOptions lengths = lengthsOf(16, 16, 10);
  const Prompts prompts = promptsOf({40});
  const Trace trace = onHost(atOnce(byLogits()), prompts, lengths);
  const StepCounters &step = trace.steps.front().counters;
  EXPECT_EQ(2 * step.pairs, step.densePairs);
  EXPECT_EQ(step.lsePairs, 0);
  EXPECT_EQ(56 * step.scorePairs, 4 * step.densePairs);

  // Other columns than probabilities choose.
  bundle::Manifest other = gpuManifest();
  setRule(other, "columns", {0});
  const int64_t dense = other.rules.front().phases.front().attention;
  const Trace beside = onHost(atOnce(other, dense), prompts, lengths);
  EXPECT_EQ(beside.steps.front().counters.lsePairs, step.densePairs);
  EXPECT_NE(trace.steps.front().commits.front().confidence,
            beside.steps.front().commits.front().confidence);
}

// By both scorers in one phase: dense attention comes before the refreshes of
// the steps in which one that reads it is due.
TEST_F(RunTest, ScoresDenselyWhereProbabilitiesAreDue) {
  makeModel(tiny);
  bundle::Manifest manifest = byLogits();
  manifest.selections[0].cadence.period = 1;
  manifest.selections[1].group = 32;
  setRule(manifest, "two_columns", {0, 1});
  manifest = atOnce(manifest, manifest.rules.front().phases.front().attention);
  const GenerateOptions lengths = lengthsOf(16, 16, 10);
  const Prompts prompts = promptsOf({40});
  const Trace trace = onHost(manifest, prompts, lengths);
  for (size_t step = 0; step < trace.steps.size(); ++step) {
    const StepCounters &counters = trace.steps[step].counters;
    EXPECT_EQ(counters.lsePairs, step % 4 == 0 ? counters.densePairs : 0)
        << "step " << step + 1;
    EXPECT_GT(counters.refreshes, 0);
  }
  EXPECT_EQ(trace.steps.size(), 10);
  compareHostDriven(manifest, promptsOf({40, 9}), lengths);
}

} // namespace
