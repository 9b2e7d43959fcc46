//===- GemmTest.cpp - Linear layers: right, and the same in every batch ---===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/device/cpu/Gemm.h"
#include "runtime/base/Parallel.h"
#include "runtime/tensor/Convert.h"

#include <atomic>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstring>
#include <numeric>
#include <random>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

using namespace heddle;
using namespace heddle::rt;
using namespace heddle::rt::cpu;

namespace {

/// Random values of T, kept in fp32 too.
struct Matrix {
  Matrix(DType type, int64_t rows, int64_t columns, unsigned seed)
      : type(type), columns(columns), values(rows * columns),
        bytes(rows * columns * byteSize(type)) {
    std::mt19937 engine(seed);
    std::normal_distribution<float> normal;
    for (float &value : values) {
      value = normal(engine);
      if (type == DType::BF16)
        value = fromBF16(toBF16(value));
    }
    convert(DType::F32, values.data(), type, bytes.data(), values.size());
  }
  const char *row(int64_t i) const {
    return &bytes[i * columns * byteSize(type)];
  }
  DType type;
  int64_t columns;
  std::vector<float> values;
  std::vector<char> bytes;
};

class GemmTest : public testing::TestWithParam<DType> {
protected:
  void TearDown() override { setThreadCount(0); }

  PackedLinear pack(const Matrix &weights, std::vector<int64_t> chunks) {
    Result<PackedLinear> layer =
        PackedLinear::plan(gemm, weights.columns, chunks);
    EXPECT_TRUE(layer) << layer.error().text();
    EXPECT_TRUE(layer->allocate());
    int64_t first = 0;
    for (size_t i = 0; i < chunks.size(); ++i) {
      EXPECT_TRUE(layer->pack(i, weights.row(first)));
      first += chunks[i];
    }
    return std::move(*layer);
  }

  /// y [rows x outputs] of the rows of x listed in `order`.
  std::vector<float> multiply(const PackedLinear &layer, const Matrix &x,
                              const std::vector<int64_t> &order,
                              int64_t outputs) {
    int64_t rowBytes = x.columns * byteSize(x.type);
    std::vector<char> input(paddedRows(order.size()) * rowBytes);
    for (size_t i = 0; i < order.size(); ++i)
      std::memcpy(&input[i * rowBytes], x.row(order[i]), rowBytes);
    std::vector<GemmWorker> workers(threadCount());
    for (GemmWorker &worker : workers)
      EXPECT_TRUE(layer.reserve(worker));
    std::vector<float> y(order.size() * outputs);
    Status status = multiplyTiles(
        layer, {0, layer.chunks()}, input.data(), order.size(), workers,
        [&](int64_t chunk, int64_t firstRow, int64_t rows, const float *tile,
            int) {
          int64_t n = layer.outputs(chunk);
          for (int64_t i = 0; i < rows; ++i)
            std::memcpy(&y[(firstRow + i) * outputs + layer.firstOutput(chunk)],
                        tile + i * n, n * 4);
        });
    EXPECT_TRUE(status);
    return y;
  }

  DType type = GetParam();
  Gemm gemm{type};
};

TEST_P(GemmTest, AgreesWithFP64) {
  constexpr int64_t inputs = 200, outputs = 70, rows = 131;
  Matrix x(type, rows, inputs, 1), w(type, outputs, inputs, 2);
  PackedLinear layer = pack(w, {64, 6});
  EXPECT_GE(layer.bytes(), outputs * inputs * byteSize(type));
  std::vector<int64_t> order(rows);
  for (int64_t i = 0; i < rows; ++i)
    order[i] = i;
  std::vector<float> y = multiply(layer, x, order, outputs);
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < outputs; ++j) {
      double sum = 0, size = 0;
      for (int64_t k = 0; k < inputs; ++k) {
        double term =
            double(x.values[i * inputs + k]) * w.values[j * inputs + k];
        sum += term;
        size += std::abs(term);
      }
      ASSERT_NEAR(y[i * outputs + j], sum, 1e-6 * size) << i << ", " << j;
    }
}

/// The property that everything above relies on. K = 1100 is larger than the
/// blocks in which oneDNN adds up.
TEST_P(GemmTest, ARowDoesNotDependOnBatchPlaceOrThreads) {
  constexpr int64_t inputs = 1100, outputs = 300, rows = 150;
  Matrix x(type, rows, inputs, 3), w(type, outputs, inputs, 4);
  PackedLinear layer = pack(w, {128, 128, 44});
  std::vector<int64_t> forwards(rows), backwards(rows);
  for (int64_t i = 0; i < rows; ++i) {
    forwards[i] = i;
    backwards[i] = rows - 1 - i;
  }
  setThreadCount(1);
  std::vector<float> expected = multiply(layer, x, forwards, outputs);
  auto sameRow = [&](const std::vector<float> &y, int64_t at, int64_t row) {
    return std::memcmp(&y[at * outputs], &expected[row * outputs],
                       outputs * 4) == 0;
  };
  for (int threads : {1, 2, 3}) {
    setThreadCount(threads);
    std::vector<float> y = multiply(layer, x, backwards, outputs);
    for (int64_t i = 0; i < rows; ++i)
      EXPECT_TRUE(sameRow(y, i, backwards[i])) << threads << ", row " << i;
    for (int64_t row : {0, 5, 63, 64, 149})
      EXPECT_TRUE(sameRow(multiply(layer, x, {row}, outputs), 0, row))
          << "row " << row << " alone";
    // Every place of a tile, next to other neighbours.
    std::vector<int64_t> shifted(64, 7);
    for (int64_t place = 0; place < 64; ++place) {
      shifted[place] = 20;
      EXPECT_TRUE(sameRow(multiply(layer, x, shifted, outputs), place, 20))
          << "place " << place;
      shifted[place] = 7;
    }
  }
}

/// Handlers run as in any process: a profiler's, Python's, heddle-run's.
TEST_P(GemmTest, SignalsChangeNothing) {
  constexpr int64_t inputs = 256, outputs = 768, rows = 129;
  static volatile std::sig_atomic_t handled;
  handled = 0;
  struct sigaction action = {}, before;
  action.sa_handler = [](int) { handled = 1; };
  ASSERT_EQ(sigaction(SIGUSR1, &action, &before), 0);
  setThreadCount(1);
  Matrix x(type, rows, inputs, 6), w(type, outputs, inputs, 7);
  PackedLinear layer = pack(w, {outputs});
  std::vector<int64_t> order(rows);
  std::iota(order.begin(), order.end(), 0);
  std::vector<float> expected = multiply(layer, x, order, outputs);
  std::atomic<bool> done = false;
  std::thread sender([&, multiplier = pthread_self()] {
    while (!done) {
      pthread_kill(multiplier, SIGUSR1);
      std::this_thread::sleep_for(std::chrono::microseconds(100));
    }
  });
  for (int i = 0; i < 100; ++i)
    EXPECT_EQ(multiply(layer, x, order, outputs), expected) << i;
  done = true;
  sender.join();
  EXPECT_EQ(handled, 1);
  sigaction(SIGUSR1, &before, nullptr);
}

TEST_P(GemmTest, SaysWhatComputes) {
  Matrix w(type, 64, 64, 5);
  pack(w, {64});
  EXPECT_EQ(gemm.description().find("oneDNN "), 0u) << gemm.description();
  RecordProperty("products", gemm.description());
}

INSTANTIATE_TEST_SUITE_P(Types, GemmTest,
                         testing::Values(DType::F32, DType::BF16),
                         [](const auto &info) {
                           return std::string(name(info.param));
                         });

} // namespace
