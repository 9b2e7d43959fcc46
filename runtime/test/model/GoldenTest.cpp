//===- GoldenTest.cpp - Against numbers that PyTorch computed -------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Inputs/torch-goldens.json is written by make_goldens.py, with the rounding
// points of LLaDA's and of Dream's released code.
//
//===----------------------------------------------------------------------===//

#include "Reference.h"
#include "TinyModel.h"

#include "runtime/model/Model.h"
#include "runtime/model/Rope.h"

#include <cmath>
#include <cstring>
#include <fstream>

#include <gtest/gtest.h>

using namespace heddle;
using namespace heddle::rt;
using namespace heddle::rt::test;
using nlohmann::json;

namespace {

const json &goldens() {
  static const json values = [] {
    std::ifstream file(HEDDLE_TEST_INPUTS "/torch-goldens.json");
    return json::parse(file);
  }();
  return values;
}

/// The model of make_goldens.py: its weight() in the order of its calls.
TinyModel goldenModel(bool dream) {
  TinyModel model = makeTinyModel({.layers = 2,
                                   .hidden = 256,
                                   .queryHeads = 4,
                                   .kvHeads = 2,
                                   .mlpHidden = 192,
                                   .vocab = 40,
                                   .dream = dream},
                                  DType::F32, 1);
  model.config["rope_theta"] = 500000.0;
  model.config["rms_norm_eps"] = 1e-5;
  uint64_t count = 0;
  auto fill = [&](const std::string &name, float scale, float offset = 0,
                  const char *kind = ".weight") {
    std::vector<float> &values =
        model.tensors.at("model.transformer." + name + kind).values;
    for (size_t i = 0; i < values.size(); ++i) {
      uint64_t state =
          (i + count * 1000003) * 2654435761u % (uint64_t(1) << 32);
      state = (state ^ (state >> 15)) * 2246822519u % (uint64_t(1) << 32);
      values[i] =
          (static_cast<float>((state >> 13) % 256) - 128) / 128 * scale +
          offset;
    }
    ++count;
  };
  fill("wte", 2);
  for (int layer = 0; layer < 2; ++layer) {
    std::string block = "blocks." + std::to_string(layer) + ".";
    fill(block + "attn_norm", 0.5f, 1);
    for (const char *name : {"q_proj", "k_proj", "v_proj"}) {
      fill(block + name, 0.125f);
      if (dream)
        fill(block + name, 2, 0, ".bias");
    }
    fill(block + "attn_out", 0.125f);
    fill(block + "ff_norm", 0.5f, 1);
    for (const char *name : {"ff_proj", "up_proj", "ff_out"})
      fill(block + name, 0.125f);
  }
  fill("ln_f", 0.5f, 1);
  fill("ff_out", 0.125f);
  return model;
}

struct Agreement {
  double difference = INFINITY; ///< the largest, relative to the largest logit
  double equal = 0;             ///< share of logits that are the same number
};

Agreement compare(DType dtype, bool dream) {
  TemporaryFolder folder;
  goldenModel(dream).write(folder);
  LoadOptions options;
  options.dtype = dtype;
  Result<std::unique_ptr<Model>> model = Model::load(folder.path, options);
  EXPECT_TRUE(model) << model.error().text();
  if (!model)
    return {};
  auto tokens = goldens()["tokens"].get<std::vector<int32_t>>();
  const json &expected =
      (dream ? goldens()["dream"] : goldens())[std::string(name(dtype))];
  std::vector<float> logits(expected.size() * 40);
  LogitRequest request{goldens()["rows"].get<std::vector<int64_t>>(), 1,
                       [&](int64_t first, int64_t count, const float *values) {
                         std::memcpy(&logits[first * 40], values,
                                     count * 40 * sizeof(float));
                       }};
  NaiveAttention attention;
  PackedBatch batch = PackedBatch::whole(
      std::vector<int64_t>{static_cast<int64_t>(tokens.size())});
  Status status = (*model)->forward(batch, tokens, attention, request);
  EXPECT_TRUE(status);
  double largest = 0, worst = 0, equal = 0;
  for (size_t i = 0; i < expected.size(); ++i)
    for (size_t j = 0; j < 40; ++j) {
      double value = expected[i][j];
      largest = std::max(largest, std::abs(value));
      worst = std::max(worst, std::abs(value - logits[i * 40 + j]));
      equal += value == logits[i * 40 + j];
    }
  return {worst / largest, equal / (expected.size() * 40)};
}

TEST(ForwardGoldens, AgreesWithPyTorchInF32) {
  EXPECT_LT(compare(DType::F32, false).difference, 2e-6);
  EXPECT_LT(compare(DType::F32, true).difference, 2e-6);
}

/// The same rounding points give the same numbers, but for a few sums that
/// fall on the other side of a rounding boundary. (More layers spread a single
/// such sum over all rows: two layers is what can be compared number by
/// number.)
TEST(ForwardGoldens, AgreesWithPyTorchInBF16) {
  for (bool dream : {false, true}) {
    Agreement agreement = compare(DType::BF16, dream);
    EXPECT_LT(agreement.difference, 1e-2) << (dream ? "Dream" : "LLaDA");
    EXPECT_GT(agreement.equal, 0.9) << (dream ? "Dream" : "LLaDA");
  }
}

TEST(Rope, AgreesWithPyTorch) {
  const json &rope = goldens()["rope"];
  RopeTable table(rope["theta"], rope["headDim"]);
  table.grow(10);
  table.grow(4096);
  for (size_t i = 0; i < rope["positions"].size(); ++i)
    for (size_t j = 0; j < 64; ++j) {
      int64_t position = rope["positions"][i];
      EXPECT_NEAR(table.cos(position)[j], rope["cos"][i][j].get<float>(), 1e-6)
          << position << ", " << j;
      EXPECT_NEAR(table.sin(position)[j], rope["sin"][i][j].get<float>(), 1e-6)
          << position << ", " << j;
    }
}

} // namespace
