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
#include <cstring>
#include <gtest/gtest.h>
#include <random>

using namespace mlir;
using namespace ::heddle::test;
namespace reference = ::heddle::rt::reference;
using ::heddle::bundle::Encoding;

namespace {

constexpr int64_t kvHeads = 2;

struct Form {
  int64_t heads, sharers, pooled;
  Encoding encoding;
  int64_t group = ::heddle::bundle::groupOfAll;
  /// Lists that are chosen within, if outerGroup is not 0.
  int64_t outerGroup = 0, outerSharers = 1;
  bool outerBlocks = false;
  /// By mean logits; of bf16, and of blocks of as many keys as a group has
  /// rows.
  bool byLogits = false, bf16 = false, blocks = false;
  int64_t headDim = 32;
};

struct Choice {
  int64_t n, keep, rowBegin, rowEnd, alwaysBegin, alwaysEnd;
  int64_t outerKeep = 0, split = 0;
};

struct Code {
  std::string ptx;
  int64_t sharedBytes = 0, scratchBytes = 0, scratchBytesPerKey = 0;
};

Code compile(const Form &form) {
  const std::string text =
      "shed.kernel @select select element(" +
      std::string(form.bf16 ? "bf16" : "f32") + ") head_dim(" +
      std::to_string(form.headDim) + ") group(" + std::to_string(form.group) +
      ")" + (form.sharers > 1 ? " shared_lists" : "") +
      (form.sharers == form.heads ? " per_layer" : "") + " encoding(" +
      std::string(::heddle::bundle::nameOf(form.encoding)) +
      R"() tiling(#shed.mma_tiling<query_rows = 32, warps = 2, keys = 32, stages = 2>) {
  %m = shed.mass_init : !shed.mass
)" + (form.byLogits ? "  %r = shed.logit_mass %m" : R"(
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
  })") +
      "\n  shed.top_k %r" + (form.blocks ? " blocks" : "") +
      (form.pooled ? " pooled(" + std::to_string(form.pooled) + ")" : "") +
      (form.outerGroup == 0 ? ""
       : form.outerBlocks   ? " within #shed.blocks<0, size = " +
                                  std::to_string(form.outerGroup) + ">"
                            : " within #shed.list<0, group = " +
                                  std::to_string(form.outerGroup) + ">") +
      "\n}\n";
  DialectRegistry registry;
  mlir::heddle::registerBackendDialects(registry);
  MLIRContext context(registry);
  context.loadDialect<arith::ArithDialect, math::MathDialect, scf::SCFDialect,
                      shed::ShedDialect>();
  auto module = parseSourceString<ModuleOp>(text, &context);
  PassManager pm(&context);
  pm.addPass(mlir::heddle::createShedPipelineCopies());
  pm.addPass(mlir::heddle::createConvertShedToNVVM());
  pm.addPass(createCSEPass());
  if (!module || failed(pm.run(*module)))
    return {};
  auto records = mlir::heddle::collectKernels(*module);
  auto ptx =
      mlir::heddle::emitPtx(*module, *::heddle::CudaTarget::get("sm_80"));
  if (failed(ptx))
    return {};
  return {*ptx, records[0].sharedBytes, records[0].scratchBytes,
          records[0].scratchBytesPerKey};
}

/// As many bf16 as there are floats, in their place.
void narrowToBf16(float *first, int64_t count) {
  auto *to = reinterpret_cast<uint16_t *>(first);
  for (int64_t i = 0; i < count; ++i) {
    uint32_t bits;
    std::memcpy(&bits, &first[i], 4);
    const auto high = static_cast<uint16_t>(bits >> 16);
    std::memcpy(&to[i], &high, 2);
  }
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
  const int64_t wide = form.heads * form.headDim,
                narrow = kvHeads * form.headDim + 8;
  float *query, *key;
  const std::vector<float> queries = rowsOf(c.n * wide, random, query);
  const std::vector<float> keys = rowsOf(c.n * narrow, random, key);
  const auto dtype =
      form.bf16 ? ::heddle::rt::DType::BF16 : ::heddle::rt::DType::F32;
  if (form.bf16) {
    narrowToBf16(query, c.n * wide);
    narrowToBf16(key, c.n * narrow);
  }
  const int64_t groups = (c.n - 1) / form.group + 1;
  const int64_t count = form.heads / form.sharers * groups;
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
          reference::attendRow(reference::headOf(args, h, form.headDim, dtype),
                               i, [](int64_t, int64_t) { return true; })
              .lse);
  args.lse = form.byLogits ? nullptr : lse.data();
  const int64_t rowBytes =
      ::heddle::bundle::listRowBytes(form.encoding, c.n, c.keep);
  std::vector<uint8_t> lists(count * rowBytes + 16,
                             form.encoding == Encoding::Bitmap ? 0 : 0xa5);
  uint8_t *list = lists.data();
  while (reinterpret_cast<uintptr_t>(list) % 16)
    ++list;
  std::vector<float> scores(count * c.n, -12345.0f);
  args.scores = scores.data();
  args.list = {list,        groups, c.keep, rowBytes, form.blocks ? c.split : 0,
               form.sharers};
  ::heddle::bundle::Kernel kernel;
  kernel.group = form.group;
  kernel.blocks = form.blocks;
  if (form.byLogits)
    kernel.scorer = ::heddle::bundle::Selection::Scorer::MeanLogit;
  kernel.withinGroup = form.outerGroup;
  kernel.withinBlocks = form.outerBlocks;
  std::vector<uint64_t> outer;
  if (form.outerGroup > 0) {
    const Encoding encoding =
        form.outerBlocks ? Encoding::Int32 : form.encoding;
    args.within = {
        nullptr,     (c.n - 1) / form.outerGroup + 1,
        c.outerKeep, ::heddle::bundle::listRowBytes(encoding, c.n, c.outerKeep),
        c.split,     form.outerSharers};
    const int64_t rows = form.heads / form.outerSharers * args.within.groups;
    outer.resize(rows * args.within.rowBytes / 8 + 4);
    auto *from = reinterpret_cast<std::byte *>(outer.data());
    while (reinterpret_cast<uintptr_t>(from) % 16)
      ++from;
    args.within.indices = from;
    std::vector<int32_t> entries(
        form.outerBlocks
            ? ::heddle::bundle::blockCount(c.n, form.outerGroup, c.split)
            : c.n);
    for (int64_t at = 0; at < rows; ++at) {
      std::iota(entries.begin(), entries.end(), 0);
      std::shuffle(entries.begin(), entries.end(), random);
      std::sort(entries.begin(), entries.begin() + c.outerKeep);
      ::heddle::bundle::encodeList(
          encoding, c.n, std::span(entries).first(size_t(c.outerKeep)),
          from + at * args.within.rowBytes);
    }
  }

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
  machine.allow(outer.data(), std::ssize(outer) * 8);
  machine.allow(row, blocks * scratchRow);
  for (uint32_t block = 0; block < blocks; ++block)
    machine.run({block, 0, 0}, {reinterpret_cast<uint64_t>(&args),
                                reinterpret_cast<uint64_t>(row),
                                static_cast<uint64_t>(scratchRow)});

  for (int64_t at = 0; at < count; ++at) {
    const int64_t row = at / groups, group = at % groups;
    const bool ofAll = groups == 1;
    const std::vector<double> own = reference::scoresOfList(
        args, kernel, row, ofAll ? c.rowBegin : group * form.group,
        ofAll ? c.rowEnd : std::min(c.n, (group + 1) * form.group), lse.data(),
        form.headDim, dtype);
    const std::vector<double> expected =
        form.blocks
            ? own
            : reference::chosenWithin(
                  args, kernel, row, group,
                  reference::chosenBy(args, own, form.pooled), form.encoding);
    const std::span<const float> found(scores.data() + at * c.n,
                                       expected.size());
    for (size_t j = 0; j < expected.size(); ++j)
      if (std::isinf(expected[j]) || expected[j] == 0)
        EXPECT_EQ(static_cast<double>(found[j]), expected[j]) << "key " << j;
      else if (form.byLogits)
        EXPECT_NEAR(found[j], expected[j], 1e-5) << "key " << j;
      else
        EXPECT_NEAR(found[j] / expected[j], 1, 1e-4) << "key " << j;
    std::vector<int32_t> kept(c.keep);
    EXPECT_TRUE(::heddle::bundle::decodeList(
        form.encoding, c.n,
        reinterpret_cast<const std::byte *>(list) + at * rowBytes, kept));
    EXPECT_EQ(kept, reference::largest(found, c.keep)) << "list " << at;
  }
}

/// Lists in each encoding, of as many and of more rows and heads; blocks, also
/// those that start anew; beside keys that are always listed, by neighbors.
TEST(SelectRange, ChoosesWithinLists) {
  constexpr int64_t all = ::heddle::bundle::groupOfAll;
  uint64_t seed = 100;
  const std::pair<Form, std::vector<Choice>> forms[] = {
      {{4, 1, 0, Encoding::Uint16, 16, 16, 1},
       {{1, 1, 0, 1, 0, 0, 1},
        {70, 9, 0, 70, 0, 0, 9},
        {33, 5, 0, 33, 0, 0, 33}}},
      {{4, 1, 3, Encoding::Bitmap, 16, 64, 2},
       {{70, 20, 0, 70, 0, 0, 31}, {131, 12, 0, 131, 7, 15, 40}}},
      {{4, 4, 0, Encoding::Int32, all, all, 4},
       {{67, 30, 5, 40, 20, 30, 35}, {40, 37, 0, 40, 3, 40, 1}}},
      {{4, 1, 0, Encoding::Bitmap, 32, 32, 1, true},
       {{70, 6, 0, 70, 0, 0, 1}, {100, 8, 0, 100, 50, 53, 2, 41}}}};
  for (const auto &[form, choices] : forms) {
    SCOPED_TRACE(testing::Message() << form.group << " in " << form.outerGroup);
    const Code code = compile(form);
    ASSERT_FALSE(code.ptx.empty());
    for (const Choice &choice : choices)
      check(form, code, choice, seed++);
  }
}

/// Of one group and of several together, whose last has fewer rows; of all
/// heads and of some rows; within lists, by neighbors; of blocks that start
/// anew. Rows of which lanes read several together, and one.
TEST(SelectRange, ChoosesByLogits) {
  constexpr int64_t all = ::heddle::bundle::groupOfAll;
  uint64_t seed = 200;
  for (bool bf16 : {false, true}) {
    const std::pair<Form, std::vector<Choice>> forms[] = {
        {{.heads = 4,
          .sharers = 1,
          .pooled = 0,
          .encoding = Encoding::Uint16,
          .group = 16},
         {{1, 1, 0, 1, 0, 0}, {70, 9, 0, 70, 0, 0}, {33, 33, 0, 33, 0, 0}}},
        {{.heads = 4,
          .sharers = 2,
          .pooled = 3,
          .encoding = Encoding::Bitmap,
          .group = 64},
         {{67, 30, 0, 67, 5, 9}, {131, 12, 0, 131, 0, 0}}},
        {{.heads = 4,
          .sharers = 4,
          .pooled = 3,
          .encoding = Encoding::Int32,
          .group = all},
         {{67, 40, 5, 40, 20, 30}, {40, 40, 39, 40, 3, 40}}},
        {{.heads = 4,
          .sharers = 1,
          .pooled = 0,
          .encoding = Encoding::Uint16,
          .group = 16,
          .outerGroup = 32},
         {{70, 6, 0, 70, 0, 0, 9}}},
        {{.heads = 4,
          .sharers = 1,
          .pooled = 0,
          .encoding = Encoding::Int32,
          .group = 16,
          .blocks = true},
         {{70, 2, 0, 70, 0, 0},
          {131, 5, 0, 131, 0, 0, 0, 21},
          {9, 1, 0, 9, 0, 0}}},
        {{.heads = 2,
          .sharers = 1,
          .pooled = 0,
          .encoding = Encoding::Int32,
          .group = 32,
          .blocks = true,
          .headDim = 128},
         {{300, 4, 0, 300, 0, 0, 0, 33}}},
        {{.heads = 2,
          .sharers = 1,
          .pooled = 0,
          .encoding = Encoding::Uint16,
          .group = 64,
          .headDim = 128},
         {{130, 50, 0, 130, 0, 0}}},
        {{.heads = 2,
          .sharers = 1,
          .pooled = 0,
          .encoding = Encoding::Int32,
          .group = 16,
          .blocks = true,
          .headDim = 256},
         {{40, 1, 0, 40, 0, 0}}},
        {{.heads = 2,
          .sharers = 1,
          .pooled = 0,
          .encoding = Encoding::Int32,
          .group = 16,
          .headDim = 96},
         {{40, 7, 0, 40, 0, 0}}},
        {{.heads = 2,
          .sharers = 1,
          .pooled = 0,
          .encoding = Encoding::Int32,
          .group = 16,
          .blocks = true,
          .headDim = 96},
         {{70, 3, 0, 70, 0, 0}}}};
    for (auto [form, choices] : forms) {
      form.byLogits = true;
      form.bf16 = bf16;
      SCOPED_TRACE(testing::Message()
                   << (bf16 ? "bf16, " : "f32, ") << form.group << " rows, "
                   << form.sharers << " heads");
      const Code code = compile(form);
      ASSERT_FALSE(code.ptx.empty());
      for (const Choice &choice : choices)
        check(form, code, choice, seed++);
    }
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
