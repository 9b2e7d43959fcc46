//===- SelectRangeTest.cpp - One list for all rows, by some of them -------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The portable select kernels, in f32, which need no matrix products: what is
// not by products, ranges of rows, heads that share a list, keys that are
// always listed and neighbors, is the same text for all element types.
//
//===----------------------------------------------------------------------===//

#include "PtxMachine.h"

#include "bundle/abi/Abi.h"
#include "bundle/abi/IndexLayout.h"
#include "heddle/Conversion/Passes.h"
#include "heddle/Dialect/Shed/IR/Shed.h"
#include "heddle/Target/NVPTX/CudaTarget.h"
#include "heddle/Target/NVPTX/PtxCodegen.h"
#include "runtime/reference/Reference.h"

#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Transforms/Passes.h"

#include <algorithm>
#include <cmath>
#include <gtest/gtest.h>
#include <random>

using namespace mlir;
using namespace ::heddle::test;
namespace reference = ::heddle::rt::reference;
using ::heddle::bundle::Encoding;

namespace {

constexpr int64_t headDim = 32, kvHeads = 2;

struct Form {
  int64_t heads, sharers, pooled;
  Encoding encoding;
};

struct Choice {
  int64_t n, keep, rowBegin, rowEnd, alwaysBegin, alwaysEnd;
};

struct Code {
  std::string ptx;
  int64_t sharedBytes = 0, scratchBytes = 0, scratchBytesPerKey = 0;
};

Code compile(const Form &form) {
  const std::string text =
      "shed.kernel @select select element(f32) head_dim(" +
      std::to_string(headDim) + ") group(" +
      std::to_string(::heddle::bundle::groupOfAll) + ")" +
      (form.sharers > 1 ? " shared_lists" : "") +
      (form.sharers == form.heads ? " per_layer" : "") + " encoding(" +
      (form.encoding == Encoding::Bitmap ? "bitmap" : "uint16") +
      R"() tiling(#shed.mma_tiling<query_rows = 32, warps = 2, keys = 32, stages = 2>) {
  %m = shed.mass_init : !shed.mass
  %r = shed.for_queries init(%m) : !shed.mass {
  ^bb0(%o: !shed.mass):
    %q = shed.load_queries : !shed.tile<queries, channels, f32>
    %l = shed.load_lse
    %s = shed.for_keys over #shed.all init(%o) : !shed.mass {
    ^bb0(%keys: !shed.keys, %c: !shed.mass):
      %k = shed.load_keys %keys : !shed.tile<keys, channels, f32>
      %x = shed.dot %q, %k : !shed.tile<queries, channels, f32>, !shed.tile<keys, channels, f32>
      %n = shed.column_mass %c, %x, %l, %keys
      shed.yield %n : !shed.mass
    }
    shed.yield %s : !shed.mass
  }
  shed.top_k %r)" +
      (form.pooled ? " pooled(" + std::to_string(form.pooled) + ")" : "") +
      "\n}\n";
  DialectRegistry registry;
  mlir::heddle::registerPtxDialects(registry);
  MLIRContext context(registry);
  context.loadDialect<arith::ArithDialect, math::MathDialect, scf::SCFDialect,
                      shed::ShedDialect>();
  auto module = parseSourceString<ModuleOp>(text, &context);
  PassManager pm(&context);
  pm.addPass(mlir::heddle::createConvertShedToNVVM());
  pm.addPass(createCSEPass());
  if (!module || failed(pm.run(*module)))
    return {};
  auto records = mlir::heddle::collectCudaKernels(*module);
  auto ptx =
      mlir::heddle::emitPtx(*module, *::heddle::CudaTarget::get("sm_80"));
  if (failed(ptx))
    return {};
  return {*ptx, records[0].sharedBytes, records[0].scratchBytes,
          records[0].scratchBytesPerKey};
}

/// Rows of floats on 16 bytes.
std::vector<float> rowsOf(int64_t count, std::mt19937_64 &random,
                          float *&first) {
  std::normal_distribution<float> normal;
  std::vector<float> memory(static_cast<size_t>(count) + 4);
  for (float &each : memory)
    each = normal(random);
  first = memory.data();
  while (reinterpret_cast<uintptr_t>(first) % 16)
    ++first;
  return memory;
}

void check(const Form &form, const Code &code, const Choice &c, uint64_t seed) {
  SCOPED_TRACE(testing::Message()
               << "n " << c.n << " rows " << c.rowBegin << ".." << c.rowEnd
               << " always " << c.alwaysBegin << ".." << c.alwaysEnd);
  std::mt19937_64 random(seed);
  const int64_t wide = form.heads * headDim, narrow = kvHeads * headDim + 8;
  float *query, *key;
  const std::vector<float> queries = rowsOf(c.n * wide, random, query);
  const std::vector<float> keys = rowsOf(c.n * narrow, random, key);
  const int64_t count = form.heads / form.sharers;
  ::heddle::abi::SelectArgs args{};
  args.query = query;
  args.key = key;
  args.n = c.n;
  args.queryStride = wide;
  args.keyStride = narrow;
  args.kvGroup = form.heads / kvHeads;
  args.scale = 0.2f;
  args.heads = static_cast<uint32_t>(form.heads);
  args.rowBegin = c.rowBegin;
  args.rowEnd = c.rowEnd;
  args.alwaysBegin = c.alwaysBegin;
  args.alwaysEnd = c.alwaysEnd;
  std::vector<float> lse(form.heads * c.n);
  for (int64_t h = 0; h < form.heads; ++h)
    for (int64_t i = 0; i < c.n; ++i)
      lse[h * c.n + i] = static_cast<float>(
          reference::attendRow(
              reference::headOf(args, h, headDim, ::heddle::rt::DType::F32), i,
              [](int64_t, int64_t) { return true; })
              .lse);
  args.lse = lse.data();
  const int64_t rowBytes =
      ::heddle::bundle::listRowBytes(form.encoding, c.n, c.keep);
  std::vector<uint8_t> lists(count * rowBytes + 16,
                             form.encoding == Encoding::Bitmap ? 0 : 0xa5);
  uint8_t *list = lists.data();
  while (reinterpret_cast<uintptr_t>(list) % 16)
    ++list;
  std::vector<float> scores(count * c.n, -12345.0f);
  args.scores = scores.data();
  args.list = {list, 1, c.keep, rowBytes, 0, form.sharers};

  PtxProgram program(code.ptx, "select");
  constexpr uint32_t blocks = 2;
  const int64_t scratchRow =
      (code.scratchBytes + code.scratchBytesPerKey * c.n + 15) / 16 * 16;
  std::vector<uint8_t> scratch(blocks * scratchRow + 16, 0xff);
  uint8_t *row = scratch.data();
  while (reinterpret_cast<uintptr_t>(row) % 16)
    ++row;
  PtxMachine machine(program, code.sharedBytes, seed);
  machine.grid = {blocks, 1, 1};
  machine.allow(&args, sizeof(args));
  machine.allow(query, c.n * wide * 4);
  machine.allow(key, c.n * narrow * 4);
  machine.allow(lse.data(), std::ssize(lse) * 4);
  machine.allow(scores.data(), std::ssize(scores) * 4);
  machine.allow(list, count * rowBytes);
  machine.allow(row, blocks * scratchRow);
  for (uint32_t block = 0; block < blocks; ++block)
    machine.run({block, 0, 0}, {reinterpret_cast<uint64_t>(&args),
                                reinterpret_cast<uint64_t>(row),
                                static_cast<uint64_t>(scratchRow)});

  for (int64_t at = 0; at < count; ++at) {
    const std::vector<double> expected = reference::chosenBy(
        args,
        reference::listScores(args, at, c.rowBegin, c.rowEnd, lse.data(),
                              headDim, ::heddle::rt::DType::F32),
        form.pooled);
    const std::span<const float> found(scores.data() + at * c.n,
                                       static_cast<size_t>(c.n));
    for (int64_t j = 0; j < c.n; ++j)
      if (std::isinf(expected[j]))
        EXPECT_EQ(static_cast<double>(found[j]), expected[j]) << "key " << j;
      else
        EXPECT_NEAR(found[j] / expected[j], 1, 1e-4) << "key " << j;
    std::vector<int32_t> kept(c.keep);
    EXPECT_TRUE(::heddle::bundle::decodeList(
        form.encoding, c.n,
        reinterpret_cast<const std::byte *>(list) + at * rowBytes, kept));
    EXPECT_EQ(kept, reference::largest(found, c.keep)) << "list " << at;
  }
}

TEST(SelectRange, IsScoredByItsRowsAlone) {
  uint64_t seed = 1;
  for (const Form &form :
       {Form{4, 4, 3, Encoding::Uint16}, Form{4, 1, 0, Encoding::Bitmap},
        Form{4, 2, 5, Encoding::Uint16}}) {
    SCOPED_TRACE(testing::Message() << form.sharers << " heads a list");
    const Code code = compile(form);
    ASSERT_FALSE(code.ptx.empty());
    for (const Choice &c :
         {Choice{1, 1, 0, 1, 0, 0}, Choice{33, 9, 32, 33, 0, 0},
          Choice{70, 40, 9, 50, 30, 62}, Choice{70, 20, 0, 70, 0, 19},
          Choice{67, 67, 66, 67, 3, 67}})
      check(form, code, c, seed++);
  }
}

} // namespace
