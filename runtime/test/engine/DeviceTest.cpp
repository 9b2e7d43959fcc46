//===- DeviceTest.cpp - Devices by name, and what a run will take ---------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/engine/Device.h"

#include "runtime/engine/cuda/CudaDevice.h"
#include "runtime/test/engine/EngineFixture.h"

#include <set>

using namespace heddle;
using namespace heddle::rt;
using namespace heddle::rt::cuda;
using namespace heddle::rt::cuda::test;

namespace {

TEST(DeviceName, IsCpuOrAGpu) {
  for (const char *name : {"cpu", "cuda", "cuda:0", "cuda:17"})
    EXPECT_OK(checkDeviceName(name));
  for (const char *name : {"", "gpu", "cuda:", "cuda:-1", "cuda:1x", "cuda0",
                           "cuda: 1", "cuda:99999999999", "CUDA", "cpu:0"})
    EXPECT_ERROR(checkDeviceName(name), "expected cpu, cuda or cuda:N");
}

class GpuTest : public EngineTest {
protected:
  void SetUp() override {
    EngineTest::SetUp();
    makeModel({.layers = 2, .mlpHidden = 40, .vocab = 61});
  }
  void TearDown() override {
    engineOf.reset();
    opened.reset();
    EngineTest::TearDown();
  }

  Result<std::unique_ptr<Device>> open(DType dtype = DType::BF16) {
    device();
    return makeDevice({.name = "cuda", .dtype = dtype}, std::move(context),
                      config);
  }
  void openAndBind(const bundle::Manifest &manifest) {
    auto made = open();
    ASSERT_OK(made);
    opened = std::move(*made);
    auto bound = opened->engine(gpuBundle(manifest));
    ASSERT_OK(bound);
    engineOf = std::move(*bound);
  }

  std::unique_ptr<Device> opened;
  std::unique_ptr<StepEngine> engineOf;
};

TEST_F(GpuTest, WithoutCublasLtThereIsNoDevice) {
  setenv("HEDDLE_CUBLASLT_PATH", "/nowhere/libcublasLt.so.12", 1);
  auto made = open();
  EXPECT_ERROR(made, "cuBLASLt, NVIDIA's library for matrix products");
  EXPECT_NE(made.error().text().find("HEDDLE_CUBLASLT_PATH"),
            std::string::npos);
  fakeCublasLt().createStatus = 1;
  setenv("HEDDLE_CUBLASLT_PATH", fakeCublasLtFile().c_str(), 1);
  start(gpuManifest());
  EXPECT_ERROR(engine->beginRun(promptsOf({3}), lengthsOf(4, 4, 4)),
               "could not be started");
}

TEST_F(GpuTest, AModelFromLoadToTokens) {
  bundle::Manifest manifest = gpuManifest();
  setRule(manifest, "columns", {0});
  installKernels(manifest);
  openAndBind(manifest);
  if (HasFatalFailure())
    return;
  EXPECT_EQ(opened->description(),
            "Fake GPU (device 0, compute capability 9.0)");
  EXPECT_EQ(opened->weightBytes(), 0);
  auto memory = opened->checkRun(*engineOf, {3, 5}, lengthsOf(4, 4, 4));
  ASSERT_OK(memory);
  ASSERT_OK(opened->load(folder->path, {.dtype = DType::BF16}));
  EXPECT_EQ(opened->weightBytes(), memory->weights);
  // What was foretold is what is taken.
  int64_t before = fakeDriver().allocated;
  int64_t refreshes = 0;
  Result<Generation> run =
      generate(*engineOf, promptsOf({3, 5}), lengthsOf(4, 4, 4),
               [&](const StepRecord &record) {
                 const int64_t keys = config.layers * (3 + 4 + 5 + 4);
                 EXPECT_EQ(record.counters.attendedKeys, keys);
                 EXPECT_EQ(record.counters.scoredKeys,
                           record.counters.refreshes > 0 ? keys : 0);
                 refreshes += record.counters.refreshes;
                 return true;
               });
  ASSERT_OK(run);
  EXPECT_GT(refreshes, 0);
  EXPECT_EQ(fakeDriver().allocated - before, memory->run);
  ASSERT_OK(opened->loadRandom(1));
  ASSERT_OK(
      generate(*engineOf, promptsOf({3, 5}), lengthsOf(4, 4, 4), nullptr));
}

TEST_F(GpuTest, ARunThatDoesNotFitIsRefusedBeforeTheModelIsLoaded) {
  fakeDriver().freeBytes = int64_t(300) << 20;
  openAndBind(gpuManifest());
  if (HasFatalFailure())
    return;
  auto memory = opened->checkRun(*engineOf, {3}, lengthsOf(4, 4, 4));
  EXPECT_ERROR(memory, "Fake GPU (device 0, compute capability 9.0) has ");
  for (const char *part : {"this run", "the model needs",
                           "workspace of "
                           "products",
                           "logits"})
    EXPECT_NE(memory.error().text().find(part), std::string::npos)
        << memory.error().text();
  EXPECT_EQ(fakeDriver().calls["cuMemAlloc_v2"], 0);
}

TEST_F(GpuTest, RunsThatNoMachineHoldsAreErrorsNotOverflows) {
  openAndBind(gpuManifest());
  if (HasFatalFailure())
    return;
  // Lengths that the loop's checks would have refused.
  GenerateOptions options = lengthsOf(1 << 20, 1 << 20, 1 << 20);
  EXPECT_ERROR(
      opened->checkRun(*engineOf, {(int64_t(1) << 30) - (1 << 20)}, options),
      "free");
  EXPECT_ERROR(opened->checkRun(*engineOf, {int64_t(1) << 30}, options),
               "tokens");
  EXPECT_ERROR(opened->checkRun(*engineOf,
                                std::vector<int64_t>(2100, int64_t(1) << 20),
                                options),
               "positions in all");
  EXPECT_ERROR(opened->checkRun(*engineOf, std::vector<int64_t>(70000, 1),
                                lengthsOf(1, 1, 1)),
               "at most 65535");
}

//===----------------------------------------------------------------------===//
// The plan
//===----------------------------------------------------------------------===//

class PlanTest : public EngineTest {
protected:
  /// Bytes by name, those of one name added up.
  std::map<std::string, int64_t> plan(const std::vector<int64_t> &prompts,
                                      const GenerateOptions &options) {
    Result<ArenaPlan> planned = engine->planRun(prompts, options);
    EXPECT_OK(planned);
    std::map<std::string, int64_t> bytes;
    for (const ArenaPlan::Buffer &buffer : planned->buffers())
      bytes[buffer.name] += buffer.bytes;
    return bytes;
  }
};

TEST_F(PlanTest, NamesAndBytes) {
  makeModel(grouped);
  bundle::Manifest manifest = gpuManifest();
  setRule(manifest, "columns", {0});
  start(manifest, DType::BF16);
  auto bytes = plan({10, 20}, lengthsOf(16, 8, 8));
  const int64_t rows = 26 + 36;
  EXPECT_EQ(bytes["residual stream"], rows * 256 * 2);
  EXPECT_EQ(bytes["residual update"], rows * 256 * 2);
  EXPECT_EQ(bytes["queries, keys and values"], rows * 512 * 2);
  EXPECT_EQ(bytes["attention output"], rows * 256 * 2);
  EXPECT_EQ(bytes["gate and up projection"], rows * 80 * 2);
  EXPECT_EQ(bytes["rotation tables"], 2 * 36 * 32 * 4);
  EXPECT_EQ(bytes["log-sum-exp"], rows * 4 * 4);
  EXPECT_EQ(bytes["tokens"], rows * 4);
  EXPECT_EQ(bytes["logits"], 128 * 64 * 2);
  EXPECT_EQ(bytes["unconditional logits"], 0);
  // Half of 26 and of 36 keys in 2 bytes, rows of 16: 32 and 48; 2 and 3
  // groups of 16 rows.
  EXPECT_EQ(bytes["index layouts"], 2 * 4 * (2 * 32 + 3 * 48));
  EXPECT_EQ(engine->listBytes(), bytes["index layouts"]);
}

TEST_F(PlanTest, GuidanceDoublesRowsNotCandidates) {
  makeModel({.layers = 1, .mlpHidden = 40, .vocab = 61});
  start(gpuManifest(), DType::BF16);
  GenerateOptions options = lengthsOf(16, 8, 8);
  auto plain = plan({10}, options);
  options.sampling.cfgScale = 1;
  auto guided = plan({10}, options);
  for (const char *name : {"residual stream", "tokens", "positions"})
    EXPECT_EQ(guided[name], 2 * plain[name]) << name;
  EXPECT_EQ(guided["results"], plain["results"]);
  EXPECT_EQ(guided["unconditional logits"], guided["logits"]);
}

// Buffers of different moments of a step lie at one place.
TEST_F(PlanTest, TheMlpLiesWhereAttentionWas) {
  makeModel({.layers = 1, .mlpHidden = 512, .vocab = 61});
  start(gpuManifest(), DType::BF16);
  Result<ArenaPlan> planned = engine->planRun({1000}, lengthsOf(16, 8, 8));
  ASSERT_OK(planned);
  Result<int64_t> total = planned->layout();
  ASSERT_OK(total);
  EXPECT_LT(*total, planned->unsharedBytes());
  std::map<std::string, ArenaPlan::Buffer> byName;
  for (const ArenaPlan::Buffer &buffer : planned->buffers())
    byName[buffer.name] = buffer;
  const ArenaPlan::Buffer &mlp = byName["gate and up projection"];
  const ArenaPlan::Buffer &qkv = byName["queries, keys and values"];
  EXPECT_LT(qkv.offset, mlp.offset + mlp.bytes);
  EXPECT_LT(mlp.offset, qkv.offset + qkv.bytes);
}

// A vocabulary as LLaDA's: logits come in waves of at most 1 GiB.
TEST_F(PlanTest, LogitsInWaves) {
  makeModel({.layers = 1, .mlpHidden = 40, .vocab = 61});
  config.vocabSize = 126464;
  auto made = CudaEngine::create(device(), weights, gpuBundle(gpuManifest()),
                                 config, DType::BF16, {});
  ASSERT_OK(made);
  engine = std::move(*made);
  auto bytes = plan({100}, lengthsOf(16384, 16384, 16384));
  EXPECT_LE(bytes["logits"], int64_t(1) << 30);
  EXPECT_GT(bytes["logits"], int64_t(1) << 29);
  EXPECT_EQ(bytes["logits"] % (128 * 126464 * 2), 0);
}

} // namespace
