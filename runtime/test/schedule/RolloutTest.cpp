//===- RolloutTest.cpp - The attention that positions drew ----------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "bundle/program/ProgramChecks.h"
#include "runtime/reference/ReferenceExecutor.h"
#include "runtime/test/schedule/Tensors.h"

#include <gtest/gtest.h>

#include <memory>

using namespace heddle;
using namespace heddle::rt;
using namespace heddle::test;

namespace {

using Kind = bundle::Positions::Kind;
using Matrix = std::vector<std::vector<double>>;

/// All rows at step 1; then the first three masked positions, and what drew
/// most attention.
bundle::Manifest rolloutManifest() {
  bundle::Manifest manifest;
  manifest.abi = heddle::abi::abiVersion;
  bundle::Kernel dense;
  dense.name = "dense";
  dense.writesLse = true;
  bundle::Kernel rollout = bundle::rolloutKernel();
  rollout.name = "select_rollout";
  manifest.kernels = {dense, rollout};
  bundle::Phase phase;
  phase.attention = 0;
  phase.rollout = 1;
  bundle::Rule rule;
  rule.phases = {phase};
  manifest.rules = {rule};
  auto add = [&](Kind kind, int64_t count, std::vector<int64_t> of = {}) {
    bundle::Positions &set = manifest.positions.emplace_back();
    set.kind = kind;
    set.count = count;
    set.of = std::move(of);
  };
  add(Kind::Undecoded, 3);
  add(Kind::All, 0);
  add(Kind::Attended, 0, {1});
  manifest.positions.back().share = {1, 5};
  add(Kind::Union, 0, {0, 2});
  bundle::Cadence start;
  start.kind = bundle::Cadence::Kind::First;
  start.count = 1;
  bundle::Pass all, some;
  all.when.push_back({bundle::When::Kind::On, start});
  some.rows = 3;
  manifest.passes = {all, some};
  manifest.reuse.kv = true;
  return manifest;
}

/// The n x n matrices of released code, in float64: one after the other.
class Truth {
public:
  Truth(const ModelConfig &config, int64_t n)
      : config(config), n(n),
        keys(config.layers, std::vector<std::vector<double>>(n)) {}

  void begin() {
    product.assign(n, std::vector<double>(n, 0));
    for (int64_t i = 0; i < n; ++i)
      product[i][i] = 1;
  }

  void layer(int64_t layer, const AttentionTensors &tensors, int64_t first,
             const std::vector<int32_t> &rows) {
    const int64_t dim = config.headDim;
    auto at = [&](const void *base, int64_t index) {
      return reference::load(base, index, tensors.dtype);
    };
    for (size_t r = 0; r < rows.size(); ++r) {
      std::vector<double> &key = keys[layer][rows[r]];
      key.clear();
      for (int64_t e = 0; e < config.kvHeads * dim; ++e)
        key.push_back(at(tensors.key, (first + r) * tensors.keyStride + e));
    }
    Matrix a(n, std::vector<double>(n, 0));
    for (int64_t i = 0; i < n; ++i)
      a[i][i] = 1;
    for (size_t r = 0; r < rows.size(); ++r) {
      std::vector<double> &row = a[rows[r]];
      row.assign(n, 0);
      row[rows[r]] = 0.5;
      for (int64_t h = 0; h < config.queryHeads; ++h) {
        std::vector<double> p;
        double sum = 0;
        for (int64_t j = 0; j < n; ++j) {
          double dot = 0;
          for (int64_t e = 0; e < dim; ++e)
            dot += at(tensors.query,
                      (first + r) * tensors.queryStride + h * dim + e) *
                   keys[layer][j]
                       [h * config.kvHeads / config.queryHeads * dim + e];
          p.push_back(std::exp(dot / std::sqrt(static_cast<double>(dim))));
          sum += p.back();
        }
        for (int64_t j = 0; j < n; ++j)
          row[j] += p[j] / sum / 2 / static_cast<double>(config.queryHeads);
      }
    }
    Matrix next(n, std::vector<double>(n, 0));
    for (int64_t i = 0; i < n; ++i)
      for (int64_t k = 0; k < n; ++k)
        for (int64_t j = 0; a[i][k] != 0 && j < n; ++j)
          next[i][j] += a[i][k] * product[k][j];
    product = std::move(next);
  }

  /// The sum of a column.
  double drew(int64_t position) const {
    double sum = 0;
    for (const std::vector<double> &row : product)
      sum += row[position];
    return sum;
  }

private:
  const ModelConfig &config;
  int64_t n;
  std::vector<std::vector<std::vector<double>>> keys;
  Matrix product;
};

void expectRollout(DType dtype) {
  ModelConfig config;
  config.layers = 3;
  config.queryHeads = 4;
  config.kvHeads = 2;
  config.headDim = 8;
  config.hidden = 32;
  const bundle::Manifest manifest = rolloutManifest();
  Result<std::unique_ptr<ReferenceExecutor>> made =
      ReferenceExecutor::create(manifest, config, dtype);
  ASSERT_TRUE(made) << made.error().text();
  ScheduleExecutor &executor = **made;
  States states({{23, 5}, {9, 2}, {14, 4}});
  ASSERT_TRUE(executor.beginRun(states.shapes, 6, 6));
  std::vector<Truth> truths;
  for (const SequenceShape &shape : states.shapes)
    truths.emplace_back(config, shape.length);
  std::mt19937 random(7);
  int64_t fewer = 0; // steps that leave rows out
  for (int64_t step = 1; step <= 6; ++step) {
    SCOPED_TRACE(step);
    // The last sequence has been decoded, and keeps what it had.
    states.done[2] = step > 3;
    const std::vector<double> before(executor.attention(2).begin(),
                                     executor.attention(2).end());
    Result<const PackedBatch *> begun = executor.beginStep(states.all(step, 6));
    ASSERT_TRUE(begun) << begun.error().text();
    const PackedBatch &batch = **begun;
    for (Truth &truth : truths)
      truth.begin();
    for (int64_t layer = 0; layer < config.layers; ++layer) {
      Tensors tensors(config, batch.rows(), 8, dtype, random);
      std::vector<std::byte> output;
      const AttentionTensors view = tensors.into(output);
      const Status done = executeLayer(executor, layer, batch, view);
      ASSERT_TRUE(done) << done.error().text();
      for (size_t s = 0; s < truths.size(); ++s)
        truths[s].layer(layer, view, batch.offsets[s],
                        {batch.positions.begin() + batch.offsets[s],
                         batch.positions.begin() + batch.offsets[s + 1]});
    }
    for (size_t s = 0; s < truths.size(); ++s) {
      const std::span<const double> drew = executor.attention(s);
      const int64_t n = states.shapes[s].length;
      ASSERT_EQ(std::ssize(drew), n);
      if (states.done[s]) {
        EXPECT_EQ(std::vector(drew.begin(), drew.end()), before);
        continue;
      }
      const int64_t rows = batch.offsets[s + 1] - batch.offsets[s];
      EXPECT_EQ(rows == n, step == 1) << rows;
      fewer += rows < n;
      double sum = 0;
      for (int64_t j = 0; j < n; ++j) {
        EXPECT_NEAR(drew[j], truths[s].drew(j), 1e-4 * truths[s].drew(j)) << j;
        sum += drew[j];
      }
      EXPECT_NEAR(sum, n, 1e-3) << "what flows is lost nowhere";
      states.commit(s, states.shapes[s].promptLength + step - 1, step);
    }
  }
  EXPECT_GT(fewer, 6);
}

TEST(Rollout, IsTheColumnsOfTheProduct) { expectRollout(DType::F32); }
TEST(Rollout, OfTwoBytesAnElement) { expectRollout(DType::BF16); }

// Q of all positions in all layers, which a run is said to need before it is
// allocated; what stands beside it is a fraction of that.
TEST(Rollout, IsPartOfTheMemoryOfARun) {
  ModelConfig config;
  config.layers = 5;
  config.queryHeads = 4;
  config.kvHeads = 2;
  config.headDim = 64;
  config.hidden = 256;
  const bundle::Manifest rolling = rolloutManifest();
  bundle::Manifest plain = rolling;
  plain.positions[2] = plain.positions[0];
  plain.rules[0].phases[0].rollout = -1;
  const int64_t n = 4096;
  auto bytes = [&](const bundle::Manifest &manifest, DType dtype) {
    auto executor = ReferenceExecutor::create(manifest, config, dtype);
    EXPECT_TRUE(executor) << executor.error().text();
    return executor ? (*executor)->runBytes({{n, 5}}) : 0;
  };
  for (auto [dtype, size] : {std::pair(DType::F32, 4), {DType::BF16, 2}}) {
    const int64_t queries = 5 * n * 4 * 64 * size;
    const int64_t more = bytes(rolling, dtype) - bytes(plain, dtype);
    EXPECT_GE(more, queries);
    EXPECT_LT(more, queries + queries / 4);
  }
}

} // namespace
