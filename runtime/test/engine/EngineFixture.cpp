//===- EngineFixture.cpp - A model and an engine on the fake GPU ----------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/test/engine/EngineFixture.h"

#include <cstdlib>
#include <random>

namespace heddle::rt::cuda::test {

void EngineTest::SetUp() {
  FakeTest::SetUp();
  setenv("HEDDLE_CUBLASLT_PATH", fakeCublasLtFile().c_str(), 1);
}

void EngineTest::TearDown() {
  engine.reset();
  weights = DeviceWeights();
  unsetenv("HEDDLE_CUBLASLT_PATH");
  FakeTest::TearDown();
}

void EngineTest::makeModel(const rt::test::TinyShape &shape, unsigned seed) {
  folder.emplace();
  rt::test::makeTinyModel(shape, DType::F32, seed).write(*folder);
  Result<ModelConfig> loaded = ModelConfig::load(folder->path);
  ASSERT_OK(loaded);
  config = *loaded;
}

void EngineTest::start(const bundle::Manifest &manifest, DType dtype,
                       const GemmOptions &products) {
  installKernels(manifest);
  LoadOptions options;
  options.dtype = dtype;
  engine.reset();
  Result<DeviceWeights> loaded =
      DeviceWeights::load(device(), config, folder->path, options);
  ASSERT_OK(loaded);
  weights = std::move(*loaded);
  auto made = CudaEngine::create(device(), weights, gpuBundle(manifest), config,
                                 dtype, products);
  ASSERT_OK(made);
  engine = std::move(*made);
}

Prompts EngineTest::promptsOf(const std::vector<int64_t> &lengths) const {
  std::mt19937 random(7);
  Prompts prompts;
  for (int64_t length : lengths) {
    std::vector<int32_t> &prompt = prompts.emplace_back(length);
    for (int32_t &token : prompt)
      token = static_cast<int32_t>(random() % (config.vocabSize - 1));
  }
  return prompts;
}

} // namespace heddle::rt::cuda::test
