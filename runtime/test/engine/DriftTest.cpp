//===- DriftTest.cpp - Runs that refresh by what they measure -------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "bundle/program/ProgramChecks.h"
#include "runtime/test/engine/RunFixture.h"

#include <array>

using namespace heddle;
using namespace heddle::rt;
using namespace heddle::rt::cuda;
using namespace heddle::rt::cuda::test;

namespace {

class DriftTest : public RunTest {};

bundle::Cadence drift(int64_t period, bool attention = false) {
  bundle::Cadence cadence;
  cadence.attention = attention;
  cadence.kind = bundle::Cadence::Kind::Drift;
  cadence.fraction = {19, 20};
  cadence.period = period;
  return cadence;
}

// What a step measures on the device decides the next one, also of guided
// halves.
TEST_F(DriftTest, HostDrivenRefreshesByDrift) {
  makeModel(tiny);
  bundle::Manifest manifest = gpuManifest();
  manifest.selections[0].cadence = drift(6);
  setRule(manifest, "columns", {0});
  setMeasures(manifest);
  EXPECT_FALSE(CudaEngine::supports(manifest, config));
  for (double guidance : {0.0, 1.5}) {
    GenerateOptions options = lengthsOf(16, 8, 16);
    options.sampling.cfgScale = guidance;
    compareHostDriven(manifest, promptsOf({7, 30}), options);
    int64_t refreshed = 0, found = 0;
    for (const auto &step :
         record(*hostDriven, promptsOf({7, 30}), options).steps) {
      refreshed += step.counters.refreshes > 0;
      for (const std::optional<double> &each : step.counters.similarity)
        found += each && *each < 0.95;
    }
    EXPECT_GT(refreshed, 3) << "than without drift";
    EXPECT_GT(found, 0);
  }
}

// In bf16 kernels have tensor maps, those that select, too: of each launch's
// own arguments (HostKernels.cpp).
TEST_F(DriftTest, HostDrivenSelectsByTensorMaps) {
  makeModel(tiny);
  bundle::Manifest manifest = gpuManifest({.dtypes = {"bf16"}});
  manifest.selections[0].cadence = drift(6);
  setRule(manifest, "columns", {0});
  setMeasures(manifest);
  startHostDriven(manifest, DType::BF16);
  int64_t refreshed = 0;
  for (const auto &step :
       record(*hostDriven, promptsOf({7, 30}), lengthsOf(16, 8, 16)).steps)
    refreshed += step.counters.refreshes > 0;
  EXPECT_GT(refreshed, 0);
}

// K and V of the rows that a pass leaves out are those of drift's latest step.
TEST_F(DriftTest, HostDrivenCachesByDrift) {
  makeModel(tiny);
  bundle::Manifest manifest = denseManifest();
  manifest.positions = {positions(bundle::Positions::Kind::Block)};
  bundle::Pass some;
  some.rows = 0;
  manifest.passes = {passOn(drift(6)), some};
  manifest.passes[0].when[0].cadence.inBlock = true;
  manifest.reuse.kv = true;
  setMeasures(manifest);
  for (double guidance : {0.0, 1.5}) {
    GenerateOptions options = lengthsOf(16, 8, 16);
    options.sampling.cfgScale = guidance;
    compareHostDriven(manifest, promptsOf({7, 30}), options);
    // The halves of a guided sequence compute the same rows, by one drift.
    int64_t drifted = 0;
    for (const auto &step :
         record(*hostDriven, promptsOf({7, 30}), options).steps) {
      EXPECT_EQ(step.counters.similarity.size(), 2u);
      EXPECT_EQ(step.counters.activeRows % (guidance > 0 ? 2 : 1), 0);
      for (const std::optional<double> &each : step.counters.similarity)
        drifted += each && *each < 0.95;
    }
    EXPECT_GT(drifted, 0);
  }
}

// The first masks and what became a token; all rows from the layer on that has
// drifted.
TEST_F(DriftTest, HostDrivenComputesFromTheLayerThatDrifts) {
  makeModel(tiny);
  bundle::Manifest manifest = denseManifest();
  manifest.positions = {positions(bundle::Positions::Kind::Undecoded, 4),
                        positions(bundle::Positions::Kind::Committed, 1),
                        positions(bundle::Positions::Kind::Union)};
  manifest.positions[2].of = {0, 1};
  manifest.reuse = {true, bundle::Reuse::Attention::Output, true};
  bundle::Cadence first;
  first.kind = bundle::Cadence::Kind::First;
  first.count = 1;
  manifest.passes = {passOn(first)};
  for (int64_t layer : {-2, -1}) {
    manifest.passes.push_back(passOn(drift(9)));
    manifest.passes.back().when[0].cadence.layer = layer;
    manifest.passes.back().layers = {{layer, -1}};
  }
  manifest.passes.emplace_back().rows = 2;
  setMeasures(manifest);
  compareHostDriven(manifest, promptsOf({7, 30}), lengthsOf(16, 16, 16));
  std::array<int64_t, 2> drifted = {0, 0};
  for (const auto &step :
       record(*hostDriven, promptsOf({7, 30}), lengthsOf(16, 16, 16)).steps) {
    EXPECT_EQ(step.counters.similarity.size(), 4u);
    for (size_t i = 0; i < step.counters.similarity.size(); ++i)
      drifted[i % 2] += step.counters.similarity[i].value_or(1) < 0.95;
  }
  EXPECT_GT(drifted[0], 0);
  EXPECT_GT(drifted[1], 0);
}

// The same by what the rows attend to, which is one launch more in the layers
// that are measured, of all rows or of gathered ones.
TEST_F(DriftTest, HostDrivenMeasuresWhatRowsAttendTo) {
  makeModel(tiny);
  bundle::Manifest columns = gpuManifest();
  columns.selections[0].cadence = drift(6, /*attention=*/true);
  setRule(columns, "columns", {0});
  bundle::Manifest window = denseManifest();
  window.positions = {positions(bundle::Positions::Kind::Undecoded, 4),
                      positions(bundle::Positions::Kind::Committed, 1),
                      positions(bundle::Positions::Kind::Union)};
  window.positions[2].of = {0, 1};
  window.reuse = {true, bundle::Reuse::Attention::Output, true};
  bundle::Cadence first;
  first.kind = bundle::Cadence::Kind::First;
  first.count = 1;
  window.passes = {passOn(first)};
  for (int64_t layer : {-2, -1}) {
    window.passes.push_back(passOn(drift(9, /*attention=*/true)));
    window.passes.back().when[0].cadence.layer = layer;
    window.passes.back().layers = {{layer, -1}};
  }
  window.passes.emplace_back().rows = 2;
  setMeasures(columns);
  setMeasures(window);
  for (const bundle::Manifest &manifest : {columns, window})
    for (double guidance : {0.0, 1.5}) {
      GenerateOptions options = lengthsOf(16, 16, 16);
      options.sampling.cfgScale = guidance;
      compareHostDriven(manifest, promptsOf({7, 30}), options);
      const Trace gpu = record(*hostDriven, promptsOf({7, 30}), options);
      const Trace host = onHost(manifest, promptsOf({7, 30}), options);
      int64_t found = 0, weighed = 0;
      for (size_t i = 0; i < gpu.steps.size(); ++i) {
        const StepCounters &counters = gpu.steps[i].counters;
        EXPECT_EQ(counters.lsePairs, host.steps[i].counters.lsePairs);
        weighed += counters.lsePairs > 0;
        for (const std::optional<double> &each : counters.similarity) {
          EXPECT_GT(each.value_or(1), 0);
          found += each && *each < 0.9999;
        }
      }
      EXPECT_GT(found, 0);
      EXPECT_GT(weighed, 8);
    }
}

// Which kernel measures, and whether any does, the manifest alone says. The
// reference takes what a bundle would be refused with.
TEST_F(DriftTest, WhatTheManifestSaysIsMeasured) {
  makeModel(tiny);
  bundle::Manifest manifest = gpuManifest();
  manifest.selections[0].cadence = drift(6, /*attention=*/true);
  setRule(manifest, "columns", {0});
  setMeasures(manifest);
  struct Found {
    int64_t pairs = 0, similar = 0;
  };
  auto run = [&] {
    Found found;
    for (const auto &step :
         onHost(manifest, promptsOf({7, 30}), lengthsOf(16, 16, 16)).steps) {
      found.pairs += step.counters.lsePairs;
      for (const std::optional<double> &each : step.counters.similarity)
        found.similar += each.has_value();
    }
    return found;
  };
  bundle::Phase &usual = manifest.rules[0].phases[1];
  ASSERT_EQ(usual.measures.size(), 1u);
  const Found columns = run();
  usual.measures[0].kernel = kernelNamed(manifest, "dense");
  const Found dense = run();
  EXPECT_GT(columns.pairs, 0);
  EXPECT_GT(dense.pairs, columns.pairs);
  EXPECT_GT(columns.similar, 0);
  EXPECT_GT(dense.similar, 0);
  usual.measures.clear();
  const Found none = run();
  EXPECT_EQ(none.pairs, 0);
  EXPECT_EQ(none.similar, 0);
}

} // namespace
