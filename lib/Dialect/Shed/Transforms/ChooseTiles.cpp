//===- ChooseTiles.cpp - Give every kernel a tiling ---*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/Dialect/Shed/Transforms/Passes.h"

#include <numeric>

namespace mlir::shed {
#define GEN_PASS_DEF_SHEDCHOOSETILES
#include "heddle/Dialect/Shed/Transforms/Passes.h.inc"
} // namespace mlir::shed

using namespace mlir;
using namespace mlir::shed;

/// Rows of a register block beside `vectors` vectors of accumulators: enough
/// independent sums to hide the latency of multiply-add, few enough that sums,
/// one row of the right operand and a broadcast fit the registers.
static int64_t blockRows(int64_t vectors, int64_t registers, int64_t most) {
  int64_t rows = (registers - vectors - 1) / vectors;
  int64_t power = 1;
  while (power * 2 <= std::min(rows, most))
    power *= 2;
  return power;
}

static TilingAttr chooseTiling(KernelOp kernel, int64_t vectorBytes,
                               int64_t registers, bool pairs, bool tiles,
                               bool fetchesLate) {
  int64_t lanes = vectorBytes / 4;
  bool bf16 = kernel.getElement().isBF16();
  DotKind dot = bf16 && tiles && lanes == 16 ? DotKind::Tiles
                : bf16 && pairs              ? DotKind::Pairs
                                             : DotKind::Fma;
  // The rows of a task share what a tile of keys costs: fetching it into the
  // nearest cache, and interleaving, transposing or widening values.
  bool packs = bf16;
  int64_t most = packs ? 256 : 128;
  int64_t step = kernel.getRowsInStep();
  int64_t rows = step ? std::gcd(step, most) : most;
  // Two vectors: queries, logits and context of a panel stay in the nearest
  // cache (fp32, 128 channels, AVX-512: 16 + 8 + 16 KiB).
  int64_t panel = std::min(2 * lanes, (rows + lanes - 1) / lanes * lanes);
  int64_t vectors = panel / lanes;
  int64_t block = blockRows(vectors, registers, 8);
  bool reads = kernel.getKind() == KernelKind::Attention && kernel.hasLists();
  int64_t ahead = !reads ? 0 : dot == DotKind::Tiles ? 2 : fetchesLate;
  int64_t keys = dot == DotKind::Tiles ? 128 : 64;
  // As measured: with long rows the nearest cache loses some of the next tile's
  // before they are read, the fewer the shorter the tile.
  if (ahead == 1 && kernel.getHeadDim() * (bf16 ? 2 : 4) > 256)
    keys = 32;
  bool packKeys = dot == DotKind::Fma && bf16;
  return TilingAttr::get(kernel.getContext(), rows, panel, keys, lanes, block,
                         block, dot, packKeys, packs, ahead);
}

namespace {
struct ChooseTiles : shed::impl::ShedChooseTilesBase<ChooseTiles> {
  using ShedChooseTilesBase::ShedChooseTilesBase;

  void runOnOperation() override {
    if (vectorBytes != 32 && vectorBytes != 64) {
      getOperation()->emitError()
          << "vector-bytes is 32 or 64, not " << vectorBytes.getValue();
      return signalPassFailure();
    }
    getOperation()->walk([&](KernelOp kernel) {
      if (!kernel.getTiling())
        kernel.setTilingAttr(chooseTiling(kernel, vectorBytes, vectorRegisters,
                                          bf16Dot, bf16Tiles, fetchesLate));
    });
  }
};
} // namespace

std::unique_ptr<Pass>
mlir::shed::createShedChooseTiles(const ::heddle::HostTargetInfo &target) {
  ShedChooseTilesOptions options;
  options.vectorBytes = target.vectorBytes();
  options.vectorRegisters = target.vectorRegisters();
  options.bf16Dot = target.hasBf16Dot();
  options.bf16Tiles = target.hasBf16Tiles();
  options.fetchesLate = target.fetchesLate();
  return createShedChooseTiles(options);
}
