//===- RowRandomTest.cpp - Random numbers of row kernels, run as PTX ------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Columns of a group share words, those that a ragged row leaves over and
// branches do not: each column gets the bits that its number names.
//
//===----------------------------------------------------------------------===//

#include "PtxMachine.h"

#include "heddle/Conversion/Passes.h"
#include "heddle/Dialect/Shed/IR/Shed.h"
#include "heddle/Target/NVPTX/CudaTarget.h"
#include "heddle/Target/NVPTX/PtxCodegen.h"
#include "runtime/sample/Philox.h"

#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Transforms/Passes.h"

#include <gtest/gtest.h>

using namespace mlir;
using namespace ::heddle::test;

namespace {

/// Adds up the bits of all columns in four ways: as they come, in a branch that
/// takes some columns, of an index that is no column's own, and of positions
/// that differ by column.
constexpr const char *text = R"(
shed.row_kernel @draw draw element(bf16) tiling(<threads = 32>) {
^bb0(%logits: !shed.array<bf16>, %unconditional: !shed.array<bf16>, %vocab: i64,
     %stride: i64, %first: i64, %rows: !shed.array<i32>,
     %sequence_of: !shed.array<i32>, %sequence_start: !shed.array<i64>,
     %clock: !shed.array<i64>, %temperature: f64, %cfg_scale: f64, %seed: i64,
     %flags: i64, %eos: i32, %eot: i32, %token: !shed.array<i32>,
     %confidence: !shed.array<f64>, %status: !shed.array<i32>):
  %c0 = arith.constant 0 : i64
  %c1 = arith.constant 1 : i64
  %c2 = arith.constant 2 : i64
  %c3 = arith.constant 3 : i64
  %all, %some, %next, %apart = shed.for_columns ragged %vocab
      reduce(add, add, add, add) -> i64, i64, i64, i64 {
  ^bb0(%j: !shed.column):
    %n = shed.column_number %j
    %bits = shed.random stream(0) seed %seed step %first position %stride index %n
    %below = arith.cmpi slt, %n, %flags : i64
    %in_branch = scf.if %below -> i64 {
      %own = shed.random stream(3) seed %seed step %first position %stride index %n
      scf.yield %own : i64
    } else {
      scf.yield %c0 : i64
    }
    %after = arith.addi %n, %c1 : i64
    %other = shed.random stream(0) seed %seed step %first position %stride index %after
    %moved = shed.random stream(0) seed %seed step %first position %after index %n
    shed.contribute %bits, %in_branch, %other, %moved : i64, i64, i64, i64
  }
  shed.write %all, %clock[%c0] : !shed.array<i64>
  shed.write %some, %clock[%c1] : !shed.array<i64>
  shed.write %next, %clock[%c2] : !shed.array<i64>
  shed.write %apart, %clock[%c3] : !shed.array<i64>
}
)";

std::string compiled() {
  DialectRegistry registry;
  mlir::heddle::registerBackendDialects(registry);
  registry.insert<arith::ArithDialect, math::MathDialect, scf::SCFDialect,
                  shed::ShedDialect>();
  MLIRContext context(registry);
  context.loadAllAvailableDialects();
  OwningOpRef<ModuleOp> module = parseSourceString<ModuleOp>(text, &context);
  PassManager pm(&context);
  pm.addPass(mlir::heddle::createConvertShedRowsToNVVM());
  pm.addPass(createCSEPass());
  if (!module || failed(pm.run(*module)))
    return "";
  auto ptx =
      mlir::heddle::emitPtx(*module, *::heddle::CudaTarget::get("sm_90a"));
  return failed(ptx) ? "" : *ptx;
}

uint64_t bitsOf(uint64_t seed, ::heddle::rt::RandomStream stream, int64_t step,
                int64_t position, int64_t index) {
  return static_cast<uint64_t>(
      ::heddle::rt::uniform(seed, stream, step, position, index) * 0x1p52);
}

TEST(RowRandom, AsPtxIsTheHosts) {
  const std::string ptx = compiled();
  ASSERT_NE(ptx, "");
  const PtxProgram program(ptx, "draw");
  uint64_t seed = 0x123456789abcdef;
  // Groups of 8 columns for 32 lanes, and what is left of them.
  for (int64_t vocab : {1, 7, 8, 9, 16, 21, 256, 263, 519}) {
    SCOPED_TRACE(vocab);
    const int64_t step = vocab * 3, position = 1000 - vocab, below = vocab / 2;
    std::array<int64_t, 4> sums = {-1, -1, -1, -1};
    PtxMachine machine(program, 0, seed);
    machine.allow(sums.data(), sizeof sums);
    machine.run({0, 0, 0},
                {0, 0, uint64_t(vocab), uint64_t(position), uint64_t(step), 0,
                 0, 0, reinterpret_cast<uintptr_t>(sums.data()), 0, 0, seed,
                 uint64_t(below), 0, 0, 0, 0, 0});
    std::array<uint64_t, 4> expected = {0, 0, 0, 0};
    using enum ::heddle::rt::RandomStream;
    for (int64_t j = 0; j < vocab; ++j) {
      expected[0] += bitsOf(seed, Gumbel, step, position, j);
      if (j < below)
        expected[1] += bitsOf(seed, Order, step, position, j);
      expected[2] += bitsOf(seed, Gumbel, step, position, j + 1);
      expected[3] += bitsOf(seed, Gumbel, step, j + 1, j);
    }
    for (size_t i = 0; i < 4; ++i)
      EXPECT_EQ(static_cast<uint64_t>(sums[i]), expected[i]) << i;
    seed = seed * 3 + 1;
  }
}

} // namespace
