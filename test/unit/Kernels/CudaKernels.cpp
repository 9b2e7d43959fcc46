//===- CudaKernels.cpp - Kernels of GPUs, without one ---------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "CudaKernels.h"

#include "PtxLaunch.h"

#include "bundle/abi/IndexLayout.h"
#include "heddle/Conversion/Passes.h"
#include "heddle/Dialect/Shed/Transforms/Passes.h"
#include "heddle/Dialect/Shed/Transforms/Tuning.h"
#include "heddle/Dialect/Warp/Transforms/Passes.h"
#include "heddle/Target/NVPTX/PtxCodegen.h"

#include "mlir/Pass/PassManager.h"
#include "mlir/Transforms/Passes.h"

#include <algorithm>
#include <gtest/gtest.h>
#include <span>

using namespace ::heddle;
using namespace ::heddle::test;
using namespace mlir;

/// A module with a copy of the kernel alone.
static OwningOpRef<ModuleOp> moduleOf(shed::KernelOp kernel) {
  OwningOpRef<ModuleOp> module =
      ModuleOp::create(UnknownLoc::get(kernel.getContext()));
  module->push_back(kernel->clone());
  return module;
}

std::optional<CudaKernel> test::codeOf(ModuleOp module, const char *target) {
  auto records = mlir::heddle::collectKernels(module);
  auto ptx = mlir::heddle::emitPtx(module, *CudaTarget::get(target));
  if (failed(ptx) || records.size() != 1) {
    ADD_FAILURE() << "no PTX";
    return std::nullopt;
  }
  return CudaKernel{std::move(*ptx), records[0]};
}

std::optional<CudaKernel> test::compilePortable(shed::KernelOp kernel) {
  OwningOpRef<ModuleOp> module = moduleOf(kernel);
  PassManager pm(module->getContext());
  pm.addPass(shed::createShedChooseMmaTiles());
  pm.addPass(mlir::heddle::createShedPipelineCopies());
  pm.addPass(mlir::heddle::createConvertShedToNVVM());
  pm.addPass(createCSEPass());
  if (failed(pm.run(*module))) {
    ADD_FAILURE() << "the portable lowering refuses what the verifier takes";
    return std::nullopt;
  }
  return codeOf(*module, "sm_80");
}

/// Tiles of 64 rows and keys for every kind of kernel, some of them in parts,
/// by sums, in turns, with tails or in one ring.
static std::vector<shed::WgmmaRule> smallTiles(shed::KernelOp kernel,
                                               std::mt19937 &random) {
  std::vector<shed::WgmmaRule> rules;
  for (const char *over : {"all", "list", "blocks", "range", "union"}) {
    shed::WgmmaRule rule;
    rule.element = kernel.getElement().isBF16() ? "bf16" : "f16";
    rule.over = over;
    rule.headDim = static_cast<int64_t>(kernel.getHeadDim());
    rule.consumers = 1;
    rule.keys = 64;
    rule.stages = 2;
    rule.parts = 1;
    rule.producerRegisters = 40;
    rule.consumerRegisters = 232;
    rule.positions = true;
    for (bool sums : {true, false}) {
      shed::WgmmaRule more = rule;
      more.checkSums = sums;
      more.positions = !sums;
      more.parts = random() % 2 ? 2 : 1;
      more.queryStages = static_cast<int64_t>(random() % 3);
      more.oneRing = random() % 2;
      more.stages = more.oneRing ? 3 : 2;
      if (rule.over == "list")
        more.tailKeys = random() % 2 ? 16 : 0;
      rules.push_back(more);
    }
    if (rule.over == "all") {
      rules.push_back(rule);
      rules.back().over = "scores";
    }
  }
  return rules;
}

std::optional<CudaKernel> test::compileForWarpgroups(shed::KernelOp kernel,
                                                     std::mt19937 &random) {
  OwningOpRef<ModuleOp> module = moduleOf(kernel);
  MLIRContext *context = module->getContext();
  PassManager choosing(context);
  choosing.addPass(
      shed::createShedChooseWgmmaTiles(smallTiles(kernel, random)));
  if (failed(choosing.run(*module))) {
    ADD_FAILURE() << "no tiling can be chosen";
    return std::nullopt;
  }
  auto chosen = *module->getOps<shed::KernelOp>().begin();
  if (!chosen.getTilingAs<shed::WgmmaTilingAttr>())
    return std::nullopt;
  // Those that no rule looks at say so where they are lowered.
  std::string said;
  ScopedDiagnosticHandler listener(context, [&](Diagnostic &diagnostic) {
    llvm::raw_string_ostream(said) << diagnostic << "\n";
    return success();
  });
  PassManager pm(context);
  pm.addPass(mlir::heddle::createConvertShedToWarp());
  pm.addPass(createCSEPass());
  pm.addPass(warp::createWarpSpecializeRoles());
  pm.addPass(warp::createWarpPingPong());
  pm.addPass(warp::createWarpVerifyPipelines());
  pm.addPass(mlir::heddle::createConvertWarpToNVVM());
  pm.addPass(createCSEPass());
  if (failed(pm.run(*module))) {
    if (said.find("has no form for warpgroups") == std::string::npos)
      ADD_FAILURE() << said;
    return std::nullopt;
  }
  return codeOf(*module, "sm_90a");
}

AttentionResult test::runAttention(const CudaKernel &kernel, const Sequence &s,
                                   const ::heddle::test::Pattern &pattern,
                                   std::mt19937 &random) {
  const int64_t tileRows = kernel.record.queryRows;
  // A sequence that is whole may be told as one: all rows, of all positions.
  const bool placed = s.rows() != s.n || s.length != s.n || random() % 2;
  std::vector<int32_t> firstRow;
  if (placed && !pattern.lists.empty())
    for (int64_t place = 0; place < s.n + tileRows; place += tileRows)
      firstRow.push_back(static_cast<int32_t>(
          std::lower_bound(s.place.begin(), s.place.end(), place) -
          s.place.begin()));
  // Each row of a list begins on 16 bytes.
  std::vector<std::vector<std::byte>> lists;
  for (const List &list : pattern.lists) {
    const auto encoding = bundle::Encoding::Int32;
    const auto rowBytes = bundle::listRowBytes(encoding, s.n, list.keep);
    const auto rows = std::ssize(list.indices) / list.keep;
    lists.emplace_back(static_cast<size_t>(rows * rowBytes));
    for (int64_t row = 0; row < rows; ++row)
      bundle::encodeList(encoding, s.n,
                         std::span(list.indices)
                             .subspan(static_cast<size_t>(row * list.keep),
                                      static_cast<size_t>(list.keep)),
                         lists.back().data() + row * rowBytes);
  }
  return withArguments(
      s, pattern, [&](abi::AttentionArgs &args, const Arrays &arrays) {
        PtxLaunch launch{kernel.ptx, kernel.record.symbol,
                         kernel.record.sharedBytes};
        launch.arrays = arrays;
        launch.seed = random();
        if (!placed)
          args.place = args.position = nullptr;
        if (!firstRow.empty())
          args.firstRow = firstRow.data();
        launch.arrays.emplace_back(firstRow.data(), std::ssize(firstRow) * 4);
        for (size_t i = 0; i < lists.size(); ++i) {
          args.lists[i].indices = lists[i].data();
          args.lists[i].rowBytes = bundle::listRowBytes(
              bundle::Encoding::Int32, s.n, pattern.lists[i].keep);
          launch.arrays.emplace_back(lists[i].data(), std::ssize(lists[i]));
        }
        launch.arrays.emplace_back(&args, sizeof(args));
        const int64_t tiles = firstRow.empty()
                                  ? (s.rows() + tileRows - 1) / tileRows
                                  : std::ssize(firstRow) - 1;
        launch.grid = {static_cast<uint32_t>(tiles),
                       static_cast<uint32_t>(s.heads), 1};
        launch.parameters = {reinterpret_cast<uint64_t>(&args), 0, 0};
        EXPECT_EQ(run(launch), "");
      });
}

SelectResult test::runSelect(const CudaKernel &kernel, const Sequence &s,
                             const std::vector<float> &lse,
                             const Choice &choice, std::mt19937 &random) {
  const mlir::heddle::KernelRecord &record = kernel.record;
  const int64_t rows =
      (s.n + choice.group - 1) / choice.group * s.heads / choice.headsPerList;
  // Rows of lists and of scratch begin on 16 bytes. Lists are poisoned without
  // -1, which stands for a block that is missing.
  const auto encoding = bundle::Encoding::Int32;
  const int64_t keys = std::max(s.n, choice.keep);
  const int64_t rowBytes = bundle::listRowBytes(encoding, keys, choice.keep);
  constexpr uint32_t blocks = 2;
  const int64_t scratchBytes =
      (record.scratchBytes + record.scratchBytesPerKey * s.n + 15) / 16 * 16;
  return withArguments(
      s, lse, choice, [&](abi::SelectArgs &args, const Arrays &arrays) {
        auto *chosen = static_cast<int32_t *>(args.list.indices);
        std::vector<std::byte> lists(rows * rowBytes, std::byte{0xa5});
        std::vector<std::byte> scratch(blocks * scratchBytes, std::byte{0xff});
        args.list.indices = lists.data();
        args.list.rowBytes = rowBytes;
        PtxLaunch launch{kernel.ptx, record.symbol, record.sharedBytes};
        launch.arrays = arrays;
        launch.arrays.emplace_back(lists.data(), std::ssize(lists));
        launch.arrays.emplace_back(scratch.data(), std::ssize(scratch));
        launch.arrays.emplace_back(&args, sizeof(args));
        launch.seed = random();
        launch.grid = {blocks, 1, 1};
        launch.parameters = {reinterpret_cast<uint64_t>(&args),
                             reinterpret_cast<uint64_t>(scratch.data()),
                             static_cast<uint64_t>(scratchBytes)};
        EXPECT_EQ(run(launch), "");
        for (int64_t row = 0; row < rows; ++row)
          EXPECT_TRUE(
              bundle::decodeList(encoding, keys, lists.data() + row * rowBytes,
                                 std::span(chosen + row * choice.keep,
                                           static_cast<size_t>(choice.keep))));
        args.list.indices = chosen;
      });
}
