//===- LoadTest.cpp - Loading: progress, interruption, time, memory -------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "TinyModel.h"

#include "runtime/model/Model.h"

#include <filesystem>

#include <gtest/gtest.h>

using namespace heddle;
using namespace heddle::rt;
using namespace heddle::rt::test;

namespace {

TEST(Load, ReportsProgressInBytesOfTheCheckpoint) {
  TemporaryFolder folder;
  TinyModel tiny = makeTinyModel({}, DType::BF16, 1);
  tiny.writeSharded(folder, 2);
  int64_t matrices = 0;
  for (const auto &[name, tensor] : tiny.tensors)
    if (tensor.shape.size() == 2)
      matrices += tensor.values.size() * 2;
  LoadOptions options;
  std::vector<std::pair<int64_t, int64_t>> calls;
  options.progress = [&](int64_t done, int64_t total) {
    calls.push_back({done, total});
  };
  Result<std::unique_ptr<Model>> model = Model::load(folder.path, options);
  ASSERT_TRUE(model) << model.error().text();
  ASSERT_FALSE(calls.empty());
  EXPECT_EQ(calls.back(), std::pair(matrices, matrices));
  for (size_t i = 1; i < calls.size(); ++i)
    EXPECT_GT(calls[i].first, calls[i - 1].first);
  EXPECT_EQ((*model)->config().vocabSize, 301);
  EXPECT_EQ((*model)->dtype(), DType::F32);
}

TEST(Load, CanBeInterrupted) {
  TemporaryFolder folder;
  makeTinyModel({}, DType::BF16, 1).write(folder);
  LoadOptions options;
  options.interrupted = [] { return true; };
  Result<std::unique_ptr<Model>> model = Model::load(folder.path, options);
  ASSERT_FALSE(model);
  EXPECT_EQ(model.error().text(), folder.path + ": interrupted");
}

TEST(Load, RefusesF16Runs) {
  LoadOptions options;
  options.dtype = DType::F16;
  Result<std::unique_ptr<Model>> model = Model::load("/nowhere", options);
  ASSERT_FALSE(model);
  EXPECT_EQ(model.error().text(), "models run in f32 or bf16, not in f16");
}

/// A checkpoint that claims more than the machine has, in a sparse file.
TEST(Load, RefusesWhatDoesNotFitBeforeAllocating) {
  TemporaryFolder folder;
  constexpr int64_t vocab = 1 << 26, hidden = 1 << 16;
  TinyModel tiny = makeTinyModel({.layers = 1}, DType::BF16, 1);
  nlohmann::json header;
  int64_t end = 0;
  auto add = [&](const std::string &name, std::vector<int64_t> shape) {
    int64_t begin = end, n = 2;
    for (int64_t extent : shape)
      n *= extent;
    end += n;
    header["model.transformer." + name + ".weight"] = {
        {"dtype", "BF16"}, {"shape", shape}, {"data_offsets", {begin, end}}};
  };
  add("wte", {vocab, hidden});
  for (const char *name : {"q_proj", "k_proj", "v_proj", "attn_out"})
    add(std::string("blocks.0.") + name, {hidden, hidden});
  for (const char *name : {"attn_norm", "ff_norm"})
    add(std::string("blocks.0.") + name, {hidden});
  for (const char *name : {"ff_proj", "up_proj"})
    add(std::string("blocks.0.") + name, {64, hidden});
  add("blocks.0.ff_out", {hidden, 64});
  add("ln_f", {hidden});
  tiny.config["d_model"] = hidden;
  tiny.config["n_heads"] = tiny.config["n_kv_heads"] = hidden / 128;
  tiny.config["mlp_hidden_size"] = 64;
  tiny.config["vocab_size"] = tiny.config["embedding_size"] = vocab;
  tiny.config["weight_tying"] = true;
  folder.write("config.json", tiny.config.dump());
  std::string start = safetensorsBytes(header.dump(), "");
  std::string path = folder.write("model.safetensors", start);
  std::error_code failure;
  std::filesystem::resize_file(path, start.size() + end, failure);
  if (failure)
    GTEST_SKIP() << "this file system has no files of " << end << " bytes";
  LoadOptions options;
  options.dtype = DType::BF16;
  Result<std::unique_ptr<Model>> model = Model::load(folder.path, options);
  ASSERT_FALSE(model);
  EXPECT_EQ(model.error().text().find(
                folder.path + ": loading the model in bf16 needs 17.6 TB, "),
            0u)
      << model.error().text();
}

} // namespace
