//===- PartialRowsTest.cpp - Forward passes over some of the rows ---------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// With the same tokens, what a pass does not compute is what an earlier one
// computed: whatever rows an executor names, logits are those of the whole
// pass, bit for bit.
//
//===----------------------------------------------------------------------===//

#include "Reference.h"
#include "TinyModel.h"

#include "runtime/model/Model.h"

#include <cstring>
#include <random>

#include <gtest/gtest.h>

using namespace heddle;
using namespace heddle::rt;
using namespace heddle::rt::test;

namespace {

constexpr int64_t length = 150; // three tiles of rows, the last in part

/// Keeps everything of one sequence. While `whole`, computes every row; then
/// random ones.
class RecallingExecutor : public NaiveAttention {
public:
  RecallingExecutor(const ModelConfig &config, DType dtype, unsigned seed)
      : config(config), size(byteSize(dtype)), random(seed) {
    rowBytes = (config.queryHeads + 2 * config.kvHeads) * config.headDim * size;
    for (Memory *memory : {&heads, &outputs, &ffns})
      memory->resize(config.layers);
    for (int64_t l = 0; l < config.layers; ++l) {
      heads[l].resize(length * rowBytes);
      outputs[l].resize(length * config.hidden * size);
      ffns[l].resize(length * config.hidden * size);
    }
  }

  Result<RowSet> values(int64_t) override {
    valueRows = draw(0);
    return view(valueRows);
  }
  bool choosesByValues(int64_t layer) const override { return layer % 2 == 1; }
  Result<Exact> queriesAndKeys(int64_t, const PackedBatch &,
                               const AttentionTensors &) override {
    keyRows = draw(1);
    outputRows = draw(2);
    return Exact{view(outputRows), view(keyRows)};
  }

  Status attend(int64_t layer, const PackedBatch &batch,
                const AttentionTensors &t) override {
    // All rows of the sequence as one matrix: Q, K and V of a row together.
    const int64_t query = config.queryHeads * config.headDim * size;
    const int64_t kv = config.kvHeads * config.headDim * size;
    std::byte *rows = heads[layer].data();
    auto remember = [&](const std::vector<int32_t> &from, const void *tensor,
                        int64_t stride, int64_t bytes, int64_t offset) {
      for (int32_t row : from)
        std::memcpy(rows + batch.positions[row] * rowBytes + offset,
                    static_cast<const std::byte *>(tensor) +
                        row * stride * size,
                    bytes);
    };
    remember(outputRows, t.query, t.queryStride, query, 0);
    remember(keyRows, t.key, t.keyStride, kv, query);
    remember(valueRows, t.value, t.valueStride, kv, query + kv);
    AttentionTensors all = t;
    std::vector<std::byte> attended(length * query);
    all.query = rows;
    all.key = rows + query;
    all.value = rows + query + kv;
    all.output = attended.data();
    all.queryStride = all.keyStride = all.valueStride = rowBytes / size;
    all.outputStride = query / size;
    if (Status s = NaiveAttention::attend(
            layer, PackedBatch::whole(std::vector<int64_t>{length}), all);
        !s)
      return s;
    for (int32_t row : outputRows)
      std::memcpy(static_cast<std::byte *>(t.output) +
                      row * t.outputStride * size,
                  attended.data() + batch.positions[row] * query, query);
    return Status::success();
  }

  Result<Cached> projected(int64_t layer) override {
    return cached(view(outputRows), outputs[layer]);
  }
  Result<Cached> ffn(int64_t layer) override {
    ffnRows = draw(3);
    return cached(view(ffnRows), ffns[layer]);
  }

  void begin(const PackedBatch &batch, bool everything) {
    active = batch.positions;
    whole = everything;
  }

private:
  using Memory = std::vector<std::vector<std::byte>>;

  /// Rows to compute: all of them, none, or some.
  std::vector<int32_t> draw(int what) {
    std::vector<int32_t> rows;
    for (size_t row = 0; row < active.size(); ++row)
      if (whole || (what + random() % 3) % 3 != 0)
        rows.push_back(static_cast<int32_t>(row));
    if (!whole && random() % 5 == 0)
      rows.clear();
    return rows;
  }
  RowSet view(const std::vector<int32_t> &rows) const {
    return whole ? RowSet() : RowSet{false, rows};
  }
  Cached cached(RowSet rows, std::vector<std::byte> &memory) const {
    return {rows, memory.data(), config.hidden * size, active};
  }

  const ModelConfig config;
  const int64_t size;
  int64_t rowBytes = 0;
  std::mt19937 random;
  bool whole = true;
  std::vector<int32_t> active, valueRows, keyRows, outputRows, ffnRows;
  Memory heads, outputs, ffns; ///< [layer]
};

class PartialRows : public testing::TestWithParam<DType> {};

TEST_P(PartialRows, WhatIsNotComputedIsRemembered) {
  TemporaryFolder folder;
  makeTinyModel({.layers = 4, .maxLength = length}, DType::F32, 5)
      .write(folder);
  LoadOptions options;
  options.dtype = GetParam();
  Result<std::unique_ptr<Model>> loaded = Model::load(folder.path, options);
  ASSERT_TRUE(loaded) << loaded.error().text();
  Model &model = **loaded;
  const int64_t vocab = model.config().vocabSize;
  std::mt19937 random(3);
  std::vector<int32_t> tokens(length);
  for (int32_t &token : tokens)
    token = static_cast<int32_t>(random() % vocab);

  RecallingExecutor executor(model.config(), GetParam(), 17);
  auto run = [&](const PackedBatch &batch, bool whole) {
    executor.begin(batch, whole);
    std::vector<int32_t> own;
    std::vector<int64_t> rows;
    for (int64_t row = 0; row < batch.rows(); ++row) {
      own.push_back(tokens[batch.positions[row]]);
      rows.push_back(row);
    }
    std::vector<float> logits(rows.size() * vocab);
    LogitRequest request{
        rows, 1, [&](int64_t first, int64_t count, const float *values) {
          std::memcpy(&logits[first * vocab], values,
                      count * vocab * sizeof(float));
        }};
    Status status = model.forward(batch, own, executor, request);
    EXPECT_TRUE(status) << status.error().text();
    return logits;
  };
  const std::vector<float> expected =
      run(PackedBatch::whole(std::vector<int64_t>{length}), true);

  for (int trial = 0; trial < 12; ++trial) {
    PackedBatch batch;
    for (int32_t position = 0; position < length; ++position)
      if (random() % 12 < static_cast<unsigned>(trial + 1))
        batch.positions.push_back(position);
    batch.offsets = {0, static_cast<int64_t>(batch.positions.size())};
    std::vector<float> logits = run(batch, false);
    for (int64_t row = 0; row < batch.rows(); ++row)
      ASSERT_EQ(std::memcmp(&logits[row * vocab],
                            &expected[batch.positions[row] * vocab],
                            vocab * sizeof(float)),
                0)
          << "trial " << trial << ", position " << batch.positions[row];
  }
}

INSTANTIATE_TEST_SUITE_P(Types, PartialRows,
                         testing::Values(DType::F32, DType::BF16),
                         [](const auto &info) {
                           return std::string(name(info.param));
                         });

} // namespace
