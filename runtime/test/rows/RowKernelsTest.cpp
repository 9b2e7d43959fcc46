//===- RowKernelsTest.cpp - The model's row kernels on a GPU --------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Each kernel against the host's own row kernels, for f32 and bf16, or the same
// formula in f16, which the host does not compute in.
//
//===----------------------------------------------------------------------===//

#include "runtime/device/cpu/RowKernels.h"
#include "runtime/tensor/Convert.h"
#include "runtime/test/rows/RowMachine.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdio>
#include <limits>

namespace heddle::rt::cuda::test {
namespace {

using bundle::RowOp;

class RowKernelsTest : public RowTest {
protected:
  /// One unit in the last place of T at `value`.
  float unit(float value) const {
    int bits = dtype() == DType::F32 ? 23 : dtype() == DType::BF16 ? 7 : 10;
    int least = dtype() == DType::F16 ? -14 : -126;
    return std::ldexp(
        1.0f, std::max(std::ilogb(value == 0 ? 1e-30f : value), least) - bits);
  }

  /// The host's order of additions and exponential are its own: the value that
  /// is rounded first may round to the neighbour, and the second rounding add
  /// as much (in f32, nothing is rounded: `f32Units`). That happens rarely.
  void expectNear(const std::vector<float> &got,
                  const std::vector<float> &expected, float f32Units) {
    ASSERT_EQ(got.size(), expected.size());
    float most = dtype() == DType::F32 ? f32Units : 2;
    int64_t unequal = 0;
    for (size_t i = 0; i < got.size(); ++i) {
      ASSERT_LE(std::abs(got[i] - expected[i]), most * unit(expected[i]))
          << "element " << i << ": " << got[i] << ", expected " << expected[i];
      unequal += got[i] != expected[i];
    }
    if (dtype() != DType::F32) {
      EXPECT_LE(unequal, static_cast<int64_t>(got.size() / 50 + 2));
    }
  }

  std::vector<float> hostRmsNorm(const std::vector<float> &t,
                                 const std::vector<float> &weight, float eps);
  std::vector<float> hostSwiGlu(const std::vector<float> &x, int64_t width);
};

std::vector<float> RowKernelsTest::hostRmsNorm(const std::vector<float> &t,
                                               const std::vector<float> &weight,
                                               float eps) {
  auto n = static_cast<int64_t>(t.size());
  std::vector<float> y(n);
  if (dtype() == DType::F16) {
    double sum = 0;
    for (float value : t)
      sum += static_cast<double>(value) * value;
    auto scale =
        static_cast<float>(1 / std::sqrt(sum / static_cast<double>(n) + eps));
    for (int64_t i = 0; i < n; ++i)
      y[i] = round(round(t[i] * scale) * weight[i]);
    return y;
  }
  std::vector<float> in(n), out(n); // room and alignment for either type
  convert(DType::F32, t.data(), dtype(), in.data(), n);
  cpu::rowKernels(dtype()).rmsNorm(in.data(), weight.data(), out.data(), n,
                                   eps);
  convert(dtype(), out.data(), DType::F32, y.data(), n);
  return y;
}

std::vector<float> RowKernelsTest::hostSwiGlu(const std::vector<float> &x,
                                              int64_t width) {
  std::vector<float> y(width);
  if (dtype() == DType::F16) {
    for (int64_t i = 0; i < width; ++i)
      y[i] = round(round(x[i] / (1 + std::exp(-x[i]))) * x[width + i]);
    return y;
  }
  std::vector<float> out(width);
  cpu::rowKernels(dtype()).swiGlu(x.data(), x.data() + width, out.data(),
                                  width);
  convert(dtype(), out.data(), DType::F32, y.data(), width);
  return y;
}

std::vector<float> row(const std::vector<float> &matrix, int64_t r,
                       int64_t width) {
  return {matrix.begin() + r * width, matrix.begin() + (r + 1) * width};
}

void append(std::vector<float> &to, const std::vector<float> &values) {
  to.insert(to.end(), values.begin(), values.end());
}

TEST_P(RowKernelsTest, Embed) {
  const int64_t rows = 37, vocab = 211;
  for (int64_t width : widths({8, 40, 256, 4096})) {
    std::vector<float> table = random(vocab * width);
    std::vector<int32_t> tokens(rows);
    for (int32_t &token : tokens)
      token = static_cast<int32_t>(engine() % vocab);
    tokens[0] = 0;
    tokens[1] = vocab - 1;
    auto deviceTable = uploadElements(table);
    auto deviceTokens = upload(tokens);
    auto y = elementRoom(rows * width);
    launch(RowOp::Embed, rows,
           abi::EmbedArgs{.tokens = deviceTokens.as<int32_t>(),
                          .table = deviceTable.as<void>(),
                          .y = y.as<void>(),
                          .width = width});
    std::vector<float> expected;
    for (int32_t token : tokens)
      append(expected, row(table, token, width));
    EXPECT_EQ(readElements(y), expected) << width;
  }
}

TEST_P(RowKernelsTest, RmsNorm) {
  const float eps = 1e-5f;
  // From one group of columns to more than registers hold.
  for (int64_t width :
       widths({8, 16, 256, 1000, 3584, 4096, 8192, 8200, 12288, 20480}))
    for (bool added : {false, true}) {
      const int64_t rows = 5;
      std::vector<float> x = random(rows * width), delta = random(rows * width),
                         weight = random(width);
      auto deviceX = uploadElements(x), deviceDelta = uploadElements(delta),
           deviceWeight = uploadElements(weight);
      auto y = elementRoom(rows * width);
      launch(RowOp::RmsNorm, rows,
             abi::RmsNormArgs{.x = deviceX.as<void>(),
                              .delta = added ? deviceDelta.as<void>() : nullptr,
                              .weight = deviceWeight.as<void>(),
                              .y = y.as<void>(),
                              .index = nullptr,
                              .shift = 0,
                              .width = width,
                              .eps = eps});
      std::vector<float> t = x, expected;
      if (added)
        for (size_t i = 0; i < t.size(); ++i)
          t[i] = round(x[i] + delta[i]);
      for (int64_t r = 0; r < rows; ++r)
        append(expected, hostRmsNorm(row(t, r, width), weight, eps));
      SCOPED_TRACE(width);
      expectNear(readElements(y), expected, 8);
      EXPECT_EQ(readElements(deviceX), t);
    }
}

TEST_P(RowKernelsTest, RmsNormOfListedRows) {
  const int64_t rows = 7, width = 520, shift = 3;
  const float eps = 1e-6f;
  std::vector<float> x = random(rows * width), delta = random(rows * width),
                     weight = random(width);
  std::vector<int32_t> index = {2, -1, 0, 3};
  auto deviceX = uploadElements(x), deviceDelta = uploadElements(delta),
       deviceWeight = uploadElements(weight);
  auto deviceIndex = upload(index);
  auto y = uploadElements(std::vector<float>(index.size() * width, 7.0f));
  launch(RowOp::RmsNorm, static_cast<int64_t>(index.size()),
         abi::RmsNormArgs{.x = deviceX.as<void>(),
                          .delta = deviceDelta.as<void>(),
                          .weight = deviceWeight.as<void>(),
                          .y = y.as<void>(),
                          .index = deviceIndex.as<int32_t>(),
                          .shift = shift,
                          .width = width,
                          .eps = eps});
  std::vector<float> expected;
  for (int32_t r : index) {
    std::vector<float> t(width, 7.0f);
    if (r >= 0) {
      for (int64_t j = 0; j < width; ++j)
        t[j] =
            round(x[(r + shift) * width + j] + delta[(r + shift) * width + j]);
      t = hostRmsNorm(t, weight, eps);
    }
    append(expected, t);
  }
  expectNear(readElements(y), expected, 8);
  EXPECT_EQ(readElements(deviceX), x) << "listed rows are not stored";
}

TEST_P(RowKernelsTest, Rotate) {
  const int64_t rows = 11, positions = 300;
  for (auto [headDim, heads, inElements] : {std::array<int64_t, 3>{32, 1, 0},
                                            {32, 64, 1},
                                            {64, 3, 0},
                                            {64, 1, 1},
                                            {96, 64, 0},
                                            {96, 3, 1},
                                            {128, 1, 0},
                                            {128, 64, 0},
                                            {128, 32, 1},
                                            {256, 3, 0},
                                            {256, 3, 1}}) {
    const int64_t half = headDim / 2, stride = (heads + 2) * headDim;
    std::vector<float> x = random(rows * stride);
    std::vector<float> cos(positions * half), sin(positions * half);
    for (size_t i = 0; i < cos.size(); ++i) {
      cos[i] = std::cos(static_cast<float>(i) * 0.37f);
      sin[i] = std::sin(static_cast<float>(i) * 0.37f);
    }
    std::vector<int32_t> position(rows);
    for (int32_t &p : position)
      p = static_cast<int32_t>(engine() % positions);
    auto deviceX = uploadElements(x);
    auto deviceCos = upload(cos), deviceSin = upload(sin);
    auto devicePosition = upload(position);
    launch(RowOp::Rotate, rows,
           abi::RotateArgs{.x = deviceX.as<void>(),
                           .cos = deviceCos.as<float>(),
                           .sin = deviceSin.as<float>(),
                           .position = devicePosition.as<int32_t>(),
                           .heads = heads,
                           .half = half,
                           .stride = stride,
                           .inElements = inElements});
    std::vector<float> expected = x;
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t h = 0; h < heads; ++h)
        for (int64_t j = 0; j < half; ++j) {
          float *a = &expected[r * stride + h * headDim + j], *b = a + half;
          // Volatile: each product is rounded, as on the host and the device.
          auto inT = [&](float value) {
            return inElements ? round(value) : value;
          };
          float c = inT(cos[position[r] * half + j]),
                s = inT(sin[position[r] * half + j]);
          volatile float ac = inT(*a * c), bs = inT(*b * s), bc = inT(*b * c),
                         as = inT(*a * s);
          *a = round(ac - bs);
          *b = round(bc + as);
        }
    EXPECT_EQ(readElements(deviceX), expected)
        << headDim << " x " << heads << (inElements ? " in T" : "");
  }
}

TEST_P(RowKernelsTest, SwiGlu) {
  for (int64_t width : widths({8, 24, 1000, 4096, 12288})) {
    const int64_t rows = 3;
    std::vector<float> x = random(rows * 2 * width, 4);
    x[0] = round(-100); // beyond where exp(-x) is finite
    x[1] = round(100);
    x[2] = 0;
    auto deviceX = uploadElements(x);
    auto y = elementRoom(rows * width);
    launch(RowOp::SwiGlu, rows,
           abi::SwiGluArgs{
               .x = deviceX.as<void>(), .y = y.as<void>(), .width = width});
    std::vector<float> got = readElements(y), expected;
    for (int64_t r = 0; r < rows; ++r)
      append(expected, hostSwiGlu(row(x, r, 2 * width), width));
    EXPECT_NEAR(got[0], expected[0], 1e-30f);
    got[0] = expected[0];
    SCOPED_TRACE(width);
    expectNear(got, expected, 16);
  }
}

//===----------------------------------------------------------------------===//
// Rows that are kept. Strides are wider than rows, and what lies between rows
// and in rows that no index names stays as it was.
//===----------------------------------------------------------------------===//

/// One row for each block: through an index, or row i.
int64_t rowOf(const std::vector<int32_t> *index, int64_t i) {
  return index ? (*index)[i] : i;
}

TEST_P(RowKernelsTest, Copy) {
  const int64_t rows = 9;
  const std::vector<int32_t> from = {4, -1, 0, 8, 3}, to = {7, 2, 8, 0, 4};
  auto deviceFrom = upload(from), deviceTo = upload(to);
  for (int64_t width : widths({8, 72, 2048, 4104}))
    for (int64_t padding : {0, 24})
      for (int bits = 0; bits < 4; ++bits) {
        const int64_t xStride = width + padding, yStride = width + 2 * padding;
        std::vector<float> x = random(rows * xStride),
                           y = random(rows * yStride);
        auto deviceX = uploadElements(x), deviceY = uploadElements(y);
        launch(
            RowOp::Copy, from.size(),
            abi::CopyArgs{.x = deviceX.as<void>(),
                          .from = bits & 1 ? deviceFrom.as<int32_t>() : nullptr,
                          .xStride = xStride,
                          .y = deviceY.as<void>(),
                          .to = bits & 2 ? deviceTo.as<int32_t>() : nullptr,
                          .yStride = yStride,
                          .width = width});
        for (size_t i = 0; i < from.size(); ++i) {
          int64_t source = rowOf(bits & 1 ? &from : nullptr, i);
          auto target =
              y.begin() + rowOf(bits & 2 ? &to : nullptr, i) * yStride;
          if (source < 0)
            std::fill_n(target, width, 0.0f);
          else
            std::copy_n(x.begin() + source * xStride, width, target);
        }
        EXPECT_EQ(readElements(deviceY), y)
            << width << " + " << padding << ", indices " << bits;
      }
}

TEST_P(RowKernelsTest, Change) {
  if (lacks(RowOp::Change))
    GTEST_SKIP() << "the bundle's schedule needs no such kernel";
  const int64_t rows = 9;
  const std::vector<int32_t> from = {4, 1, 0, 8, 3}, to = {7, 2, 8, 0, 4};
  auto deviceFrom = upload(from), deviceTo = upload(to);
  for (int64_t width : widths({8, 72, 512, 4104}))
    for (int bits = 0; bits < 4; ++bits) {
      const int64_t xStride = width + 40;
      std::vector<float> x = random(rows * xStride), y = random(rows * width),
                         changed = random(rows * width);
      auto deviceX = uploadElements(x), deviceY = uploadElements(y),
           deviceChange = uploadElements(changed);
      launch(
          RowOp::Change, from.size(),
          abi::ChangeArgs{.x = deviceX.as<void>(),
                          .from = bits & 1 ? deviceFrom.as<int32_t>() : nullptr,
                          .xStride = xStride,
                          .y = deviceY.as<void>(),
                          .change = deviceChange.as<void>(),
                          .to = bits & 2 ? deviceTo.as<int32_t>() : nullptr,
                          .width = width});
      for (size_t i = 0; i < from.size(); ++i)
        for (int64_t j = 0; j < width; ++j) {
          int64_t at = rowOf(bits & 2 ? &to : nullptr, i) * width + j;
          float now = x[rowOf(bits & 1 ? &from : nullptr, i) * xStride + j];
          changed[at] = round(now - y[at]);
          y[at] = now;
        }
      EXPECT_EQ(readElements(deviceChange), changed) << width << ", " << bits;
      EXPECT_EQ(readElements(deviceY), y) << width << ", indices " << bits;
    }
}

/// The cosine in float64.
double exactCosine(const std::vector<float> &a, const std::vector<float> &b) {
  double ab = 0, aa = 0, bb = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    ab += static_cast<double>(a[i]) * b[i];
    aa += static_cast<double>(a[i]) * a[i];
    bb += static_cast<double>(b[i]) * b[i];
  }
  return ab / std::sqrt(std::max(aa, 1e-8) * std::max(bb, 1e-8));
}

TEST_P(RowKernelsTest, Compare) {
  if (lacks(RowOp::Compare))
    GTEST_SKIP() << "the bundle's schedule needs no such kernel";
  const int64_t rows = 9;
  const std::vector<int32_t> from = {4, 1, 0, 8, 3}, at = {5, 0, 3, 1, 7},
                             to = {7, 2, 8, 0, 4};
  const auto count = static_cast<int64_t>(from.size());
  auto deviceFrom = upload(from), deviceAt = upload(at), deviceTo = upload(to);
  enum { From = 1, At = 2, To = 4, Y = 8, Asked = 16, All = 32 };
  for (int64_t width : widths({8, 72, 512, 4104}))
    for (int bits = 0; bits < All; ++bits)
      for (int64_t flags = 0; flags < 4; ++flags) {
        const int64_t xStride = width + 40, yStride = width + 16;
        // Some rows are small changes, some are unlike.
        std::vector<float> x = random(rows * xStride, bits % 3 ? 1 : 0.01f),
                           cache = random(rows * width),
                           y = random(rows * yStride);
        auto deviceX = uploadElements(x), deviceCache = uploadElements(cache),
             deviceY = uploadElements(y);
        auto similarity = upload(std::vector<float>(count, 7.0f));
        launch(
            RowOp::Compare, count,
            abi::CompareArgs{
                .x = deviceX.as<void>(),
                .from = bits & From ? deviceFrom.as<int32_t>() : nullptr,
                .xStride = xStride,
                .cache = deviceCache.as<void>(),
                .at = bits & At ? deviceAt.as<int32_t>() : nullptr,
                .y = bits & Y ? deviceY.as<void>() : nullptr,
                .to = bits & To ? deviceTo.as<int32_t>() : nullptr,
                .yStride = yStride,
                .similarity = bits & Asked ? similarity.as<float>() : nullptr,
                .width = width,
                .flags = flags});
        std::vector<float> got = similarity.read<float>();
        for (int64_t i = 0; i < count; ++i) {
          int64_t kept = rowOf(bits & At ? &at : nullptr, i);
          std::vector<float> c = row(cache, kept, width), t = c;
          for (int64_t j = 0; j < width; ++j) {
            float added =
                x[rowOf(bits & From ? &from : nullptr, i) * xStride + j];
            t[j] = flags & abi::compareAdds ? c[j] + added : added;
          }
          EXPECT_NEAR(got[i], bits & Asked ? exactCosine(t, c) : 7, 1e-5);
          for (int64_t j = 0; j < width; ++j) {
            if (flags & abi::compareStores)
              cache[kept * width + j] = round(t[j]);
            if (bits & Y)
              y[rowOf(bits & To ? &to : nullptr, i) * yStride + j] =
                  round(t[j]);
          }
        }
        EXPECT_EQ(readElements(deviceCache), cache)
            << width << ", given " << bits << ", flags " << flags;
        EXPECT_EQ(readElements(deviceY), y)
            << width << ", given " << bits << ", flags " << flags;
      }
}

TEST_P(RowKernelsTest, Merge) {
  if (lacks(RowOp::Merge))
    GTEST_SKIP() << "the bundle's schedule needs no such kernel";
  constexpr float none = -std::numeric_limits<float>::infinity();
  const float nan = std::nanf("");
  const int64_t rows = 9;
  const std::vector<int32_t> from = {4, 1, 0, 8, 3}, at = {5, 0, 3, 1, 7},
                             to = {7, 2, 8, 0, 4};
  const auto count = static_cast<int64_t>(from.size());
  auto deviceFrom = upload(from), deviceAt = upload(at), deviceTo = upload(to);
  enum { From = 1, At = 2, To = 4, Y = 8, Kept = 16, New = 32, All = 64 };
  struct Shape {
    int64_t heads, headDim;
  };
  for (auto [heads, headDim] :
       {Shape{1, 8}, {3, 24}, {4, 64}, {7, 128}, {16, 128}})
    for (int bits = 0; bits < All; ++bits) {
      const int64_t width = heads * headDim;
      const int64_t xStride = width + 40, yStride = width + 16;
      std::vector<float> x = random(rows * xStride),
                         cache = random(rows * width),
                         y = random(rows * yStride), lse, kept;
      // Log-sum-exps of two launches, of 3 and 2 rows, and of kept rows.
      for (int64_t i = 0; i < count * heads; ++i)
        lse.push_back(static_cast<float>(engine() % 40) - 20);
      for (int64_t i = 0; i < rows * heads; ++i)
        kept.push_back(static_cast<float>(engine() % 4000) / 100 - 20);
      std::vector<int64_t> lseAt = {2, 1, 0, 3 * heads, 3 * heads + 1};
      std::vector<int32_t> lseStride = {3, 3, 3, 2, 2};
      auto keptRow = [&](int64_t i) {
        return rowOf(bits & At ? &at : nullptr, i);
      };
      auto xAt = [&](int64_t i, int64_t e) {
        return rowOf(bits & From ? &from : nullptr, i) * xStride + e;
      };
      // Of row 0 nothing is new, of row 1 nothing kept, of row 3 nothing at all
      // in one head; what has no key may be anything.
      const int64_t h0 = heads - 1;
      lse[lseAt[0] + h0 * lseStride[0]] = none;
      lse[lseAt[3] + h0 * lseStride[3]] = none;
      kept[keptRow(1) * heads + h0] = kept[keptRow(3) * heads + h0] = none;
      for (int64_t e = h0 * headDim; e < width && bits & Kept; ++e) {
        x[xAt(0, e)] = x[xAt(3, e)] = nan;
        cache[keptRow(1) * width + e] = cache[keptRow(3) * width + e] = nan;
      }
      auto deviceX = uploadElements(x), deviceCache = uploadElements(cache),
           deviceY = uploadElements(y);
      auto deviceLse = upload(lse), deviceKept = upload(kept);
      auto deviceLseAt = upload(lseAt);
      auto deviceStride = upload(lseStride);
      std::vector<float> fresh(rows * heads, 7);
      auto deviceNew = upload(fresh);
      launch(RowOp::Merge, count,
             abi::MergeArgs{
                 .x = deviceX.as<void>(),
                 .from = bits & From ? deviceFrom.as<int32_t>() : nullptr,
                 .xStride = xStride,
                 .lse = deviceLse.as<float>(),
                 .lseAt = deviceLseAt.as<int64_t>(),
                 .lseStride = deviceStride.as<int32_t>(),
                 .cache = deviceCache.as<void>(),
                 .at = bits & At ? deviceAt.as<int32_t>() : nullptr,
                 .keptLse = bits & Kept ? deviceKept.as<float>() : nullptr,
                 .newLse = bits & New ? deviceNew.as<float>() : nullptr,
                 .y = bits & Y ? deviceY.as<void>() : nullptr,
                 .to = bits & To ? deviceTo.as<int32_t>() : nullptr,
                 .yStride = yStride,
                 .heads = heads,
                 .headDim = headDim});
      std::vector<float> gotCache = readElements(deviceCache),
                         gotY = readElements(deviceY),
                         gotNew = deviceNew.read<float>();
      // Rows that none of the launch's are.
      std::vector<float> ownCache = cache, ownY = y, ownNew = fresh;
      for (int64_t i = 0; i < count; ++i)
        for (int64_t h = 0; h < heads; ++h) {
          const int64_t row = keptRow(i);
          const double l = lse[lseAt[i] + h * lseStride[i]];
          const double k =
              bits & Kept ? double(kept[row * heads + h]) : -INFINITY;
          const double sum = std::exp2(l) + std::exp2(k);
          SCOPED_TRACE(testing::Message()
                       << heads << " heads of " << headDim << ", given " << bits
                       << ", row " << i << ", head " << h);
          if (bits & New) {
            const float found = gotNew[row * heads + h];
            if (sum > 0)
              EXPECT_NEAR(found, std::log2(sum), 1e-5);
            else
              EXPECT_EQ(found, none);
            ownNew[row * heads + h] = found;
          }
          for (int64_t e = h * headDim; e < (h + 1) * headDim; ++e) {
            const double now = x[xAt(i, e)], before = cache[row * width + e];
            const double exact =
                !(bits & Kept) ? now
                : sum > 0
                    ? (std::exp2(l) > 0 ? std::exp2(l) * now / sum : 0) +
                          (std::exp2(k) > 0 ? std::exp2(k) * before / sum : 0)
                    : 0;
            const int64_t yAt =
                rowOf(bits & To ? &to : nullptr, i) * yStride + e;
            const float found =
                bits & Y ? gotY[yAt] : gotCache[row * width + e];
            // What is rounded are the parts, which may cancel out.
            const double size =
                !(bits & Kept) || sum == 0
                    ? std::abs(exact)
                    : ((std::exp2(l) > 0 ? std::exp2(l) * std::abs(now) : 0) +
                       (std::exp2(k) > 0 ? std::exp2(k) * std::abs(before)
                                         : 0)) /
                          sum;
            const double ulp = dtype() == DType::F32    ? 4e-6
                               : dtype() == DType::BF16 ? 1.0 / 128
                                                        : 1.0 / 1024;
            ASSERT_NEAR(found, exact, ulp * size + 1e-7);
            (bits & Y ? ownY[yAt] : ownCache[row * width + e]) = found;
          }
        }
      // Nothing else has changed: NaNs are compared by their places.
      auto bitsOf = [](const std::vector<float> &values) {
        std::vector<uint32_t> words;
        for (float value : values)
          words.push_back(std::isnan(value) ? 1
                                            : std::bit_cast<uint32_t>(value));
        return words;
      };
      EXPECT_EQ(bitsOf(gotCache), bitsOf(ownCache));
      EXPECT_EQ(bitsOf(gotY), bitsOf(ownY));
      EXPECT_EQ(gotNew, ownNew);
    }
}

TEST_P(RowKernelsTest, CompareOfEqualZeroAndBrokenRows) {
  if (lacks(RowOp::Compare))
    GTEST_SKIP() << "the bundle's schedule needs no such kernel";
  for (int64_t width : {8, 136, 4096}) {
    // Equal, equal, opposite, zeros, not a number.
    std::vector<float> cache = random(5 * width), x = cache;
    for (int64_t j = 0; j < width; ++j) {
      x[2 * width + j] = -x[2 * width + j];
      cache[3 * width + j] = 0;
    }
    cache[5 * width - 1] = std::nanf("");
    auto deviceX = uploadElements(x), deviceCache = uploadElements(cache);
    auto similarity = room<float>(5);
    // In place: y is x.
    launch(RowOp::Compare, 5,
           abi::CompareArgs{.x = deviceX.as<void>(),
                            .from = nullptr,
                            .xStride = width,
                            .cache = deviceCache.as<void>(),
                            .at = nullptr,
                            .y = deviceX.as<void>(),
                            .to = nullptr,
                            .yStride = width,
                            .similarity = similarity.as<float>(),
                            .width = width,
                            .flags = abi::compareStores});
    std::vector<float> got = similarity.read<float>();
    EXPECT_EQ(got[0], 1.0f) << width;
    EXPECT_EQ(got[1], 1.0f) << width;
    EXPECT_EQ(got[2], -1.0f) << width;
    EXPECT_EQ(got[3], 0.0f) << width;
    EXPECT_TRUE(std::isnan(got[4])) << width;
    EXPECT_EQ(readElements(deviceX), x);
    EXPECT_EQ(readElements(deviceCache), x);

    // What adds nothing changes nothing.
    auto zeros = uploadElements(std::vector<float>(3 * width));
    launch(RowOp::Compare, 3,
           abi::CompareArgs{.x = zeros.as<void>(),
                            .from = nullptr,
                            .xStride = width,
                            .cache = deviceCache.as<void>(),
                            .at = nullptr,
                            .y = nullptr,
                            .to = nullptr,
                            .yStride = 0,
                            .similarity = similarity.as<float>(),
                            .width = width,
                            .flags = abi::compareAdds | abi::compareStores});
    got = similarity.read<float>();
    for (int64_t i : {0, 1, 2})
      EXPECT_EQ(got[i], 1.0f) << width;
    EXPECT_EQ(readElements(deviceCache), x);
  }
}

/// They move each byte once: rates beside that of a copy on the same device. A
/// measurement, so it runs only with --gtest_also_run_disabled_tests.
TEST_P(RowKernelsTest, DISABLED_RatesBesideACopy) {
  const int64_t rows = 16384;
  auto timeOf = [&](auto &&work) -> double {
    Result<cuda::Event> begin = cuda::Event::create(*context, true),
                        end = cuda::Event::create(*context, true);
    if (!begin || !end)
      return 0;
    std::vector<double> times;
    for (int i = 0; i < 9; ++i) {
      EXPECT_TRUE(stream->record(*begin));
      work();
      EXPECT_TRUE(stream->record(*end));
      EXPECT_TRUE(end->synchronize());
      Result<double> ms = cuda::Event::elapsed(*begin, *end);
      EXPECT_TRUE(ms);
      times.push_back(ms ? *ms : 0);
    }
    std::sort(times.begin(), times.end());
    return times[times.size() / 2];
  };
  for (int64_t width : {4096, 12288}) {
    const int64_t bytes = rows * width * byteSize(dtype());
    auto x = elementRoom(2 * rows * width), y = elementRoom(rows * width);
    auto delta = elementRoom(rows * width), weight = elementRoom(width);
    for (DeviceArray *array : {&x, &delta}) {
      auto address = reinterpret_cast<uintptr_t>(array->as<void>());
      EXPECT_TRUE(stream->fillBytes(address, 0, bytes));
    }
    auto rate = [&](const char *what, double moved, auto &&work) {
      double ms = timeOf(work);
      double gigabytes = moved / ms / 1e6;
      std::printf("%s %s width %ld: %.3f ms, %.0f GB/s\n",
                  std::string(name(dtype())).c_str(), what,
                  static_cast<long>(width), ms, gigabytes);
      return gigabytes;
    };
    double copy = rate("copy", 2.0 * bytes, [&] {
      EXPECT_TRUE(stream->copyOnDevice(
          reinterpret_cast<uintptr_t>(y.as<void>()),
          reinterpret_cast<uintptr_t>(x.as<void>()), bytes));
    });
    abi::RmsNormArgs norm{.x = x.as<void>(),
                          .delta = delta.as<void>(),
                          .weight = weight.as<void>(),
                          .y = y.as<void>(),
                          .index = nullptr,
                          .shift = 0,
                          .width = width,
                          .eps = 1e-5};
    double added = rate("residual and norm", 4.0 * bytes, [&] {
      start(RowOp::RmsNorm, rows, &norm, abi::RmsNormArgs::fields);
    });
    norm.delta = nullptr;
    double plain = rate("norm", 2.0 * bytes, [&] {
      start(RowOp::RmsNorm, rows, &norm, abi::RmsNormArgs::fields);
    });
    abi::SwiGluArgs glu{.x = x.as<void>(), .y = y.as<void>(), .width = width};
    double swiGlu = rate("swiglu", 3.0 * bytes, [&] {
      start(RowOp::SwiGlu, rows, &glu, abi::SwiGluArgs::fields);
    });
    EXPECT_GE(added, 0.7 * copy);
    EXPECT_GE(plain, 0.7 * copy);
    EXPECT_GE(swiGlu, 0.7 * copy);
  }
}

INSTANTIATE_ON_MACHINES_AND_TYPES(RowKernelsTest);

} // namespace
} // namespace heddle::rt::cuda::test
