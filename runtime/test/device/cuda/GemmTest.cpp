//===- GemmTest.cpp - Products: right, and the same in every batch --------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/device/cuda/Gemm.h"
#include "runtime/device/cuda/Arena.h"
#include "runtime/device/cuda/Graph.h"
#include "runtime/tensor/Convert.h"
#include "runtime/test/device/cuda/Fixture.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>

using namespace heddle;
using namespace heddle::rt;
using namespace heddle::rt::cuda;
using namespace heddle::rt::cuda::test;

namespace {

/// Values of a type, as fp32 and as bytes.
struct Values {
  Values(DType dtype, int64_t count, unsigned seed)
      : floats(count), bytes(count * byteSize(dtype)) {
    std::mt19937 engine(seed);
    std::normal_distribution<float> normal;
    for (float &value : floats)
      value = normal(engine);
    convert(DType::F32, floats.data(), dtype, bytes.data(), count);
    convert(dtype, bytes.data(), DType::F32, floats.data(), count);
  }
  std::vector<float> floats;
  std::vector<char> bytes;
};

class GemmTest : public DeviceTest {
protected:
  /// Operands for a shape, random, and a workspace.
  struct Problem {
    Arena arena;
    GemmOperands operands;
    DevicePtr workspace = 0;
    int64_t xStride = 0, yStride = 0;
    Values x, weights, y, bias;
  };
  Problem make(const GemmShape &shape) {
    int64_t size = byteSize(shape.dtype);
    int64_t xStride = shape.xStride ? shape.xStride : shape.inputs;
    int64_t yStride = shape.yStride ? shape.yStride : shape.outputs;
    ArenaPlan plan;
    auto x = plan.add("x", shape.rows * xStride * size);
    auto weights = plan.add("weights", shape.outputs * shape.inputs * size);
    auto y = plan.add("y", shape.rows * yStride * size);
    auto bias = plan.add("bias", shape.bias ? shape.outputs * size : 0);
    auto workspace = plan.add("workspace", Gemm::workspaceBytes);
    ArenaOptions options;
    options.poison = true;
    Result<Arena> arena = Arena::allocate(device(), plan, options);
    EXPECT_TRUE(arena) << arena.error().text();
    Problem problem{std::move(*arena),
                    {},
                    0,
                    xStride,
                    yStride,
                    Values(shape.dtype, shape.rows * xStride, 1),
                    Values(shape.dtype, shape.outputs * shape.inputs, 2),
                    Values(shape.dtype, shape.rows * yStride, 3),
                    Values(shape.dtype, shape.bias ? shape.outputs : 0, 4)};
    problem.operands = {problem.arena[x], problem.arena[weights],
                        problem.arena[y], problem.arena[bias]};
    problem.workspace = problem.arena[workspace];
    return problem;
  }
  void uploadAll(const Problem &problem) {
    upload(problem.operands.x, problem.x.bytes);
    upload(problem.operands.weights, problem.weights.bytes);
    upload(problem.operands.y, problem.y.bytes);
    if (problem.operands.bias)
      upload(problem.operands.bias, problem.bias.bytes);
  }
  std::unique_ptr<Gemm> gemm(const Problem &problem, GemmOptions options = {}) {
    std::shared_ptr<const CublasLt> library = cublasLt();
    if (!library)
      return nullptr;
    Result<std::unique_ptr<Gemm>> made =
        Gemm::create(device(), library, problem.workspace, options);
    EXPECT_TRUE(made) << made.error().text();
    return made ? std::move(*made) : nullptr;
  }
  /// Compares y with the definition, in fp64, and what lies between its rows
  /// with what lay there before.
  void check(const GemmShape &shape, const Problem &problem) {
    std::vector<char> bytes = download<char>(
        problem.operands.y, static_cast<int64_t>(problem.y.bytes.size()));
    std::vector<float> y(problem.y.floats.size());
    convert(shape.dtype, bytes.data(), DType::F32, y.data(),
            static_cast<int64_t>(y.size()));
    double unit = shape.dtype == DType::F32    ? 0x1p-23
                  : shape.dtype == DType::BF16 ? 0x1p-8
                                               : 0x1p-11;
    // Of large products some rows: the definition is slow.
    constexpr int64_t most = int64_t(1) << 28; // multiply-adds
    const int64_t step =
        std::max<int64_t>(1, shape.rows * shape.outputs * shape.inputs / most);
    for (int64_t row = 0; row < shape.rows; row += step)
      for (int64_t column = 0; column < problem.yStride; ++column) {
        float value = y[row * problem.yStride + column];
        float old = problem.y.floats[row * problem.yStride + column];
        if (column >= shape.outputs) {
          ASSERT_EQ(value, old) << "between rows";
          continue;
        }
        double sum = 0, magnitude = 0;
        for (int64_t i = 0; i < shape.inputs; ++i) {
          double product = double(problem.x.floats[row * problem.xStride + i]) *
                           problem.weights.floats[column * shape.inputs + i];
          sum += product;
          magnitude += std::abs(product);
        }
        if (shape.bias) {
          sum += problem.bias.floats[column];
          magnitude += std::abs(problem.bias.floats[column]);
        }
        // One rounding of the result, fp32 sums before it.
        double bound = unit * std::abs(sum) +
                       magnitude * 0x1p-23 * std::sqrt(double(shape.inputs));
        ASSERT_NEAR(value, sum, bound + 1e-30)
            << shape.describe() << " at " << row << ", " << column;
      }
  }
};

TEST_P(GemmTest, IsTheDefinition) {
  const GemmShape shapes[] = {
      {DType::BF16, 33, 128, 96},
      {DType::BF16, 1, 64, 256},
      {DType::F16, 17, 192, 64},
      {DType::F32, 20, 96, 72},
      {DType::F32, 9, 64, 64},
      {DType::BF16, 24, 64, 128, /*xStride=*/192, /*yStride=*/160},
      {DType::F16, 24, 64, 128, /*xStride=*/192, /*yStride=*/160},
      {.dtype = DType::BF16,
       .rows = 40,
       .inputs = 64,
       .outputs = 96,
       .bias = true},
      {.dtype = DType::F16,
       .rows = 1,
       .inputs = 64,
       .outputs = 48,
       .yStride = 56,
       .bias = true},
      {.dtype = DType::F32,
       .rows = 9,
       .inputs = 96,
       .outputs = 72,
       .bias = true},
  };
  for (const GemmShape &shape : shapes) {
    Problem problem = make(shape);
    std::unique_ptr<Gemm> products = gemm(problem);
    if (!products)
      return;
    uploadAll(problem);
    ASSERT_OK(products->prepare(stream, shape, problem.operands));
    uploadAll(problem); // prepare() writes x and y
    ASSERT_OK(products->multiply(stream, shape, problem.operands));
    check(shape, problem);
  }
}

TEST_P(GemmTest, RunsInsideAGraph) {
  GemmShape shape{DType::BF16, 32, 128, 64};
  Problem problem = make(shape);
  std::unique_ptr<Gemm> products = gemm(problem);
  if (!products)
    return;
  uploadAll(problem);
  ASSERT_OK(products->prepare(stream, shape, problem.operands));
  Result<Graph> graph = Graph::capture(stream, [&](const Stream &on) {
    return products->multiply(on, shape, problem.operands);
  });
  ASSERT_OK(graph);
  EXPECT_GE(graph->nodes(), 1);
  uploadAll(problem);
  ASSERT_OK(graph->launch(stream));
  check(shape, problem);
}

TEST_P(GemmTest, GivesARowTheSameBitsInEveryBatch) {
  // On a GPU large enough that few rows are computed otherwise than many.
  const int64_t inputs = real() ? 4096 : 64, outputs = real() ? 4096 : 32;
  for (DType dtype : {DType::BF16, DType::F16, DType::F32}) {
    GemmShape most{dtype, real() ? 3000 : 300, inputs, outputs};
    Problem problem = make(most);
    std::unique_ptr<Gemm> products = gemm(problem);
    if (!products)
      return;
    uploadAll(problem);
    const int64_t rowBytes = outputs * byteSize(dtype);
    std::vector<char> reference;
    for (int64_t rows : {most.rows, int64_t(1), int64_t(2), int64_t(7),
                         int64_t(64), int64_t(129), int64_t(255)}) {
      SCOPED_TRACE(std::string(name(dtype)) + ", " + std::to_string(rows));
      GemmShape shape = most;
      shape.rows = rows;
      ASSERT_OK(products->prepare(stream, shape, problem.operands));
      uploadAll(problem);
      ASSERT_OK(products->multiply(stream, shape, problem.operands));
      std::vector<char> y = download<char>(problem.operands.y, rows * rowBytes);
      if (reference.empty())
        reference = y;
      EXPECT_TRUE(std::equal(y.begin(), y.end(), reference.begin()))
          << products->algorithm(shape);
      // Rows that stand elsewhere: the last of the batch.
      upload(
          problem.operands.x,
          std::vector<char>(problem.x.bytes.begin() +
                                (most.rows - rows) * inputs * byteSize(dtype),
                            problem.x.bytes.end()));
      ASSERT_OK(products->multiply(stream, shape, problem.operands));
      y = download<char>(problem.operands.y, rows * rowBytes);
      EXPECT_TRUE(
          std::equal(y.begin(), y.end(), reference.end() - rows * rowBytes))
          << products->algorithm(shape);
    }
  }
}

// Query, key and value heads at once, and each by themselves.
TEST_P(GemmTest, GivesAPartTheBitsOfTheWhole) {
  const int64_t inputs = real() ? 3584 : 64;
  const int64_t widths[] = {real() ? 3584 : 32, real() ? 512 : 8,
                            real() ? 512 : 8};
  const int64_t outputs = widths[0] + widths[1] + widths[2];
  for (DType dtype : {DType::F32, DType::BF16, DType::F16})
    for (bool bias : {false, true}) {
      // In half types so few sums round alike in whatever order they are added,
      // so that algorithms of other bits can't be told apart.
      if (!real() && dtype != DType::F32)
        continue;
      SCOPED_TRACE(std::string(name(dtype)) + (bias ? " with bias" : ""));
      const int64_t size = byteSize(dtype);
      GemmShape whole{.dtype = dtype,
                      .rows = real() ? 2048 : 24,
                      .inputs = inputs,
                      .outputs = outputs,
                      .bias = bias,
                      .layerOutputs = outputs};
      Problem problem = make(whole);
      std::unique_ptr<Gemm> products = gemm(problem);
      if (!products)
        return;
      uploadAll(problem);
      ASSERT_OK(products->prepare(stream, whole, problem.operands));
      uploadAll(problem);
      ASSERT_OK(products->multiply(stream, whole, problem.operands));
      check(whole, problem);
      std::vector<char> expected =
          download<char>(problem.operands.y, whole.rows * outputs * size);
      int64_t first = 0;
      for (int64_t width : widths) {
        GemmOperands operands = problem.operands;
        operands.weights += first * inputs * size;
        operands.bias += bias ? first * size : 0;
        for (int64_t rows : {whole.rows, real() ? int64_t(128) : int64_t(3)}) {
          GemmShape part = whole;
          part.rows = rows;
          part.outputs = width;
          ASSERT_OK(products->prepare(stream, part, operands));
          uploadAll(problem);
          ASSERT_OK(products->multiply(stream, part, operands));
          std::vector<char> y = download<char>(operands.y, rows * width * size);
          for (int64_t row = 0; row < rows; ++row)
            ASSERT_EQ(std::memcmp(&y[row * width * size],
                                  &expected[(row * outputs + first) * size],
                                  width * size),
                      0)
                << products->algorithm(part) << " instead of "
                << products->algorithm(whole) << ", outputs from " << first
                << ", row " << row << " of " << rows;
        }
        first += width;
      }
    }
}

TEST_P(GemmTest, TimesAllProposals) {
  GemmShape shape{DType::BF16, 256, 256, 128};
  if (!real())
    shape = {DType::BF16, 8, 16, 16};
  Problem problem = make(shape);
  std::unique_ptr<Gemm> products = gemm(problem);
  if (!products)
    return;
  uploadAll(problem);
  Result<std::vector<GemmTiming>> timings =
      products->timeAll(stream, shape, problem.operands);
  ASSERT_OK(timings);
  EXPECT_GE(timings->size(), 2u);
  int chosen = 0, first = 0, layers = 0;
  for (size_t i = 0; i < timings->size(); ++i) {
    EXPECT_GT((*timings)[i].milliseconds, 0);
    if (i > 0) {
      EXPECT_GE((*timings)[i].milliseconds, (*timings)[i - 1].milliseconds);
    }
    chosen += (*timings)[i].chosen;
    first += (*timings)[i].first;
    layers += (*timings)[i].layers;
    if ((*timings)[i].chosen || (*timings)[i].layers) {
      EXPECT_TRUE((*timings)[i].sameBits);
    }
  }
  EXPECT_EQ(chosen, 1);
  EXPECT_EQ(first, 1);
  EXPECT_EQ(layers, 1);
}

TEST_P(GemmTest, RefusesWhatWasNotPrepared) {
  GemmShape shape{DType::BF16, 8, 16, 16};
  Problem problem = make(shape);
  std::unique_ptr<Gemm> products = gemm(problem);
  if (!products)
    return;
  uploadAll(problem);
  EXPECT_ERROR(products->multiply(stream, shape, problem.operands),
               "the product bf16 8 x 16 x 16 was not prepared before the run");
  ASSERT_OK(products->prepare(stream, shape, problem.operands));
  GemmOperands shifted = problem.operands;
  shifted.y += 16;
  EXPECT_ERROR(products->multiply(stream, shape, shifted),
               "prepared for addresses that are multiples of 256, these are of "
               "16");
  GemmOperands biased = problem.operands;
  biased.bias = problem.operands.weights;
  EXPECT_ERROR(products->multiply(stream, shape, biased),
               "has no bias, but one was given");
  shape.bias = true;
  EXPECT_ERROR(products->prepare(stream, shape, problem.operands),
               "has a bias, but none was given");
  for (GemmShape impossible :
       {GemmShape{DType::BF16, 0, 16, 16}, GemmShape{DType::BF16, 8, -1, 16},
        GemmShape{DType::BF16, 8, 16, 16, 15},
        GemmShape{DType::BF16, 8, 16, int64_t(1) << 31},
        GemmShape{.dtype = DType::BF16,
                  .rows = 8,
                  .inputs = 16,
                  .outputs = 16,
                  .layerOutputs = 8}})
    EXPECT_ERROR(products->prepare(stream, impossible, problem.operands),
                 "is outside of what cuBLASLt takes");
}

INSTANTIATE_ON_MACHINES(GemmTest);

/// What only the fake can show.
class GemmChoiceTest : public DeviceTest {
protected:
  Result<std::unique_ptr<Gemm>> prepared(int64_t usesBeforeChoice = 0) {
    fakeCublasLt().slow = true;
    ArenaPlan plan;
    plan.add("operands", 4096);
    plan.add("workspace", Gemm::workspaceBytes);
    Result<Arena> made = Arena::allocate(device(), plan);
    if (!made)
      return made.takeError();
    arena = std::move(*made);
    // Sums of such numbers round, in every order to something else.
    Values x(shape.dtype, shape.rows * shape.inputs, 1),
        w(shape.dtype, shape.outputs * shape.inputs, 2);
    upload(arena[0], x.bytes);
    upload(arena[0] + 1024, w.bytes);
    GemmOptions options;
    options.secondsPerShape = 10;
    options.usesBeforeChoice = usesBeforeChoice;
    Result<std::unique_ptr<Gemm>> gemm =
        Gemm::create(device(), cublasLt(), arena[1], options);
    if (!gemm)
      return gemm;
    if (Status status = (*gemm)->prepare(stream, shape, operands()); !status)
      return status.takeError();
    return gemm;
  }
  void TearDown() override {
    arena = Arena();
    DeviceTest::TearDown();
  }
  GemmOperands operands() const {
    return {arena[0], arena[0] + 1024, arena[0] + 2048};
  }
  Arena arena;
  GemmShape shape{DType::F32, 4, 8, 8};
};

TEST_P(GemmChoiceTest, TakesTheFastestThatGivesTheLayersBits) {
  Result<std::unique_ptr<Gemm>> gemm = prepared();
  ASSERT_OK(gemm);
  // 9 is none, 2 is slow, 3 refuses to run, 4 has other bits.
  EXPECT_EQ((*gemm)->algorithm(shape),
            "algorithm 5, tile 0, stages 0, cluster 0, split 1, swizzle 0");
  EXPECT_EQ(fakeCublasLt().products[1], 0); // split sums
  EXPECT_GT(fakeCublasLt().products[4], 0); // seen to differ
  EXPECT_EQ(fakeCublasLt().alignment, 256u);
  int before = fakeCublasLt().products[5];
  ASSERT_OK((*gemm)->prepare(stream, shape, {0, 0, 0})); // known: at once
  EXPECT_EQ(fakeCublasLt().products[5], before);
}

TEST_P(GemmChoiceTest, LooksForTheFastestOfAShapeThatIsUsedOften) {
  Result<std::unique_ptr<Gemm>> gemm = prepared(/*usesBeforeChoice=*/3);
  ASSERT_OK(gemm);
  // The first proposal without split sums, which is the layer's here.
  const std::string first = (*gemm)->algorithm(shape);
  EXPECT_EQ(first.substr(0, 11), "algorithm 2");
  EXPECT_EQ(fakeCublasLt().products[5], 0);
  for (int use = 1; use <= 2; ++use) {
    ASSERT_OK((*gemm)->prepare(stream, shape, operands()));
    EXPECT_EQ((*gemm)->algorithm(shape), first) << use;
  }
  ASSERT_OK((*gemm)->prepare(stream, shape, operands()));
  EXPECT_EQ((*gemm)->algorithm(shape).substr(0, 11), "algorithm 5");
  ASSERT_OK((*gemm)->prepare(stream, shape, {0, 0, 0})); // at once from now on
}

TEST_P(GemmChoiceTest, FewRowsMayTakeWhatIsProposedForMore) {
  fakeCublasLt().manyRows = 128;
  Result<std::unique_ptr<Gemm>> gemm = prepared();
  ASSERT_OK(gemm);
  EXPECT_EQ((*gemm)->algorithm(shape).substr(0, 11), "algorithm 6");
  Result<std::unique_ptr<Gemm>> soon = prepared(/*usesBeforeChoice=*/100);
  ASSERT_OK(soon);
  EXPECT_EQ((*soon)->algorithm(shape).substr(0, 11), "algorithm 6");
}

TEST_P(GemmChoiceTest, PartsHaveTheWholeLayersAlgorithm) {
  fakeCublasLt().fewOutputs = 8;
  Result<std::unique_ptr<Gemm>> gemm = prepared();
  ASSERT_OK(gemm);
  GemmShape alone{DType::F32, 4, 8, 4};
  GemmOperands operands = this->operands();
  ASSERT_OK((*gemm)->prepare(stream, alone, operands));
  EXPECT_EQ((*gemm)->algorithm(alone).substr(0, 11), "algorithm 4");
  GemmShape part = alone;
  part.layerOutputs = 8;
  operands.weights += 16 * 3; // as aligned as parts are
  ASSERT_OK((*gemm)->prepare(stream, part, operands));
  EXPECT_EQ((*gemm)->algorithm(part).substr(0, 11), "algorithm 5");
  EXPECT_EQ(fakeCublasLt().alignment, 16u);
}

TEST_P(GemmChoiceTest, ReportsBitsOfAllProposals) {
  Result<std::unique_ptr<Gemm>> gemm = prepared();
  ASSERT_OK(gemm);
  Result<std::vector<GemmTiming>> timings =
      (*gemm)->timeAll(stream, shape, operands());
  ASSERT_OK(timings);
  EXPECT_EQ(timings->size(), 4u);
  for (const GemmTiming &timing : *timings) {
    char id = timing.algorithm.at(std::string("algorithm ").size());
    EXPECT_EQ(timing.sameBits, id != '4') << timing.algorithm;
    EXPECT_EQ(timing.first, id == '1');
    EXPECT_EQ(timing.layers, id == '2');
    EXPECT_EQ(timing.chosen, id == '5');
  }
}

TEST_P(GemmChoiceTest, NoAlgorithm) {
  fakeCublasLt().noProposals = true;
  EXPECT_ERROR(prepared(),
               "cuBLASLt has no algorithm for a product f32 4096 x 8 x 8 on "
               "Fake GPU");
}

TEST_P(GemmChoiceTest, ALibraryThatDoesNotStart) {
  fakeCublasLt().createStatus = lt::CUBLAS_STATUS_NOT_INITIALIZED;
  EXPECT_ERROR(prepared(), "could not be started on Fake "
                           "GPU");
  EXPECT_ERROR(prepared(),
               "cublasLtCreate failed: CUBLAS_STATUS_NOT_INITIALIZED");
}

INSTANTIATE_TEST_SUITE_P(, GemmChoiceTest, testing::Values(Machine::Fake),
                         machineName);

} // namespace
