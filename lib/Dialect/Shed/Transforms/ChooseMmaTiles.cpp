//===- ChooseMmaTiles.cpp - Give every kernel a tiling for a GPU ----------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "MmaTiles.h"

#include "heddle/Dialect/Shed/IR/MmaTiling.h"
#include "heddle/Dialect/Shed/Transforms/Passes.h"

#include <numeric>

namespace mlir::shed {
#define GEN_PASS_DEF_SHEDCHOOSEMMATILES
#include "heddle/Dialect/Shed/Transforms/Passes.h.inc"
} // namespace mlir::shed

using namespace mlir;
using namespace mlir::shed;

/// Registers of a thread beside its tiles: fragments on their way, addresses,
/// maxima and sums; the second number for positions and marks of keys. That
/// ptxas gets along with them is tested for every example and GPU.
static constexpr int64_t otherRegisters = 63, positionRegisters = 8;

/// The same for each set of a union beyond three: what of it belongs to sets
/// before is left out, and each of these has numbers of its own for that.
static constexpr int64_t setRegisters = 20;

/// Room for positions and marks of keys that come from lists.
static constexpr int64_t listBytes = 10 * 1024;

/// The op that ends a select kernel.
static TopKOp choiceOf(KernelOp kernel) {
  return cast<TopKOp>(kernel.getBody().front().back());
}

static bool isByLogits(KernelOp kernel) {
  return kernel.getKind() == KernelKind::Select &&
         choiceOf(kernel).isByLogits();
}

int64_t mlir::shed::mmaSharedBytes(KernelOp kernel, MmaTilingAttr tiling) {
  int64_t rowBytes =
      kernel.getHeadDim() * (kernel.getElement().isF32() ? 4 : 2);
  int64_t queries = tiling.getQueryRows() * rowBytes;
  int64_t keys = tiling.getKeys() * rowBytes;
  if (isByLogits(kernel)) {
    const int64_t means =
        llvm::alignTo(tiling.getQueryRows() / rowsForMean, int64_t(8));
    const auto channels = static_cast<int64_t>(kernel.getHeadDim());
    const bool blocks = choiceOf(kernel).getBlocks();
    return meanBytes(channels, blocks, means) + 256 +
           (blocks ? meanBytes(channels, blocks,
                               blocksTogether * tiling.getWarps())
                   : keys);
  }
  // Keys that wait for selection have one stage; its choice of keys needs no
  // more than the tiles before it.
  if (kernel.getKind() == KernelKind::Select)
    return queries + tiling.getQueryRows() * 4 + keys + 128;
  int64_t weights = kernel.getElement().isF32()
                        ? tiling.getQueryRows() * tiling.getKeys() * 4
                        : 0;
  return queries + 2 * tiling.getStages() * keys + weights +
         (kernel.comparesRows() ? llvm::alignTo(tiling.getQueryRows() * 4, 128)
                                : 0) +
         (kernel.hasLists() ? listBytes : 0);
}

int64_t mlir::shed::mmaTileRegisters(KernelOp kernel, MmaTilingAttr tiling) {
  int64_t squares = tiling.getRowsPerWarp() / 16;
  int64_t queries = tiling.getKeepQueries() ? kernel.getHeadDim() / 16 * 4 : 0;
  return squares * (kernel.getHeadDim() / 2 + tiling.getKeys() / 2 + queries);
}

LogicalResult
mlir::shed::checkLimits(Operation *op,
                        ArrayRef<std::pair<StringRef, int64_t>> limits) {
  for (auto [name, value] : limits)
    if (value < 1)
      return op->emitError() << name << " is at least 1, not " << value;
  return success();
}

/// Registers of a thread of an attention kernel.
static int64_t registersNeeded(KernelOp kernel, MmaTilingAttr tiling) {
  bool allKeys =
      !kernel.getBody()
           .walk([](ForKeysOp loop) {
             return isa<AllAttr>(loop.getOver()) && loop.getSkip().empty()
                        ? WalkResult::advance()
                        : WalkResult::interrupt();
           })
           .wasInterrupted();
  return mmaTileRegisters(kernel, tiling) + otherRegisters +
         (allKeys && !kernel.scoresPositions() ? 0 : positionRegisters);
}

namespace {

/// A machine, as far as tiles are concerned.
struct Limits {
  int64_t sharedOfBlock, sharedOfProcessor, registersOfProcessor,
      registersOfThread;
};

class TileChooser {
  /// That a multiprocessor holds at once, as mma_tiling has it.
  static constexpr int64_t mostBlocks = 32;

public:
  TileChooser(KernelOp kernel, const Limits &limits)
      : kernel(kernel), limits(limits) {
    int64_t step = kernel.getRowsInStep();
    rows = step ? std::gcd(step, int64_t(128)) : 128;
  }

  /// Null when not even the smallest tiling fits.
  MmaTilingAttr choose() {
    if (kernel.getKind() == KernelKind::Select)
      return chooseSelect();
    const auto sets = static_cast<int64_t>(
        llvm::range_size(kernel.getBody().getOps<ForKeysOp>()));
    registersOfSets = std::max<int64_t>(0, sets - 3) * setRegisters;
    MmaTilingAttr tiling = chooseAttention();
    // Registers in memory beat no kernel.
    for (; !tiling && registersOfSets; tiling = chooseAttention())
      registersOfSets /= 2;
    return sharing(tiling);
  }

private:
  MmaTilingAttr get(int64_t queryRows, int64_t warps, int64_t keys,
                    int64_t blocks, bool keepQueries) {
    return MmaTilingAttr::get(kernel.getContext(), queryRows, warps, keys,
                              /*stages=*/2, blocks, keepQueries,
                              /*share_keys=*/false);
  }

  /// The same, sharing keys where that is possible: a few rows are then not one
  /// warp's work while the others wait.
  MmaTilingAttr sharing(MmaTilingAttr tiling) {
    if (!tiling || kernel.hasLists() ||
        !canShareKeys(kernel.getElement(), kernel.getHeadDim(), tiling))
      return tiling;
    return MmaTilingAttr::get(kernel.getContext(), tiling.getQueryRows(),
                              tiling.getWarps(), tiling.getKeys(),
                              tiling.getStages(), tiling.getBlocks(),
                              tiling.getKeepQueries(), /*share_keys=*/true);
  }

  /// Blocks that fit a multiprocessor; 0 when a block does not fit.
  int64_t blocksThatFit(MmaTilingAttr tiling) {
    int64_t registers = registersNeeded(kernel, tiling) + registersOfSets;
    if (mmaSharedBytes(kernel, tiling) > limits.sharedOfBlock ||
        registers > limits.registersOfThread)
      return 0;
    return std::min(
        {blocksThatShare(tiling), mostBlocks,
         limits.registersOfProcessor / (registers * tiling.getThreads())});
  }

  MmaTilingAttr chooseAttention() {
    int64_t channels = kernel.getHeadDim();
    bool exact = kernel.getElement().isF32();
    MmaTilingAttr fits;
    // Rows of a warp, then warps, then keys: a warp with 32 rows reads keys and
    // values from shared memory half as often, and more rows in a block fetch
    // them less often. Two warps for each of the four schedulers let one
    // multiply while the other is at its softmax. What a tile costs beside its
    // products is too much for 16 keys.
    for (int64_t rowsPerWarp : {32, 16}) {
      if (rowsPerWarp == 32 && (channels > 128 || exact || rows < 128))
        continue;
      for (int64_t queryRows = rows; queryRows >= 16; queryRows /= 2)
        for (int64_t keys : {64, 32, 16}) {
          int64_t warps = queryRows / rowsPerWarp;
          // Positions are handled a thread each, 32 at a time.
          if (warps < 1 ||
              (kernel.hasLists() && (keys > 32 * warps || keys < 32)))
            continue;
          MmaTilingAttr tiling = get(queryRows, warps, keys, 1, false);
          int64_t blocks = blocksThatFit(tiling);
          if (!blocks)
            continue;
          tiling = get(queryRows, warps, keys, blocks, false);
          MmaTilingAttr kept = get(queryRows, warps, keys, blocks, true);
          if (!exact && blocksThatFit(kept) >= blocks)
            tiling = kept;
          if (blocks * warps >= 8 && keys >= 32)
            return tiling;
          if (!fits)
            fits = tiling;
        }
    }
    return fits;
  }

  /// Blocks whose shared memory fits a multiprocessor.
  int64_t blocksThatShare(MmaTilingAttr tiling) {
    return limits.sharedOfProcessor /
           (mmaSharedBytes(kernel, tiling) +
            ::heddle::CudaTargetInfo::sharedBytesReserved);
  }

  /// Whether keys are chosen by their scores alone, one by one.
  bool choosesPlainKeys() {
    TopKOp choice = choiceOf(kernel);
    return !choice.getBlocks() && !choice.getPooled() && !choice.getWithin();
  }

  MmaTilingAttr chooseSelect() {
    // Blocks read all keys for the groups that they score together, and hold
    // their means alone.
    if (MmaTilingAttr tiling = get(256, 8, 128, 2, false);
        isByLogits(kernel) && choiceOf(kernel).getBlocks() &&
        mmaSharedBytes(kernel, tiling) <= limits.sharedOfBlock)
      return tiling;
    // A warp holds its keys in registers and meets all rows of the block with
    // them: the more rows, the less often keys are fetched, so small groups are
    // scored several together.
    bool wide = kernel.getHeadDim() > 128, exact = kernel.getElement().isF32();
    // 16 warps a multiprocessor hide more than 32 keys a warp save: 10% on an
    // H200. Where shared memory is scarce, or for blocks, pooled scores or
    // lists to choose within, whose choice takes more registers, 8 with twice
    // the registers.
    if (MmaTilingAttr tiling = get(128, 8, 128, 1, false);
        !wide && !exact &&
        mmaSharedBytes(kernel, tiling) <= limits.sharedOfBlock)
      return blocksThatShare(tiling) >= 3 && choosesPlainKeys()
                 ? get(128, 8, 128, 2, false)
                 : tiling;
    int64_t keysPerWarp = wide ? 16 : 32;
    for (int64_t warps : {4, 2})
      for (int64_t queryRows : {32 * warps, 16 * warps})
        for (int64_t keys : {keysPerWarp * warps, 16 * warps})
          if (MmaTilingAttr tiling = get(queryRows, warps, keys, 1, false);
              mmaSharedBytes(kernel, tiling) <= limits.sharedOfBlock)
            return tiling;
    return {};
  }

  KernelOp kernel;
  const Limits &limits;
  int64_t rows;
  int64_t registersOfSets = 0;
};

struct ChooseMmaTiles : shed::impl::ShedChooseMmaTilesBase<ChooseMmaTiles> {
  using ShedChooseMmaTilesBase::ShedChooseMmaTilesBase;

  void runOnOperation() override {
    if (failed(checkLimits(
            getOperation(),
            {{sharedOfBlock.getArgStr(), sharedOfBlock},
             {sharedOfProcessor.getArgStr(), sharedOfProcessor},
             {registersOfProcessor.getArgStr(), registersOfProcessor},
             {registersOfThread.getArgStr(), registersOfThread}})))
      return signalPassFailure();
    Limits limits{sharedOfBlock, sharedOfProcessor, registersOfProcessor,
                  registersOfThread};
    WalkResult walked = getOperation()->walk([&](KernelOp kernel) {
      if (kernel.getTilingAs<MmaTilingAttr>() ||
          kernel.getTilingAs<WgmmaTilingAttr>())
        return WalkResult::advance();
      MmaTilingAttr tiling = TileChooser(kernel, limits).choose();
      if (!tiling) {
        kernel.emitOpError()
            << "has no tiling that fits " << limits.sharedOfBlock
            << " bytes of shared memory and " << limits.registersOfThread
            << " registers of a thread (groups of " << kernel.getRowsInStep()
            << " rows, head_dim " << kernel.getHeadDim() << ", "
            << kernel.getElement() << ")";
        return WalkResult::interrupt();
      }
      kernel.setTilingAttr(tiling);
      return WalkResult::advance();
    });
    if (walked.wasInterrupted())
      signalPassFailure();
  }
};

} // namespace

std::unique_ptr<Pass>
mlir::shed::createShedChooseMmaTiles(const ::heddle::CudaTargetInfo &target) {
  ShedChooseMmaTilesOptions options;
  options.sharedOfBlock = target.sharedBytesPerBlock();
  options.sharedOfProcessor = target.sharedBytesPerMultiprocessor();
  options.registersOfProcessor = target.registersPerMultiprocessor();
  options.registersOfThread = target.registersPerThread();
  return createShedChooseMmaTiles(options);
}
