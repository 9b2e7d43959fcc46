//===- RandomProgramTest.cpp - Executor against reference -----------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Random manifests over random ragged batches: outputs, selections and counters
// of the executor equal those of the reference executor, step by step, and are
// bit for bit the same for every number of threads.
//
//===----------------------------------------------------------------------===//

#include "runtime/base/Parallel.h"
#include "runtime/reference/ReferenceExecutor.h"
#include "runtime/test/schedule/HandBundle.h"
#include "runtime/test/schedule/Tensors.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <limits>
#include <set>

using namespace heddle;
using namespace heddle::rt;
using bundle::Cadence;
using bundle::Manifest;
using bundle::Phase;
using bundle::When;

namespace {

class Generator {
public:
  explicit Generator(uint32_t seed) : random(seed) {}

  int64_t between(int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(random);
  }
  bool chance(int64_t percent) { return between(1, 100) <= percent; }

  Cadence cadence() {
    Cadence result;
    switch (between(0, 6)) {
    case 0:
      break;
    case 1:
      result.kind = Cadence::Kind::Every;
      result.period = between(1, 4);
      break;
    case 2:
      result.kind = Cadence::Kind::First;
      result.count = between(1, 3);
      break;
    case 3:
      result.kind = Cadence::Kind::At;
      result.step = between(1, 6);
      break;
    case 4:
      result.kind = Cadence::Kind::Uniform;
      break;
    case 5:
      result.kind = Cadence::Kind::Random;
      result.seed = between(0, 1000);
      break;
    default:
      result.kind = Cadence::Kind::Power;
      break;
    }
    if (result.kind >= Cadence::Kind::Uniform) {
      result.fraction = {between(1, 10), 10};
      for (int64_t divisor : {2, 5})
        while (result.fraction.num % divisor == 0 &&
               result.fraction.den % divisor == 0) {
          result.fraction.num /= divisor;
          result.fraction.den /= divisor;
        }
      result.count = between(1, 5);
    }
    return result;
  }

  /// Phases whose reads some phase of the same rule refreshes, or layers before
  /// do: `refreshed`.
  std::vector<Phase> phases(const Manifest &manifest,
                            std::set<int64_t> refreshed = {}) {
    auto kernel = [&](const char *name) {
      return test::kernelNamed(manifest, name);
    };
    std::vector<Phase> result;
    for (int64_t count = between(0, 2); count > 0; --count) {
      Phase phase;
      phase.when.kind = chance(75) ? When::Kind::On : When::Kind::Before;
      int64_t of = between(0, 1);
      phase.when.cadence =
          chance(75) ? manifest.selections[of].cadence : cadence();
      phase.attention = kernel(chance(70)   ? "dense_lse"
                               : chance(50) ? "sinks3_lse"
                                            : "share_lse");
      for (int64_t selection : {0, 1})
        if (chance(70)) {
          phase.refreshes.push_back(
              {selection, kernel(selection == 0 ? "select16" : "select32")});
          refreshed.insert(selection);
        }
      result.push_back(phase);
    }
    std::vector<const char *> readers = {"dense", "window6", "window5_sinks2",
                                         "window5_share"};
    if (refreshed.count(0))
      readers = {"columns16", "columns16_window6_sinks2"};
    if (refreshed.count(1))
      readers.push_back("columns32");
    if (refreshed.size() == 2)
      readers.push_back("columns16_columns32_lse");
    Phase otherwise;
    otherwise.attention = kernel(readers[between(0, readers.size() - 1)]);
    result.push_back(otherwise);
    return result;
  }

  Manifest manifest(int64_t layers) {
    Manifest result = test::handManifest();
    for (bundle::Selection &selection : result.selections) {
      selection.cadence = cadence();
      static constexpr bundle::Ratio ratios[] = {
          {1, 1000}, {1, 5}, {1, 2}, {4, 5}, {1, 1}};
      selection.keep = ratios[between(0, 4)];
      selection.rule = static_cast<bundle::KeepRule>(between(0, 2));
    }
    result.rules.clear();
    int64_t split = chance(50) ? between(0, layers - 1) : -1;
    std::set<int64_t> refreshed; // in layer 0, for those after it
    if (split >= 0) {
      bundle::Rule &rule = result.rules.emplace_back();
      rule.isDefault = false;
      rule.firstLayer = chance(50) ? split : split - layers;
      rule.lastLayer = chance(50) ? split : split - layers;
      rule.phases = phases(result);
      if (split == 0 && rule.firstLayer == 0 && rule.lastLayer == 0)
        for (const Phase &phase : rule.phases)
          for (const Phase::Refresh &refresh : phase.refreshes)
            refreshed.insert(refresh.selection);
    }
    result.rules.emplace_back().phases = phases(result, refreshed);
    return result;
  }

  std::mt19937 random;
};

/// Fails unless every list holds keys of the largest scores, up to rounding.
void expectLargest(const SelectionView &view, std::span<const double> scores,
                   int64_t heads, int64_t n) {
  for (int64_t list = 0; list < heads * view.groups; ++list) {
    std::vector<bool> kept(n);
    double least = std::numeric_limits<double>::infinity(), most = 0;
    for (int64_t k = 0; k < view.keep; ++k) {
      int32_t key = view.indices[list * view.keep + k];
      ASSERT_TRUE(key >= 0 && key < n && !kept[key]);
      kept[key] = true;
    }
    for (int64_t key = 0; key < n; ++key) {
      double score = scores[list * n + key];
      if (kept[key])
        least = std::min(least, score);
      else
        most = std::max(most, score);
    }
    EXPECT_GE(least, most * (1 - 1e-5));
  }
}

void executeBoth(uint32_t seed, int64_t &executed) {
  SCOPED_TRACE("seed " + std::to_string(seed));
  Generator generate(seed);
  ModelConfig config;
  config.layers = generate.between(1, 3);
  config.kvHeads = generate.between(1, 2);
  config.queryHeads = config.kvHeads * generate.between(1, 3);
  config.headDim = test::handHeadDim;
  DType dtype = generate.chance(50) ? DType::F32 : DType::BF16;
  Manifest manifest = generate.manifest(config.layers);
  std::vector<int64_t> lengths;
  for (int64_t count = generate.between(1, 4); count > 0; --count)
    lengths.push_back(generate.between(1, 40));
  int64_t steps = generate.between(1, 9);

  bundle::Bundle bundle = test::makeHandBundle(test::handManifest());
  auto one = ScheduleExecutor::create(manifest, bundle, config, dtype);
  auto three = ScheduleExecutor::create(manifest, bundle, config, dtype);
  auto reference = ReferenceExecutor::create(manifest, config, dtype);
  ASSERT_TRUE(one) << one.error().text();
  ASSERT_TRUE(three) << three.error().text();
  ASSERT_TRUE(reference) << reference.error().text();
  test::States states(test::shapesOf(lengths));
  auto begin = [&](ScheduleExecutor &executor) {
    return static_cast<bool>(executor.beginRun(states.shapes, steps, steps));
  };
  setThreadCount(3);
  bool accepted = begin(**three);
  setThreadCount(1);
  EXPECT_EQ(accepted, begin(**one));
  EXPECT_EQ(accepted, begin(**reference));
  executed += accepted;
  if (!accepted)
    return;

  int64_t visited = 0;
  PackedBatch batch = test::packed(lengths);
  for (int64_t step = 1; step <= steps; ++step) {
    for (ScheduleExecutor *executor :
         {one->get(), three->get(),
          static_cast<ScheduleExecutor *>(reference->get())})
      ASSERT_TRUE(executor->beginStep(states.all(step, steps)));
    for (int64_t layer = 0; layer < config.layers; ++layer) {
      test::Tensors tensors(config, batch.rows(), generate.between(0, 9), dtype,
                            generate.random);
      std::vector<std::byte> expected, serial, parallel;
      Status status =
          test::executeLayer(**reference, layer, batch, tensors.into(expected));
      ASSERT_TRUE(static_cast<bool>(status)) << status.error().text();
      setThreadCount(1);
      ASSERT_TRUE(
          test::executeLayer(**one, layer, batch, tensors.into(serial)));
      setThreadCount(3);
      ASSERT_TRUE(
          test::executeLayer(**three, layer, batch, tensors.into(parallel)));
      EXPECT_EQ(serial, parallel) << "step " << step << " layer " << layer;
      EXPECT_LT(tensors.distance(serial, expected),
                dtype == DType::F32 ? 1e-5 : 1e-2)
          << "step " << step << " layer " << layer;

      for (int64_t s = 0; s < batch.sequences(); ++s) {
        auto views = (*one)->selections(layer, s);
        ASSERT_TRUE(views);
        for (const SelectionView &view : *views) {
          if (!view.indices)
            continue;
          size_t size = config.queryHeads * view.groups * view.keep;
          std::span<const int32_t> indices(view.indices, size);
          // A list from an earlier step is compared again, with its scores.
          expectLargest(view, (*reference)->scores(layer, s, view.selection),
                        config.queryHeads, lengths[s]);
          ASSERT_TRUE((*reference)->adopt(layer, s, view.selection, indices));
        }
      }
    }
    StepCounters a = (*one)->counters(), b = (*reference)->counters();
    EXPECT_EQ(a.pairs, (*reference)->visitedPairs() - visited)
        << "step " << step;
    visited = (*reference)->visitedPairs();
    EXPECT_EQ(a.densePairs, b.densePairs);
    EXPECT_EQ(a.scorePairs, b.scorePairs);
    EXPECT_EQ(a.refreshes, b.refreshes);
  }
}

} // namespace

TEST(RandomProgram, ExecutorEqualsReference) {
  constexpr uint32_t programs = 300;
  int64_t executed = 0;
  // Failures name the seed of their program; HEDDLE_SEED repeats only that one.
  if (const char *seed = std::getenv("HEDDLE_SEED")) {
    executeBoth(static_cast<uint32_t>(std::strtoul(seed, nullptr, 10)),
                executed);
    return;
  }
  for (uint32_t seed = 1; seed <= programs; ++seed) {
    executeBoth(seed, executed);
    if (testing::Test::HasFatalFailure())
      break;
  }
  setThreadCount(0);
  EXPECT_GT(executed, programs / 3) << "too few programs were executable";
  EXPECT_LT(executed, programs) << "none was refused";
}
