//===- AttendedTest.cpp - Runs whose rows go by the attention they drew ---===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "bundle/program/ProgramChecks.h"
#include "runtime/test/engine/RunFixture.h"

#include <algorithm>

using namespace heddle;
using namespace heddle::rt;
using namespace heddle::rt::cuda;
using namespace heddle::rt::cuda::test;

namespace {

using Kind = bundle::Positions::Kind;

class AttendedTest : public RunTest {
protected:
  /// All rows at a block's first step; after it the first masked position, the
  /// last step's tokens, and of the others those that drew most attention.
  static bundle::Manifest blocks(bundle::Ratio share) {
    bundle::Manifest manifest = gpuManifest();
    const auto select = std::ranges::find(
        manifest.kernels, bundle::Kernel::Kind::Select, &bundle::Kernel::kind);
    EXPECT_NE(select, manifest.kernels.end());
    bundle::Kernel rollout = *select;
    static_cast<bundle::ListForm &>(rollout) = bundle::rolloutKernel();
    manifest.selections.clear();
    manifest.kernels.resize(1);
    manifest.kernels[0].writesLse = true;
    rollout.name = "select_rollout";
    for (bundle::KernelVariant &variant : rollout.variants) {
      variant.symbol =
          bundle::expectedSymbol(rollout, variant, manifest.targets.front());
    }
    manifest.kernels.push_back(rollout);
    auto add = [&](Kind kind, int64_t count, std::vector<int64_t> of = {}) {
      bundle::Positions &set = manifest.positions.emplace_back();
      set.kind = kind;
      set.count = count;
      set.of = std::move(of);
    };
    add(Kind::Undecoded, 1);
    add(Kind::Committed, 1);
    add(Kind::Union, 0, {0, 1});
    add(Kind::All, 0);
    add(Kind::Except, 0, {3, 2});
    add(Kind::Attended, 0, {4});
    manifest.positions.back().share = share;
    add(Kind::Union, 0, {2, 5});
    bundle::Cadence start;
    start.kind = bundle::Cadence::Kind::First;
    start.count = 1;
    start.inBlock = true;
    bundle::Pass all, some;
    all.when.push_back({bundle::When::Kind::On, start});
    some.rows = 6;
    manifest.passes = {all, some};
    manifest.reuse.kv = true;
    for (bundle::Rule &rule : manifest.rules)
      for (bundle::Phase &phase : rule.phases)
        phase.rollout = 1;
    return manifest;
  }
};

/// The same rows, tokens and counts as on the host, whose shares do differ.
TEST_F(AttendedTest, RowsThatDrewMost) {
  makeModel(tiny);
  std::vector<int64_t> counts;
  for (bundle::Ratio share :
       {bundle::Ratio{1, 1000}, bundle::Ratio{1, 10}, bundle::Ratio{1, 2}}) {
    SCOPED_TRACE(share.num * 1000 / share.den);
    const bundle::Manifest manifest = blocks(share);
    const Trace run =
        onHost(manifest, promptsOf({5, 20, 9}), lengthsOf(16, 8, 8));
    int64_t rows = 0, scored = 0;
    for (const Trace::Step &step : run.steps) {
      rows += step.rows;
      scored += step.counters.scorePairs;
    }
    // Each computed row is scored by once in each layer.
    int64_t pairs = 0;
    for (const Trace::Step &step : run.steps)
      pairs += step.counters.pairs;
    EXPECT_EQ(scored, pairs);
    counts.push_back(rows);
    compareHostDriven(manifest, promptsOf({5, 20, 9}), lengthsOf(16, 8, 8));
  }
  EXPECT_LT(counts[0], counts[1]);
  EXPECT_LT(counts[1], counts[2]);
  GenerateOptions guided = lengthsOf(16, 16, 8);
  guided.sampling.cfgScale = 1.5;
  compareHostDriven(blocks({1, 4}), promptsOf({7, 20}), guided);
}

} // namespace
