//===- StepTest.cpp - What a step of the GPU's engine asks of the driver --===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/test/engine/EngineFixture.h"

#include <cstdlib>
#include <limits>

#if defined(__SANITIZE_ADDRESS__)
#define HEDDLE_LEAKS_ARE_CHECKED
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define HEDDLE_LEAKS_ARE_CHECKED
#endif
#endif
#ifdef HEDDLE_LEAKS_ARE_CHECKED
#include <sanitizer/lsan_interface.h>
#endif

using namespace heddle;
using namespace heddle::rt;
using namespace heddle::rt::cuda;
using namespace heddle::rt::cuda::test;

namespace {

class StepTest : public EngineTest {
protected:
  void SetUp() override {
    EngineTest::SetUp();
    makeModel({.layers = 2, .mlpHidden = 40, .vocab = 61});
  }

  static int calls(const char *entry) { return fakeDriver().calls[entry]; }
  static StepPlace place(int64_t step, int64_t stepsPerBlock) {
    return {.step = step,
            .block = (step - 1) / stepsPerBlock,
            .stepInBlock = (step - 1) % stepsPerBlock};
  }

  /// Calls of an entry point in each step of a run of 8 steps in one block.
  std::vector<int> callsPerStep(const char *entry, bool observed) {
    std::vector<int> counts;
    EXPECT_OK(engine->beginRun(promptsOf({7, 20}), lengthsOf(8, 8, 8)));
    for (int64_t step = 1; step <= 8; ++step) {
      int before = calls(entry);
      StepOutcome outcome;
      EXPECT_OK(engine->step(place(step, 8), observed ? &outcome : nullptr));
      counts.push_back(calls(entry) - before);
    }
    return counts;
  }
};

TEST_F(StepTest, OneRecordingForEveryKindOfStep) {
  bundle::Manifest manifest = gpuManifest();
  setRule(manifest, "columns", {0}); // refreshed at steps 1 and 5
  start(manifest);
  std::vector<int> captures = callsPerStep("cuStreamBeginCapture_v2", false);
  EXPECT_EQ(captures, (std::vector<int>{1, 1, 0, 0, 0, 0, 0, 0}));
  EXPECT_EQ(engine->recordings(), 2);
  EXPECT_EQ(calls("cuGraphLaunch"), 8);
  // The next run has other addresses.
  captures = callsPerStep("cuStreamBeginCapture_v2", false);
  EXPECT_EQ(captures, (std::vector<int>{1, 1, 0, 0, 0, 0, 0, 0}));
}

TEST_F(StepTest, KindsOfStepsAreWhatTheyLaunch) {
  bundle::Manifest manifest = gpuManifest();
  // Refreshed at 1, 5, 9 and at 1, 4, 7: four kinds of steps.
  setRule(manifest, "two_columns", {0, 1});
  manifest.selections[1].cadence.period = 3;
  bundle::Phase second = manifest.rules[0].phases[0];
  second.when.cadence = manifest.selections[1].cadence;
  manifest.rules[0].phases.insert(manifest.rules[0].phases.begin() + 1, second);
  start(manifest);
  ASSERT_OK(engine->planRun({7}, lengthsOf(8, 8, 8)));
  const DeviceSchedule &schedule = engine->steps();
  EXPECT_EQ(schedule.kindOf(2), schedule.kindOf(3));
  EXPECT_EQ(schedule.kindOf(4), schedule.kindOf(7));
  for (auto [a, b] : {std::pair(1, 2), {1, 4}, {1, 5}, {4, 5}, {2, 5}})
    EXPECT_NE(schedule.kindOf(a), schedule.kindOf(b)) << a << " and " << b;
  EXPECT_EQ(schedule.describe(1),
            "dense, refreshes columns0, refreshes columns1");
  EXPECT_EQ(schedule.describe(2), "two_columns");
}

TEST_F(StepTest, NothingIsCopiedToTheHostUnlessSomebodyLooks) {
  bundle::Manifest manifest = gpuManifest();
  setRule(manifest, "columns", {0});
  start(manifest);
  // The first step starts the block: the count of masks.
  EXPECT_EQ(callsPerStep("cuMemcpyDtoHAsync_v2", false),
            (std::vector<int>{1, 0, 0, 0, 0, 0, 0, 0}));
  // The first step also tries the head's product out.
  auto afterTheFirst = [&](const char *entry, bool observed) {
    std::vector<int> counts = callsPerStep(entry, observed);
    return std::vector<int>(counts.begin() + 1, counts.end());
  };
  EXPECT_EQ(afterTheFirst("cuStreamSynchronize", false),
            std::vector<int>(7, 0));
  EXPECT_EQ(callsPerStep("cuMemcpyDtoHAsync_v2", true),
            (std::vector<int>{2, 1, 1, 1, 1, 1, 1, 1}));
  // Nothing is allocated in a step either, and nothing copied to the device but
  // where the block begins.
  EXPECT_EQ(callsPerStep("cuMemAlloc_v2", true), std::vector<int>(8, 0));
  EXPECT_EQ(callsPerStep("cuMemHostAlloc", true), std::vector<int>(8, 0));
  EXPECT_EQ(afterTheFirst("cuMemcpyHtoDAsync_v2", true),
            std::vector<int>(7, 0));
}

TEST_F(StepTest, StepsWithoutAQuotaSkipTheHead) {
  start(gpuManifest());
  ASSERT_OK(engine->beginRun(promptsOf({7}), lengthsOf(2, 2, 4)));
  std::string drawn = rowSymbol(bundle::RowOp::Draw, "f32");
  for (int64_t step = 1; step <= 4; ++step) {
    StepOutcome outcome;
    ASSERT_OK(engine->step(place(step, 4), &outcome));
    EXPECT_EQ(outcome.rowsComputed, 9);
    EXPECT_EQ(outcome.logitRows, step <= 2 ? 3 - step : 0);
    EXPECT_EQ(outcome.commits.size(), step <= 2 ? 1u : 0u);
  }
  EXPECT_EQ(fakeDriver().launches[drawn], 2 + 1);
}

//===----------------------------------------------------------------------===//
// Errors
//===----------------------------------------------------------------------===//

TEST_F(StepTest, AFaultAtAnyStepIsSaidAndSticks) {
#ifdef HEDDLE_LEAKS_ARE_CHECKED
  // What is on a faulted GPU goes with the process.
  __lsan::ScopedDisabler faulted;
#endif
  for (bool observed : {true, false})
    for (int64_t at : {1, 2, 6}) {
      SCOPED_TRACE(at);
      fakeDriver().sticky = api::CUDA_SUCCESS;
      engine.reset();
      weights = DeviceWeights();
      close();
      start(gpuManifest());
      std::string symbol = rowSymbol(bundle::RowOp::Embed, "f32");
      auto embed = fakeDriver().kernels[symbol];
      int64_t step = 0;
      fakeDriver().kernels[symbol] = [&](const FakeDriver::Launch &launch) {
        embed(launch);
        if (++step == at)
          fakeDriver().sticky = api::CUDA_ERROR_ILLEGAL_ADDRESS;
      };
      StepObserver observer;
      if (observed)
        observer = [](const StepRecord &) { return true; };
      Result<Generation> run =
          generate(*engine, promptsOf({7}), lengthsOf(8, 4, 8), observer);
      EXPECT_ERROR(run, "CUDA_ERROR_ILLEGAL_ADDRESS");
      if (observed) {
        EXPECT_NE(
            run.error().text().find("step " + std::to_string(at) + " of 8"),
            std::string::npos)
            << run.error().text();
      }
      EXPECT_TRUE(device().broken());
      EXPECT_ERROR(engine->tokens(), "CUDA_ERROR_ILLEGAL_ADDRESS");
      EXPECT_ERROR(engine->beginRun(promptsOf({7}), lengthsOf(8, 4, 8)),
                   "CUDA_ERROR_ILLEGAL_ADDRESS");
      fakeCublasLt().objects = 0;
    }
}

// Every call of a run fails once; each time there is an error and nothing is
// left behind. Waiting fails for faults alone, which is tested above.
TEST_F(StepTest, AnyCallThatFailsEndsTheRunCleanly) {
  const char *entries[] = {
      "cuMemAlloc_v2",           "cuMemHostAlloc",
      "cuMemcpyHtoDAsync_v2",    "cuMemcpyDtoHAsync_v2",
      "cuMemcpyDtoDAsync_v2",    "cuLaunchKernel",
      "cuStreamBeginCapture_v2",

      "cuGraphLaunch",           "cuMemGetInfo_v2",
      "cuMemsetD8Async",         "cuGraphInstantiateWithFlags"};
  bundle::Manifest manifest = gpuManifest();
  setRule(manifest, "columns", {0});
  Prompts prompts = promptsOf({7});
  GenerateOptions options = lengthsOf(4, 2, 4);
  StepObserver observer = [](const StepRecord &) { return true; };
  for (const char *entry : entries) {
    SCOPED_TRACE(entry);
    start(manifest);
    int before = calls(entry);
    ASSERT_OK(generate(*engine, prompts, options, observer));
    int made = calls(entry) - before;
    ASSERT_GT(made, 0);
    int stride = std::max(1, made / 3);
    for (int after = 0; after < made; after += stride) {
      fakeDriver().failures[entry] = {api::CUDA_ERROR_INVALID_VALUE,
                                      calls(entry) + after};
      EXPECT_ERROR(generate(*engine, prompts, options, observer), entry);
      fakeDriver().failures.clear();
    }
    EXPECT_FALSE(device().broken());
    ASSERT_OK(generate(*engine, prompts, options, observer));
  }
}

TEST_F(StepTest, LogitsThatAreNoNumbersAreSaidWithTheirPlace) {
  for (bool observed : {true, false}) {
    start(gpuManifest());
    // One weight of the final norm.
    auto *norm = reinterpret_cast<float *>(weights.finalNorm);
    norm[3] = std::numeric_limits<float>::quiet_NaN();
    StepObserver observer;
    if (observed)
      observer = [](const StepRecord &) { return true; };
    Result<Generation> run =
        generate(*engine, promptsOf({7}), lengthsOf(4, 4, 4), observer);
    EXPECT_ERROR(run, "not all finite numbers");
    if (observed) {
      EXPECT_NE(run.error().text().find("sequence 0, position 10"),
                std::string::npos)
          << run.error().text();
    }
    EXPECT_FALSE(device().broken());
  }
}

TEST_F(StepTest, ARunNeedsAModel) {
  DeviceWeights none;
  auto made = CudaEngine::create(device(), none, gpuBundle(gpuManifest()),
                                 config, DType::F32, {});
  ASSERT_OK(made);
  EXPECT_ERROR((*made)->beginRun(promptsOf({3}), lengthsOf(4, 4, 4)),
               "before its model was loaded");
  EXPECT_ERROR((*made)->tokens(), "no run");
}

//===----------------------------------------------------------------------===//
// Bundles that do not fit
//===----------------------------------------------------------------------===//

class FitTest : public StepTest {
protected:
  Result<std::unique_ptr<CudaEngine>> make(const BundleShape &shape,
                                           DType dtype = DType::BF16) {
    return CudaEngine::create(device(), weights, gpuBundle(gpuManifest(shape)),
                              config, dtype, {});
  }
};

TEST_F(FitTest, AnotherArchitecture) {
  EXPECT_ERROR(make({.gpu = "sm_100"}), "compile the schedule with");
  fakeDriver().major = 8;
  close();
  EXPECT_ERROR(make({.gpu = "sm_90a"}), "compute capability 8.0");
}

TEST_F(FitTest, AnotherElementType) {
  EXPECT_ERROR(make({.dtypes = {"bf16"}}, DType::F32), "--dtype=f32");
  EXPECT_ERROR(make({.dtypes = {"f32", "bf16"}}, DType::F16), "--dtype=f16");
}

TEST_F(FitTest, AnotherHeadDim) {
  EXPECT_ERROR(make({.headDims = {128}}), "--head-dim=64");
}

TEST_F(FitTest, WidthsThatAreNotWholeVectors) {
  makeModel({.layers = 1, .mlpHidden = 44});
  EXPECT_ERROR(make({}), "multiples of 8");
}

TEST_F(FitTest, AFailedLoadLeavesNothingBehind) {
  fakeDriver().jitLog = "ptxas error : something";
  EXPECT_ERROR(make({}), "ptxas error : something");
}

//===----------------------------------------------------------------------===//
// Row kernels
//===----------------------------------------------------------------------===//

// A launch passes the struct's fields one by one; the kernel sees them in order
// with their sizes.
TEST_F(StepTest, ParametersOfRowKernelsAreTheFieldsOfTheirStruct) {
  start(gpuManifest());
  Result<RowKernels> rows = RowKernels::bind(
      engine->steps().manifest(), engine->steps().code(), DType::F32);
  ASSERT_OK(rows);
  std::vector<FakeDriver::Launch> seen;
  auto watch = [&](bundle::RowOp op) {
    fakeDriver().kernels[rowSymbol(op, "f32")] =
        [&](const FakeDriver::Launch &launch) { seen.push_back(launch); };
  };
  watch(bundle::RowOp::Draw);
  watch(bundle::RowOp::RmsNorm);
  int32_t token = 0, status = 0;
  double confidence = 0;
  heddle::abi::DrawArgs draw = {};
  draw.vocab = 61;
  draw.first = 3;
  draw.temperature = 0.5;
  draw.cfgScale = 1.25;
  draw.seed = 0xFFFFFFFFFFFFFFFF;
  draw.eosToken = -1;
  draw.eotToken = 7;
  draw.token = &token;
  draw.confidence = &confidence;
  draw.status = &status;
  ASSERT_OK((*rows)(engine->queue(), 5, draw));
  ASSERT_OK((*rows)(engine->queue(), 0, draw)); // nothing to do
  heddle::abi::RmsNormArgs norm = {};
  norm.shift = int64_t(1) << 40;
  norm.width = 64;
  norm.eps = 1e-5;
  ASSERT_OK((*rows)(engine->queue(), int64_t(1) << 20, norm));
  ASSERT_OK(engine->queue().synchronize());
  ASSERT_EQ(seen.size(), 2u);
  EXPECT_EQ(seen[0].grid[0], 5);
  EXPECT_EQ(seen[0].parameter<int64_t>(2), 61);
  EXPECT_EQ(seen[0].parameter<int64_t>(4), 3);
  EXPECT_EQ(seen[0].parameter<double>(9), 0.5);
  EXPECT_EQ(seen[0].parameter<double>(10), 1.25);
  EXPECT_EQ(seen[0].parameter<uint64_t>(11), 0xFFFFFFFFFFFFFFFF);
  EXPECT_EQ(seen[0].parameter<int32_t>(13), -1);
  EXPECT_EQ(seen[0].parameter<int32_t>(14), 7);
  EXPECT_EQ(seen[0].parameter<int32_t *>(15), &token);
  EXPECT_EQ(seen[0].parameter<int32_t *>(17), &status);
  EXPECT_EQ(seen[1].grid[0], int64_t(1) << 20);
  EXPECT_EQ(seen[1].parameter<int64_t>(5), int64_t(1) << 40);
  EXPECT_EQ(seen[1].parameter<double>(7), 1e-5);
}

TEST_F(StepTest, RotatesInTheTypeThatTheModelRotatesIn) {
  for (bool full : {true, false}) {
    config.fullPrecisionRope = full;
    start(gpuManifest());
    std::string symbol = rowSymbol(bundle::RowOp::Rotate, "f32");
    auto rotate = fakeDriver().kernels[symbol];
    std::vector<int64_t> seen;
    fakeDriver().kernels[symbol] = [&](const FakeDriver::Launch &launch) {
      rotate(launch);
      seen.push_back(launch.parameter<int64_t>(7));
    };
    ASSERT_OK(generate(*engine, promptsOf({7}), lengthsOf(2, 2, 2), {}));
    ASSERT_FALSE(seen.empty());
    EXPECT_EQ(seen, std::vector<int64_t>(seen.size(), full ? 0 : 1));
  }
}

} // namespace
