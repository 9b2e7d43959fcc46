//===- WeightsTest.cpp - A model's weights arrive where they belong -------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/reference/Reference.h"
#include "runtime/test/engine/EngineFixture.h"

#include <filesystem>
#include <fstream>
#include <utility>

using namespace heddle;
using namespace heddle::rt;
using namespace heddle::rt::cuda;
using namespace heddle::rt::cuda::test;
using rt::test::TinyModel;

namespace {

class WeightsTest : public EngineTest {
protected:
  /// The tensors' values one after the other, as the device has them.
  void expectTensors(DevicePtr at, DType dtype, const TinyModel &model,
                     const std::vector<std::string> &names) {
    int64_t index = 0;
    for (const std::string &name : names)
      for (float value : model.tensors.at("model.transformer." + name).values) {
        double expected = 0;
        reference::store(&expected, 0, dtype, value);
        ASSERT_EQ(reference::load(reinterpret_cast<void *>(at), index, dtype),
                  reference::load(&expected, 0, dtype))
            << name << ", element " << index;
        ++index;
      }
  }

  void expectModel(const DeviceWeights &loaded, DType dtype,
                   const TinyModel &model, int64_t layers) {
    expectTensors(loaded.embedding, dtype, model, {"wte.weight"});
    expectTensors(loaded.finalNorm, dtype, model, {"ln_f.weight"});
    ASSERT_EQ(loaded.layers.size(), static_cast<size_t>(layers));
    for (int64_t i = 0; i < layers; ++i) {
      const LayerAddresses &layer = loaded.layers[i];
      std::string block = "blocks." + std::to_string(i) + ".";
      auto expect = [&](DevicePtr at, std::vector<std::string> names,
                        const char *what = ".weight") {
        for (std::string &name : names)
          name = block + name + what;
        expectTensors(at, dtype, model, names);
      };
      expect(layer.attentionNorm, {"attn_norm"});
      expect(layer.qkv, {"q_proj", "k_proj", "v_proj"});
      EXPECT_EQ(layer.qkvBias != 0, config.qkvBias);
      if (config.qkvBias)
        expect(layer.qkvBias, {"q_proj", "k_proj", "v_proj"}, ".bias");
      expect(layer.attentionOut, {"attn_out"});
      expect(layer.mlpNorm, {"ff_norm"});
      expect(layer.gateUp, {"ff_proj", "up_proj"});
      expect(layer.down, {"ff_out"});
    }
  }

  Result<DeviceWeights> load(DType dtype, LoadOptions options = {}) {
    options.dtype = dtype;
    return DeviceWeights::load(device(), config, folder->path, options);
  }

  TinyModel writeModel(const rt::test::TinyShape &shape, DType stored) {
    TinyModel model = rt::test::makeTinyModel(shape, stored, 3);
    folder.emplace();
    model.write(*folder);
    Result<ModelConfig> read = ModelConfig::load(folder->path);
    EXPECT_OK(read);
    config = *read;
    return model;
  }
};

TEST_F(WeightsTest, EveryTensorInEveryType) {
  for (DType stored : {DType::F32, DType::BF16}) {
    TinyModel model = writeModel({.layers = 3,
                                  .hidden = 256,
                                  .queryHeads = 4,
                                  .kvHeads = 2,
                                  .mlpHidden = 104},
                                 stored);
    for (DType dtype : {DType::F32, DType::BF16, DType::F16}) {
      SCOPED_TRACE(std::string(name(stored)) + " as " +
                   std::string(name(dtype)));
      Result<DeviceWeights> loaded = load(dtype);
      ASSERT_OK(loaded);
      expectModel(*loaded, dtype, model, 3);
      expectTensors(loaded->head, dtype, model, {"ff_out.weight"});
      EXPECT_EQ(loaded->bytes(), DeviceWeights::bytesFor(config, dtype));
      EXPECT_EQ(fakeDriver().pinned, 0);
    }
  }
}

TEST_F(WeightsTest, BiasesOfAllHeadsLieTogether) {
  for (DType stored : {DType::F32, DType::BF16}) {
    TinyModel model = writeModel({.layers = 3,
                                  .hidden = 256,
                                  .queryHeads = 4,
                                  .kvHeads = 2,
                                  .mlpHidden = 104,
                                  .dream = true},
                                 stored);
    for (DType dtype : {DType::F32, DType::BF16}) {
      Result<DeviceWeights> loaded = load(dtype);
      ASSERT_OK(loaded);
      expectModel(*loaded, dtype, model, 3);
      EXPECT_EQ(loaded->bytes(), DeviceWeights::bytesFor(config, dtype));
    }
  }
  Result<DeviceWeights> made =
      DeviceWeights::random(device(), config, DType::F32, 5);
  ASSERT_OK(made);
  double squares = 0;
  for (int64_t i = 0; i < 512; ++i) {
    double bias = reference::load(
        reinterpret_cast<void *>(made->layers[2].qkvBias), i, DType::F32);
    squares += bias * bias;
  }
  EXPECT_NEAR(std::sqrt(squares / 512), 0.02, 0.004);
}

TEST_F(WeightsTest, TiedEmbeddingsAreThereOnce) {
  TinyModel model = writeModel({.tied = true}, DType::BF16);
  Result<DeviceWeights> loaded = load(DType::BF16);
  ASSERT_OK(loaded);
  expectModel(*loaded, DType::BF16, model, 2);
  EXPECT_EQ(loaded->head, loaded->embedding);
}

// Chunks of 1 MiB are converted on several threads: tensors that are larger
// than one, and one after the other in the same slot.
TEST_F(WeightsTest, TensorsOfSeveralChunks) {
  TinyModel model = writeModel({.layers = 1,
                                .hidden = 512,
                                .queryHeads = 4,
                                .kvHeads = 1,
                                .mlpHidden = 1504,
                                .vocab = 1201},
                               DType::F32);
  Result<DeviceWeights> loaded = load(DType::BF16);
  ASSERT_OK(loaded);
  expectModel(*loaded, DType::BF16, model, 1);
}

TEST_F(WeightsTest, ProgressReachesTheTotal) {
  writeModel({}, DType::BF16);
  std::vector<int64_t> seen;
  int64_t all = 0;
  LoadOptions options;
  options.progress = [&](int64_t done, int64_t total) {
    seen.push_back(done);
    all = total;
  };
  ASSERT_OK(load(DType::BF16, options));
  EXPECT_TRUE(std::is_sorted(seen.begin(), seen.end()));
  ASSERT_FALSE(seen.empty());
  EXPECT_EQ(seen.back(), all);
}

TEST_F(WeightsTest, AnInterruptedLoadGivesAllMemoryBack) {
  writeModel({}, DType::BF16);
  for (int polls : {0, 1, 7}) {
    LoadOptions options;
    int left = polls;
    options.interrupted = [&] { return left-- <= 0; };
    EXPECT_ERROR(load(DType::BF16, options), "interrupted");
    EXPECT_EQ(fakeDriver().allocated, 0);
    EXPECT_EQ(fakeDriver().pinned, 0);
  }
}

TEST_F(WeightsTest, WeightsThatChangeWhileTheyAreReadAreRefused) {
  for (bool replaced : {false, true}) {
    writeModel({}, DType::BF16);
    const std::string path = folder->path + "/model.safetensors";
    LoadOptions options;
    options.interrupted = [&, done = false]() mutable {
      if (std::exchange(done, true))
        return false;
      if (replaced) {
        std::filesystem::copy_file(path, path + ".new");
        std::filesystem::rename(path + ".new", path);
      } else {
        std::fstream file(path,
                          std::ios::binary | std::ios::in | std::ios::out);
        file.seekp(
            static_cast<std::streamoff>(std::filesystem::file_size(path) / 2));
        file.write("other", 5);
      }
      return false;
    };
    EXPECT_ERROR(load(DType::BF16, options),
                 replaced ? "replaced or removed while it was read"
                          : "changed while it was read");
    EXPECT_EQ(fakeDriver().allocated, 0);
    EXPECT_EQ(fakeDriver().pinned, 0);
  }
}

TEST_F(WeightsTest, TooLittleMemoryIsSaidBeforeAnyIsTaken) {
  writeModel({}, DType::BF16);
  fakeDriver().freeBytes = (int64_t(256) << 20) + 100000;
  Result<DeviceWeights> loaded = load(DType::BF16);
  EXPECT_ERROR(loaded, "the model's weights: ");
  EXPECT_NE(loaded.error().text().find(
                std::to_string(DeviceWeights::bytesFor(config, DType::BF16)) +
                " bytes"),
            std::string::npos)
      << loaded.error().text();
  EXPECT_EQ(fakeDriver().calls["cuMemAlloc_v2"], 0);
}

TEST_F(WeightsTest, AMissingTensorIsNamed) {
  TinyModel model = writeModel({}, DType::BF16);
  model.tensors.erase("model.transformer.blocks.1.v_proj.weight");
  model.write(*folder);
  EXPECT_ERROR(load(DType::BF16), "blocks.1.v_proj.weight");
}

TEST_F(WeightsTest, RandomWeightsDependOnTheSeedAlone) {
  writeModel({}, DType::BF16);
  for (DType dtype : {DType::F32, DType::BF16, DType::F16}) {
    auto bytes = [&](const DeviceWeights &made) {
      const auto *data = reinterpret_cast<const char *>(made.layers[1].qkv);
      return std::string(data,
                         3 * config.hidden * config.hidden * byteSize(dtype));
    };
    Result<DeviceWeights> a = DeviceWeights::random(device(), config, dtype, 5);
    Result<DeviceWeights> b = DeviceWeights::random(device(), config, dtype, 5);
    Result<DeviceWeights> c = DeviceWeights::random(device(), config, dtype, 6);
    ASSERT_OK(a);
    ASSERT_OK(b);
    ASSERT_OK(c);
    EXPECT_EQ(bytes(*a), bytes(*b));
    EXPECT_NE(bytes(*a), bytes(*c));
    auto element = [&](DevicePtr at, int64_t i) {
      return reference::load(reinterpret_cast<void *>(at), i, dtype);
    };
    double squares = 0;
    const int64_t count = config.hidden * config.hidden;
    for (int64_t i = 0; i < count; ++i)
      squares += element(a->layers[0].qkv, i) * element(a->layers[0].qkv, i);
    EXPECT_NEAR(std::sqrt(squares / double(count)), 0.02, 0.001);
    for (int64_t i = 0; i < config.hidden; ++i) {
      EXPECT_EQ(element(a->finalNorm, i), 1);
      EXPECT_EQ(element(a->layers[1].mlpNorm, i), 1);
    }
    // No two matrices are alike.
    EXPECT_NE(element(a->layers[0].qkv, 0), element(a->layers[1].qkv, 0));
  }
}

} // namespace
