//===- ForwardTest.cpp - The forward pass against fp64 and itself ---------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Reference.h"
#include "TinyModel.h"

#include "runtime/base/Parallel.h"
#include "runtime/model/Model.h"

#include <atomic>
#include <cmath>
#include <cstring>
#include <mutex>
#include <numeric>
#include <random>

#include <gtest/gtest.h>

using namespace heddle;
using namespace heddle::rt;
using namespace heddle::rt::test;

namespace {

std::vector<int32_t> randomTokens(int64_t n, int64_t vocab, unsigned seed) {
  std::mt19937 engine(seed);
  std::vector<int32_t> tokens(n);
  for (int32_t &token : tokens)
    token = static_cast<int32_t>(engine() % vocab);
  return tokens;
}

std::unique_ptr<Model> load(const std::string &folder, DType dtype) {
  LoadOptions options;
  options.dtype = dtype;
  Result<std::unique_ptr<Model>> model = Model::load(folder, options);
  EXPECT_TRUE(model) << model.error().text();
  return model ? std::move(*model) : nullptr;
}

/// Runs sequences as one packed batch; logits of `rows` [rows x vocab].
std::vector<float> run(Model &model,
                       const std::vector<std::vector<int32_t>> &sequences,
                       std::vector<int64_t> rows, int64_t unit = 1) {
  std::vector<int32_t> tokens;
  std::vector<int64_t> lengths;
  for (const std::vector<int32_t> &sequence : sequences) {
    tokens.insert(tokens.end(), sequence.begin(), sequence.end());
    lengths.push_back(static_cast<int64_t>(sequence.size()));
  }
  PackedBatch batch = PackedBatch::whole(lengths);
  if (rows.empty()) {
    rows.resize(tokens.size());
    std::iota(rows.begin(), rows.end(), 0);
  }
  int64_t vocab = model.config().vocabSize;
  std::vector<float> logits(rows.size() * vocab);
  std::vector<std::atomic<int>> deliveries(rows.size());
  std::atomic<bool> unitsWhole = true;
  LogitRequest request{rows, unit,
                       [&](int64_t first, int64_t count, const float *values) {
                         if (first % unit != 0 || count % unit != 0)
                           unitsWhole = false;
                         for (int64_t i = 0; i < count; ++i)
                           ++deliveries[first + i];
                         std::memcpy(&logits[first * vocab], values,
                                     count * vocab * sizeof(float));
                       }};
  NaiveAttention attention;
  Status status = model.forward(batch, tokens, attention, request);
  EXPECT_TRUE(status) << status.error().text();
  EXPECT_TRUE(unitsWhole);
  for (auto &count : deliveries)
    EXPECT_EQ(count, 1);
  std::vector<int64_t> layers(model.config().layers);
  std::iota(layers.begin(), layers.end(), 0);
  EXPECT_EQ(attention.layersSeen, layers);
  return logits;
}

/// Largest difference relative to the largest logit.
double relativeError(const std::vector<float> &logits,
                     const std::vector<double> &expected, size_t at = 0) {
  double difference = 0, largest = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    difference = std::max(difference, std::abs(logits[at + i] - expected[i]));
    largest = std::max(largest, std::abs(expected[i]));
    if (std::isnan(logits[at + i]))
      return INFINITY;
  }
  return difference / largest;
}

struct ForwardCase {
  const char *label;
  TinyShape shape;
  DType stored;
};

std::ostream &operator<<(std::ostream &out, const ForwardCase &c) {
  return out << c.label;
}

class Forward : public testing::TestWithParam<ForwardCase> {
protected:
  void SetUp() override { tiny.write(folder); }
  void TearDown() override { setThreadCount(0); }
  TemporaryFolder folder;
  TinyModel tiny = makeTinyModel(GetParam().shape, GetParam().stored, 11);
};

TEST_P(Forward, AgreesWithFP64) {
  int64_t vocab = GetParam().shape.vocab;
  std::vector<std::vector<int32_t>> sequences = {randomTokens(70, vocab, 1),
                                                 randomTokens(1, vocab, 2),
                                                 randomTokens(33, vocab, 3)};
  for (auto [dtype, tolerance] :
       {std::pair(DType::F32, 1e-5), std::pair(DType::BF16, 2e-2)}) {
    std::unique_ptr<Model> model = load(folder.path, dtype);
    ASSERT_TRUE(model);
    std::vector<float> logits = run(*model, sequences, {});
    size_t at = 0;
    for (const std::vector<int32_t> &sequence : sequences) {
      std::vector<double> expected = referenceLogits(tiny, sequence);
      EXPECT_LT(relativeError(logits, expected, at), tolerance)
          << name(dtype) << ", sequence of " << sequence.size();
      at += expected.size();
    }
    if (dtype == DType::BF16) {
      for (float logit : logits)
        ASSERT_EQ(logit, fromBF16(toBF16(logit))) << "not rounded to bf16";
    }
  }
}

TEST_P(Forward, ARowDoesNotDependOnBatchOrThreads) {
  int64_t vocab = GetParam().shape.vocab;
  std::vector<int32_t> sequence = randomTokens(90, vocab, 4);
  for (DType dtype : {DType::F32, DType::BF16}) {
    std::unique_ptr<Model> model = load(folder.path, dtype);
    ASSERT_TRUE(model);
    setThreadCount(1);
    std::vector<float> alone = run(*model, {sequence}, {});
    for (int threads : {1, 2, 3}) {
      setThreadCount(threads);
      std::vector<std::vector<int32_t>> batch = {
          randomTokens(37, vocab, 5), sequence, randomTokens(200, vocab, 6)};
      std::vector<float> packed = run(*model, batch, {});
      EXPECT_EQ(std::memcmp(&packed[37 * vocab], alone.data(),
                            alone.size() * sizeof(float)),
                0)
          << name(dtype) << ", " << threads << " threads, in a batch";
      EXPECT_EQ(run(*model, {sequence}, {}), alone)
          << name(dtype) << ", " << threads << " threads, after a larger batch";
      std::vector<float> some = run(*model, batch, {37 + 89, 37, 37, 50}, 2);
      EXPECT_EQ(std::memcmp(&some[0], &alone[89 * vocab], vocab * 4), 0);
      EXPECT_EQ(std::memcmp(&some[2 * vocab], &alone[0], vocab * 4), 0);
      EXPECT_EQ(std::memcmp(&some[3 * vocab], &alone[13 * vocab], vocab * 4),
                0);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Shapes, Forward,
    testing::Values(
        ForwardCase{"heads64", {}, DType::F32},
        ForwardCase{"heads128",
                    {.layers = 2,
                     .hidden = 384,
                     .queryHeads = 3,
                     .kvHeads = 3,
                     .mlpHidden = 500,
                     .vocab = 700},
                    DType::BF16},
        ForwardCase{"grouped",
                    {.layers = 3, .hidden = 256, .queryHeads = 4, .kvHeads = 2},
                    DType::BF16},
        ForwardCase{"oneKeyHead",
                    {.layers = 1,
                     .hidden = 192,
                     .queryHeads = 6,
                     .kvHeads = 1,
                     .mlpHidden = 96,
                     .vocab = 50},
                    DType::F32},
        ForwardCase{"smallest",
                    {.layers = 1,
                     .hidden = 4,
                     .queryHeads = 2,
                     .kvHeads = 1,
                     .mlpHidden = 1,
                     .vocab = 2},
                    DType::F32},
        ForwardCase{"tied", {.mlpHidden = 257, .tied = true}, DType::BF16},
        ForwardCase{
            "biases",
            {.hidden = 448, .queryHeads = 7, .kvHeads = 1, .dream = true},
            DType::BF16},
        ForwardCase{"biases128",
                    {.layers = 1,
                     .hidden = 384,
                     .queryHeads = 3,
                     .kvHeads = 3,
                     .tied = true,
                     .dream = true},
                    DType::F32}),
    [](const auto &info) { return std::string(info.param.label); });

/// More logit rows than a wave holds, in units that do not divide it.
TEST(ForwardLogits, ManyRowsComeOnceInWholeUnits) {
  TemporaryFolder folder;
  TinyModel tiny = makeTinyModel({.layers = 1, .vocab = 3000}, DType::F32, 7);
  tiny.write(folder);
  std::unique_ptr<Model> model = load(folder.path, DType::F32);
  ASSERT_TRUE(model);
  std::vector<int32_t> sequence = randomTokens(11, 3000, 1);
  std::vector<float> each = run(*model, {sequence}, {});
  std::vector<int64_t> rows(1110);
  for (size_t i = 0; i < rows.size(); ++i)
    rows[i] = i * 7 % 11;
  for (int64_t unit : {1, 3, 555}) {
    std::vector<float> logits = run(*model, {sequence}, rows, unit);
    for (size_t i = 0; i < rows.size(); ++i)
      ASSERT_EQ(std::memcmp(&logits[i * 3000], &each[rows[i] * 3000], 12000), 0)
          << i;
  }
}

class ForwardErrors : public testing::Test {
protected:
  void SetUp() override {
    makeTinyModel({.layers = 1, .maxLength = 8}, DType::F32, 1).write(folder);
    model = load(folder.path, DType::F32);
    ASSERT_TRUE(model);
  }

  std::string error(std::vector<int64_t> offsets, std::vector<int32_t> tokens,
                    std::vector<int64_t> rows = {}, int64_t unit = 1) {
    NaiveAttention attention;
    LogitRequest request{rows, unit, [](int64_t, int64_t, const float *) {}};
    PackedBatch batch{offsets, {}};
    for (int64_t i = 0; i < offsets.back(); ++i)
      batch.positions.push_back(static_cast<int32_t>(i));
    Status status = model->forward(batch, tokens, attention, request);
    return status ? "no error" : status.error().text();
  }

  TemporaryFolder folder;
  std::unique_ptr<Model> model;
};

TEST_F(ForwardErrors, NamesWhatIsWrong) {
  EXPECT_EQ(error({0, 2}, {1, 2}, {0, 1}), "no error");
  EXPECT_EQ(error({0}, {}), "a packed batch needs offsets that start at 0 and "
                            "at least one sequence");
  EXPECT_EQ(error({1, 2}, {1}), "a packed batch needs offsets that start at 0 "
                                "and at least one sequence");
  EXPECT_EQ(error({0, 2, 2}, {1, 2}), "no error");
  EXPECT_EQ(error({0, 9}, std::vector<int32_t>(9, 1)),
            "a row stands at position 8 of its sequence, expected 0 to 7 (the "
            "model's max_sequence_length)");
  EXPECT_EQ(error({0, 2}, {1}),
            "the batch has 2 rows but 1 tokens and 2 positions");
  EXPECT_EQ(error({0, 2}, {1, 301}),
            "row 1: token id 301 is not in the vocabulary, 0 to 300");
  EXPECT_EQ(error({0, 1}, {-1}),
            "row 0: token id -1 is not in the vocabulary, 0 to 300");
  EXPECT_EQ(error({0, 1}, {1}, {1}),
            "logits of row 1 were asked for, the batch has 1 rows");
  EXPECT_EQ(error({0, 1}, {1}, {0}, 2),
            "logits of 1 rows were asked for in units of 2");
}

TEST_F(ForwardErrors, AnAttentionErrorSaysItsLayer) {
  struct Failing : LayerExecutor {
    Status attend(int64_t, const PackedBatch &,
                  const AttentionTensors &) override {
      return Error("no kernel");
    }
  } attention;
  std::vector<int32_t> tokens = {1};
  Status status = model->forward(PackedBatch::whole(std::vector<int64_t>{1}),
                                 tokens, attention, {});
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().text(), "layer 0: no kernel");
}

TEST_F(ForwardErrors, ActivationBytesGrowWithRows) {
  EXPECT_GT(model->activationBytes(1000), model->activationBytes(100));
  EXPECT_GT(model->weightBytes(), 128 * 301 * 4 * 2);
  EXPECT_NE(model->description().find("oneDNN"), std::string::npos);
}

} // namespace
