//===- RowMergeTest.cpp - The row kernel that merges, run as PTX ----------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// From its text to PTX, run on PtxMachine, which finds accesses outside of the
// arrays, and compared with float64.
//
//===----------------------------------------------------------------------===//

#include "PtxMachine.h"

#include "bundle/abi/RowAbi.h"
#include "heddle/Conversion/Passes.h"
#include "heddle/Dialect/Shed/IR/Shed.h"
#include "heddle/Dialect/Shed/Transforms/Passes.h"
#include "heddle/Target/NVPTX/CudaTarget.h"
#include "heddle/Target/NVPTX/PtxCodegen.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Transforms/Passes.h"

#include <algorithm>
#include <cmath>
#include <gtest/gtest.h>
#include <limits>
#include <random>

using namespace mlir;
using namespace ::heddle::test;
namespace bundle = ::heddle::bundle;

namespace {

constexpr float none = -std::numeric_limits<float>::infinity();

std::string ptxOf(const std::string &type, const char *target) {
  DialectRegistry registry;
  mlir::heddle::registerBackendDialects(registry);
  registry.insert<arith::ArithDialect, func::FuncDialect, math::MathDialect,
                  scf::SCFDialect, shed::ShedDialect>();
  MLIRContext context(registry);
  context.loadAllAvailableDialects();
  OwningOpRef<ModuleOp> module = ModuleOp::create(UnknownLoc::get(&context));
  PassManager pm(&context);
  pm.addPass(shed::createShedAddRowKernels({type}));
  pm.addPass(mlir::heddle::createConvertShedRowsToNVVM());
  pm.addPass(createCSEPass());
  if (failed(pm.run(*module)))
    return "";
  auto ptx = mlir::heddle::emitPtx(*module, *::heddle::CudaTarget::get(target));
  return failed(ptx) ? "" : *ptx;
}

/// Rows of 16 or 32-bit elements on 16 bytes.
class Elements {
public:
  Elements(const std::string &type, int64_t count)
      : type(type), memory(static_cast<size_t>(count * 4 + 32), 0xff) {
    data = memory.data();
    while (reinterpret_cast<uintptr_t>(data) % 16)
      ++data;
    bytes = count * (type == "f32" ? 4 : 2);
  }
  void set(int64_t i, float value) {
    if (type == "f32")
      reinterpret_cast<float *>(data)[i] = value;
    else
      reinterpret_cast<uint16_t *>(data)[i] = toHalf(type == "bf16", value);
  }
  float get(int64_t i) const {
    return type == "f32"
               ? reinterpret_cast<const float *>(data)[i]
               : fromHalf(type == "bf16",
                          reinterpret_cast<const uint16_t *>(data)[i]);
  }

  std::string type;
  std::vector<uint8_t> memory;
  uint8_t *data;
  int64_t bytes;
};

struct Case {
  int64_t heads, headDim;
  bool kept, writes, toCache, listed;
};

void expectMerged(const PtxProgram &program, const std::string &type,
                  const Case &c, uint64_t seed) {
  SCOPED_TRACE(testing::Message()
               << type << ": " << c.heads << " heads of " << c.headDim
               << (c.kept ? ", kept" : "") << (c.writes ? ", writes" : "")
               << (c.toCache ? ", to cache" : "")
               << (c.listed ? ", listed" : ""));
  std::mt19937 random(static_cast<unsigned>(seed));
  std::normal_distribution<float> normal;
  const int64_t width = c.heads * c.headDim, xStride = width + 8,
                yStride = width + 24, rows = 3;
  std::vector<int32_t> from = {2, 0, 1}, at = {1, 2, 0}, to = {0, 2, 1};
  auto rowOf = [&](const std::vector<int32_t> &index, int64_t i) {
    return c.listed ? index[static_cast<size_t>(i)] : i;
  };
  Elements x(type, rows * xStride), cache(type, rows * width),
      y(type, rows * yStride);
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t e = 0; e < width; ++e) {
      x.set(i * xStride + e, normal(random));
      cache.set(i * width + e, normal(random));
    }
  std::vector<float> lse(static_cast<size_t>(rows * c.heads)), kept(lse.size()),
      fresh(lse.size(), 7);
  for (float &each : lse)
    each = normal(random) * 3;
  for (float &each : kept)
    each = normal(random) * 3;
  std::vector<int64_t> lseAt = {1, 0, 2};
  std::vector<int32_t> lseStride(3, 3);
  // What has no key may be anything: of row 0 nothing is new in the last head,
  // of row 1 nothing is kept, of row 2 neither.
  const int64_t last = c.heads - 1;
  const float nan = std::nanf("");
  auto lseOf = [&](int64_t i) -> float & {
    return lse[static_cast<size_t>(lseAt[static_cast<size_t>(i)] + last * 3)];
  };
  auto keptOf = [&](int64_t i) -> float & {
    return kept[static_cast<size_t>(rowOf(at, i) * c.heads + last)];
  };
  if (c.kept) {
    lseOf(0) = keptOf(1) = lseOf(2) = keptOf(2) = none;
    for (int64_t e = last * c.headDim; e < width; ++e) {
      x.set(rowOf(from, 0) * xStride + e, nan);
      cache.set(rowOf(at, 1) * width + e, nan);
      x.set(rowOf(from, 2) * xStride + e, nan);
      cache.set(rowOf(at, 2) * width + e, nan);
    }
  }
  Elements old(type, rows * width);
  std::copy_n(cache.data, cache.bytes, old.data);
  auto address = [](const void *p) {
    return static_cast<uint64_t>(reinterpret_cast<uintptr_t>(p));
  };
  for (int64_t row = 0; row < rows; ++row) {
    PtxMachine machine(program, 0, seed + static_cast<uint64_t>(row));
    machine.grid = {static_cast<uint32_t>(rows), 1, 1};
    machine.allow(x.data, x.bytes);
    machine.allow(cache.data, cache.bytes);
    machine.allow(y.data, y.bytes);
    for (const std::vector<float> *each : {&lse, &kept, &fresh})
      machine.allow(each->data(), std::ssize(*each) * 4);
    for (const std::vector<int32_t> *each : {&from, &at, &to, &lseStride})
      machine.allow(each->data(), std::ssize(*each) * 4);
    machine.allow(lseAt.data(), std::ssize(lseAt) * 8);
    auto index = [&](const std::vector<int32_t> &list) {
      return c.listed ? address(list.data()) : 0;
    };
    machine.run(
        {static_cast<uint32_t>(row), 0, 0},
        {address(x.data), index(from), uint64_t(xStride), address(lse.data()),
         address(lseAt.data()), address(lseStride.data()), address(cache.data),
         index(at), c.kept ? address(kept.data()) : 0,
         c.writes ? address(fresh.data()) : 0, c.toCache ? 0 : address(y.data),
         index(to), uint64_t(yStride), uint64_t(c.heads), uint64_t(c.headDim)});
  }
  const double unit = type == "f32"    ? 2e-6
                      : type == "bf16" ? 1.0 / 128
                                       : 1.0 / 1024;
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t h = 0; h < c.heads; ++h) {
      const int64_t row = rowOf(at, i);
      const double a = std::exp2(double(
          lse[static_cast<size_t>(lseAt[static_cast<size_t>(i)] + h * 3)]));
      const double b =
          c.kept
              ? std::exp2(double(kept[static_cast<size_t>(row * c.heads + h)]))
              : 0;
      const float l = fresh[static_cast<size_t>(row * c.heads + h)];
      if (!c.writes)
        EXPECT_EQ(l, 7);
      else if (a + b > 0)
        EXPECT_NEAR(l, std::log2(a + b), 2e-5);
      else
        EXPECT_EQ(l, none);
      for (int64_t e = h * c.headDim; e < (h + 1) * c.headDim; ++e) {
        const double now = x.get(rowOf(from, i) * xStride + e),
                     then = old.get(row * width + e);
        const double exact =
            !c.kept ? now
            : a + b > 0
                ? ((a > 0 ? a * now : 0) + (b > 0 ? b * then : 0)) / (a + b)
                : 0;
        const double found = c.toCache ? cache.get(row * width + e)
                                       : y.get(rowOf(to, i) * yStride + e);
        // What is rounded are the parts, which may cancel out.
        const double size = !c.kept || a + b == 0
                                ? std::abs(exact)
                                : ((a > 0 ? a * std::abs(now) : 0) +
                                   (b > 0 ? b * std::abs(then) : 0)) /
                                      (a + b);
        ASSERT_NEAR(found, exact, unit * size + 1e-9)
            << "row " << i << ", head " << h << ", element " << e;
      }
    }
  // Nothing stands between the rows.
  if (c.toCache)
    EXPECT_TRUE(std::all_of(y.data, y.data + y.bytes,
                            [](uint8_t byte) { return byte == 0xff; }));
  else
    EXPECT_TRUE(std::equal(cache.data, cache.data + cache.bytes, old.data));
}

TEST(RowMerge, AsPtxIsItsDefinition) {
  for (const char *target : {"sm_80", "sm_90a"})
    for (const std::string &type : {"f32", "bf16", "f16"}) {
      const std::string ptx = ptxOf(type, target);
      ASSERT_NE(ptx, "");
      const PtxProgram program(ptx,
                               bundle::rowSymbol(bundle::RowOp::Merge, type));
      uint64_t seed = 1;
      for (auto [heads, headDim] :
           {std::pair<int64_t, int64_t>{1, 8}, {3, 24}, {5, 64}, {4, 128}})
        for (int bits = 0; bits < 16; ++bits)
          expectMerged(program, type,
                       {heads, headDim, (bits & 1) > 0, (bits & 2) > 0,
                        (bits & 4) > 0, (bits & 8) > 0},
                       seed++);
    }
}

} // namespace
