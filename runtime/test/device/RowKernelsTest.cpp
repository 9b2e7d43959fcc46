//===- RowKernelsTest.cpp - Row kernels against fp64, on every CPU --------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/device/cpu/RowKernels.h"

#include <cmath>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

using namespace heddle::rt;
using namespace heddle::rt::cpu;

namespace {

/// Rows of T that read and write as floats.
class Row {
public:
  Row(DType type, const std::vector<float> &values)
      : type(type), bytes(values.size() * byteSize(type)) {
    for (size_t i = 0; i < values.size(); ++i) {
      uint16_t half = toBF16(values[i]);
      std::memcpy(&bytes[i * byteSize(type)],
                  type == DType::F32 ? static_cast<const void *>(&values[i])
                                     : &half,
                  byteSize(type));
    }
  }
  float operator[](size_t i) const {
    if (type == DType::BF16) {
      uint16_t half;
      std::memcpy(&half, &bytes[i * 2], 2);
      return fromBF16(half);
    }
    float value;
    std::memcpy(&value, &bytes[i * 4], 4);
    return value;
  }
  void *data() { return bytes.data(); }

  DType type;
  std::vector<char> bytes;
};

float rounded(DType type, float value) {
  return type == DType::F32 ? value : fromBF16(toBF16(value));
}

std::vector<float> randomRow(int64_t n, unsigned seed, float scale = 1) {
  std::mt19937 engine(seed);
  std::normal_distribution<float> normal(0, scale);
  std::vector<float> values(n);
  for (float &value : values)
    value = normal(engine);
  return values;
}

/// (dtype, length): lengths with and without a remainder of every vector width.
class RowKernelsTest
    : public testing::TestWithParam<std::tuple<DType, int64_t>> {
protected:
  DType type = std::get<0>(GetParam());
  int64_t n = std::get<1>(GetParam());
  /// One unit in the last place of T.
  double unit = type == DType::F32 ? 0x1p-23 : 0x1p-8;

  template <typename Check> void forEachISA(Check check) {
    NamedRowKernels list[4];
    int count = listRowKernels(type, list, 4);
    ASSERT_GE(count, 1);
    EXPECT_STREQ(list[count - 1].name, "baseline");
    for (int i = 0; i < count; ++i) {
      SCOPED_TRACE(list[i].name);
      check(*list[i].kernels);
    }
  }
};

TEST_P(RowKernelsTest, RMSNorm) {
  Row x(type, randomRow(n, 1, 3));
  std::vector<float> weight = randomRow(n, 2);
  for (float &value : weight)
    value = rounded(type, value);
  double squares = 0;
  for (int64_t i = 0; i < n; ++i)
    squares += double(x[i]) * x[i];
  double scale = 1 / std::sqrt(squares / n + 1e-5);
  std::vector<char> first;
  forEachISA([&](const RowKernels &kernels) {
    Row y(type, std::vector<float>(n));
    kernels.rmsNorm(x.data(), weight.data(), y.data(), n, 1e-5f);
    for (int64_t i = 0; i < n; ++i)
      EXPECT_NEAR(y[i], x[i] * scale * weight[i],
                  2 * unit * std::abs(x[i] * scale * weight[i]) + 1e-9)
          << i;
    if (first.empty())
      first = y.bytes;
    EXPECT_EQ(y.bytes, first) << "differs between instruction sets";
  });
}

TEST_P(RowKernelsTest, RotateHalves) {
  std::vector<float> x = randomRow(2 * n, 3), cos(n), sin(n);
  for (int64_t i = 0; i < n; ++i) {
    cos[i] = std::cos(0.1f * i);
    sin[i] = std::sin(0.1f * i);
  }
  std::vector<char> first;
  forEachISA([&](const RowKernels &kernels) {
    Row y(type, std::vector<float>(2 * n));
    kernels.rotateHalves(x.data(), cos.data(), sin.data(), y.data(), n);
    for (int64_t i = 0; i < n; ++i) {
      double a = rounded(type, x[i]), b = rounded(type, x[i + n]);
      double size = std::abs(a) + std::abs(b);
      EXPECT_NEAR(y[i], a * cos[i] - b * sin[i], unit * size);
      EXPECT_NEAR(y[i + n], b * cos[i] + a * sin[i], unit * size);
    }
    if (first.empty())
      first = y.bytes;
    EXPECT_EQ(y.bytes, first);
  });
}

/// Every product and sum rounded to T, in the order that PyTorch has.
TEST_P(RowKernelsTest, RotateHalvesInT) {
  std::vector<float> x = randomRow(2 * n, 3), cos(n), sin(n);
  for (int64_t i = 0; i < n; ++i) {
    cos[i] = rounded(type, std::cos(0.1f * i));
    sin[i] = rounded(type, std::sin(0.1f * i));
  }
  auto times = [&](float a, float b) { return rounded(type, a * b); };
  forEachISA([&](const RowKernels &kernels) {
    Row y(type, std::vector<float>(2 * n));
    kernels.rotateHalvesInT(x.data(), cos.data(), sin.data(), y.data(), n);
    for (int64_t i = 0; i < n; ++i) {
      float a = rounded(type, x[i]), b = rounded(type, x[i + n]);
      EXPECT_EQ(y[i], rounded(type, times(a, cos[i]) + times(-b, sin[i])));
      EXPECT_EQ(y[i + n], rounded(type, times(b, cos[i]) + times(a, sin[i])));
    }
  });
}

TEST_P(RowKernelsTest, SwiGlu) {
  std::vector<float> gate = randomRow(n, 4, 6), up = randomRow(n, 5);
  gate[0] = 100;
  if (n > 2) {
    gate[1] = -100;
    gate[2] = -0.0f;
  }
  std::vector<char> first;
  forEachISA([&](const RowKernels &kernels) {
    Row y(type, std::vector<float>(n));
    kernels.swiGlu(gate.data(), up.data(), y.data(), n);
    for (int64_t i = 0; i < n; ++i) {
      double z = rounded(type, gate[i]), u = rounded(type, up[i]);
      double expected = z / (1 + std::exp(-z)) * u;
      // Two roundings to T, and an fp32 exponential.
      EXPECT_NEAR(y[i], expected,
                  (2 * unit + 0x1p-20) * std::abs(expected) + 1e-30)
          << z;
    }
    if (first.empty())
      first = y.bytes;
    EXPECT_EQ(y.bytes, first);
  });
}

TEST_P(RowKernelsTest, NaNAndInfinityStayVisible) {
  std::vector<float> gate(n, NAN), up(n, 1);
  forEachISA([&](const RowKernels &kernels) {
    Row y(type, std::vector<float>(n));
    kernels.swiGlu(gate.data(), up.data(), y.data(), n);
    for (int64_t i = 0; i < n; ++i)
      EXPECT_TRUE(std::isnan(y[i]));
    kernels.store(std::vector<float>(n, -INFINITY).data(), y.data(), n);
    for (int64_t i = 0; i < n; ++i)
      EXPECT_EQ(y[i], -INFINITY);
  });
}

TEST_P(RowKernelsTest, StoreRoundAddWiden) {
  std::vector<float> x = randomRow(n, 6), base = randomRow(n, 7);
  forEachISA([&](const RowKernels &kernels) {
    Row y(type, std::vector<float>(n));
    kernels.store(x.data(), y.data(), n);
    std::vector<float> wide(n), roundedRow(n);
    kernels.widen(y.data(), wide.data(), n);
    kernels.round(x.data(), roundedRow.data(), n);
    for (int64_t i = 0; i < n; ++i) {
      EXPECT_EQ(y[i], rounded(type, x[i]));
      EXPECT_EQ(wide[i], rounded(type, x[i]));
      EXPECT_EQ(roundedRow[i], rounded(type, x[i]));
    }
    Row sum(type, base);
    kernels.addTo(x.data(), sum.data(), n);
    for (int64_t i = 0; i < n; ++i)
      EXPECT_EQ(sum[i],
                rounded(type, rounded(type, base[i]) + rounded(type, x[i])));
  });
}

INSTANTIATE_TEST_SUITE_P(
    Types, RowKernelsTest,
    testing::Combine(testing::Values(DType::F32, DType::BF16),
                     testing::Values(1, 7, 16, 64, 101, 256)),
    [](const auto &info) {
      return std::string(name(std::get<0>(info.param))) + "_" +
             std::to_string(std::get<1>(info.param));
    });

} // namespace
