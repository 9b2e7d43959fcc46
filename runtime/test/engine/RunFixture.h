//===- RunFixture.h - Runs on the GPU and on the host -----------*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_TEST_ENGINE_RUNFIXTURE_H
#define HEDDLE_RUNTIME_TEST_ENGINE_RUNFIXTURE_H

#include "runtime/denoise/ModelEngine.h"
#include "runtime/engine/cuda/HostDrivenEngine.h"
#include "runtime/reference/ReferenceExecutor.h"
#include "runtime/test/engine/EngineFixture.h"

#include <cmath>

namespace heddle::rt::cuda::test {

inline bundle::Pass passOn(const bundle::Cadence &when) {
  bundle::Pass pass;
  pass.when.push_back({bundle::When::Kind::On, when});
  return pass;
}

inline bundle::Positions positions(bundle::Positions::Kind kind,
                                   int64_t count = 0) {
  bundle::Positions result;
  result.kind = kind;
  result.count = count;
  return result;
}

/// Dense attention alone: no selection is kept or refreshed.
inline bundle::Manifest denseManifest() {
  bundle::Manifest manifest = gpuManifest();
  manifest.selections.clear();
  manifest.kernels.resize(1);
  return manifest;
}

/// Every step of a run, as its observer saw it.
struct Trace {
  Generation generation;
  struct Step {
    int64_t rows, logitRows;
    std::vector<Commit> commits;
    StepCounters counters;
  };
  std::vector<Step> steps;
};

class RunTest : public EngineTest {
protected:
  static Trace record(StepEngine &engine, const Prompts &prompts,
                      const GenerateOptions &options) {
    Trace run;
    Result<Generation> done =
        generate(engine, prompts, options, [&](const StepRecord &step) {
          run.steps.push_back({step.rowsComputed,
                               step.logitRows,
                               {step.commits.begin(), step.commits.end()},
                               step.counters});
          return true;
        });
    EXPECT_OK(done);
    if (done)
      run.generation = std::move(*done);
    return run;
  }

  /// Of shifted logits, with two query heads a key head.
  void makeDream(int64_t layers) {
    makeModel({.layers = layers,
               .hidden = 256,
               .queryHeads = 4,
               .kvHeads = 2,
               .mlpHidden = 40,
               .vocab = 61,
               .dream = true});
  }

  /// The same run on the host, with attention by definition.
  Trace onHost(const bundle::Manifest &manifest, const Prompts &prompts,
               const GenerateOptions &options) {
    Result<std::unique_ptr<Model>> model = Model::load(folder->path, {});
    EXPECT_OK(model);
    auto executor = ReferenceExecutor::create(manifest, config, DType::F32);
    EXPECT_OK(executor);
    return record(*makeModelEngine(**model, **executor), prompts, options);
  }

  /// The engine that executes a schedule step by step.
  void startHostDriven(const bundle::Manifest &manifest,
                       DType dtype = DType::F32) {
    installKernels(manifest);
    hostDriven.reset();
    Result<DeviceWeights> loaded =
        DeviceWeights::load(device(), config, folder->path, {.dtype = dtype});
    ASSERT_OK(loaded);
    weights = std::move(*loaded);
    auto made = HostDrivenEngine::create(device(), weights, gpuBundle(manifest),
                                         config, dtype);
    ASSERT_OK(made);
    hostDriven = std::move(*made);
  }

  void TearDown() override {
    hostDriven.reset();
    EngineTest::TearDown();
  }

  /// Both, step by step.
  void compare(const bundle::Manifest &manifest, const Prompts &prompts,
               const GenerateOptions &options) {
    start(manifest);
    if (!HasFatalFailure())
      compare(*engine, manifest, prompts, options);
  }
  void compareHostDriven(const bundle::Manifest &manifest,
                         const Prompts &prompts,
                         const GenerateOptions &options) {
    startHostDriven(manifest);
    if (!HasFatalFailure())
      compare(*hostDriven, manifest, prompts, options);
  }
  void compare(StepEngine &on, const bundle::Manifest &manifest,
               const Prompts &prompts, const GenerateOptions &options) {
    Trace host = onHost(manifest, prompts, options);
    Trace gpu = record(on, prompts, options);
    EXPECT_EQ(gpu.generation.sequences, host.generation.sequences);
    ASSERT_EQ(gpu.steps.size(), host.steps.size());
    int64_t revoked = 0, edited = 0;
    for (size_t i = 0; i < gpu.steps.size(); ++i) {
      SCOPED_TRACE("step " + std::to_string(i + 1));
      EXPECT_EQ(gpu.steps[i].rows, host.steps[i].rows);
      EXPECT_EQ(gpu.steps[i].counters.pairs, host.steps[i].counters.pairs);
      EXPECT_EQ(gpu.steps[i].counters.densePairs,
                host.steps[i].counters.densePairs);
      EXPECT_EQ(gpu.steps[i].counters.scorePairs,
                host.steps[i].counters.scorePairs);
      EXPECT_EQ(gpu.steps[i].counters.refreshes,
                host.steps[i].counters.refreshes);
      EXPECT_EQ(gpu.steps[i].counters.queryRows,
                host.steps[i].counters.queryRows);
      EXPECT_EQ(gpu.steps[i].counters.ffnRows, host.steps[i].counters.ffnRows);
      const auto &found = gpu.steps[i].counters.similarity;
      const auto &expected = host.steps[i].counters.similarity;
      ASSERT_EQ(found.size(), expected.size());
      for (size_t s = 0; s < found.size(); ++s) {
        ASSERT_EQ(found[s].has_value(), expected[s].has_value());
        if (found[s])
          EXPECT_NEAR(*found[s], *expected[s], 1e-4);
      }
      const std::vector<Commit> &a = gpu.steps[i].commits;
      const std::vector<Commit> &b = host.steps[i].commits;
      ASSERT_EQ(a.size(), b.size());
      for (size_t c = 0; c < a.size(); ++c) {
        EXPECT_EQ(a[c].sequence, b[c].sequence);
        EXPECT_EQ(a[c].position, b[c].position);
        EXPECT_EQ(a[c].token, b[c].token);
        EXPECT_EQ(a[c].edited, b[c].edited);
        revoked += a[c].revoked;
        edited += a[c].edited;
        EXPECT_NEAR(a[c].confidence, b[c].confidence,
                    1e-4 * std::abs(b[c].confidence));
      }
    }
    EXPECT_EQ(revoked > 0, manifest.commit.revokes());
    EXPECT_EQ(edited > 0, manifest.commit.edits());
    // Without an observer nothing is copied back, and the tokens are the same.
    Result<Generation> unseen = generate(on, prompts, options, nullptr);
    ASSERT_OK(unseen);
    EXPECT_EQ(unseen->sequences, gpu.generation.sequences);
  }

  std::unique_ptr<HostDrivenEngine> hostDriven;
};

} // namespace heddle::rt::cuda::test

#endif // HEDDLE_RUNTIME_TEST_ENGINE_RUNFIXTURE_H
