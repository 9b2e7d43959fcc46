//===- EngineFixture.h - A model and an engine on the fake GPU --*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_TEST_ENGINE_ENGINEFIXTURE_H
#define HEDDLE_RUNTIME_TEST_ENGINE_ENGINEFIXTURE_H

#include "runtime/denoise/Denoise.h"
#include "runtime/engine/cuda/Engine.h"
#include "runtime/test/device/cuda/Fixture.h"
#include "runtime/test/engine/HostKernels.h"
#include "runtime/test/engine/TestBundle.h"
#include "runtime/test/model/TinyModel.h"

#include <memory>
#include <optional>
#include <vector>

namespace heddle::rt::cuda::test {

/// Models of odd widths: one query head a key/value head, and two.
inline constexpr rt::test::TinyShape tiny = {.mlpHidden = 40, .vocab = 61};
inline constexpr rt::test::TinyShape grouped = {.layers = 2,
                                                .hidden = 256,
                                                .queryHeads = 4,
                                                .kvHeads = 2,
                                                .mlpHidden = 40,
                                                .vocab = 61};

using Prompts = std::vector<std::vector<int32_t>>;

/// A tiny model on the fake GPU; the bundle's kernels have code.
class EngineTest : public FakeTest {
protected:
  void SetUp() override;
  void TearDown() override;

  /// Writes a model's folder and reads its shape.
  void makeModel(const rt::test::TinyShape &shape, unsigned seed = 1);
  /// Puts the model on the GPU and makes the engine of a manifest. Of two
  /// proposals of the fake cuBLASLt one is left: nothing is timed.
  void start(const bundle::Manifest &manifest, DType dtype = DType::F32,
             const GemmOptions &products = {.proposals = 2});
  /// Prompts of these lengths, without mask tokens.
  Prompts promptsOf(const std::vector<int64_t> &lengths) const;

  /// The model's folder, until the test ends.
  std::optional<rt::test::TemporaryFolder> folder;
  ModelConfig config;
  DeviceWeights weights;
  std::unique_ptr<CudaEngine> engine;
};

inline GenerateOptions lengthsOf(int64_t gen, int64_t block, int64_t steps) {
  return {
      .genLength = gen, .steps = steps, .blockLength = block, .sampling = {}};
}

} // namespace heddle::rt::cuda::test

#endif // HEDDLE_RUNTIME_TEST_ENGINE_ENGINEFIXTURE_H
