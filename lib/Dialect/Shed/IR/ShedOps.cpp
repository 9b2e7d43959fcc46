//===- ShedOps.cpp - Operations of the shed dialect ---*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "KernelBody.h"

#include "heddle/Dialect/Shed/IR/MmaTiling.h"
#include "heddle/Support/ScoreRegion.h"

#include "bundle/abi/Abi.h"
#include "bundle/program/Manifest.h"

#include <numeric>

using namespace mlir;
using namespace mlir::shed;

static ParseResult parseScores(OpAsmParser &parser, Region &region) {
  return mlir::heddle::parseScoreRegion(parser, region);
}

static void printScores(OpAsmPrinter &printer, Operation *, Region &region) {
  mlir::heddle::printScoreRegion(printer, region);
}

#define GET_OP_CLASSES
#include "heddle/Dialect/Shed/IR/ShedOps.cpp.inc"

//===----------------------------------------------------------------------===//
// KernelOp
//===----------------------------------------------------------------------===//

int64_t KernelOp::getRowsInStep() {
  int64_t rows = getGroup().value_or(0);
  auto meet = [&](Attribute set) {
    if (std::optional<KeyEntries> entries = entriesOf(set))
      rows = std::gcd(rows, entries->group);
  };
  getBody().walk([&](ForKeysOp loop) {
    meet(loop.getOver());
    llvm::for_each(loop.getSkip(), meet);
  });
  return rows;
}

bool KernelOp::hasLists() {
  if (getKind() == KernelKind::Select)
    return true;
  return getBody()
      .walk([](ForKeysOp loop) {
        bool reads = entriesOf(loop.getOver()) ||
                     llvm::any_of(loop.getSkip(), entriesOf);
        return reads ? WalkResult::interrupt() : WalkResult::advance();
      })
      .wasInterrupted();
}

/// Whether the scores of some pass ask for one of these.
static bool scoresUse(Region &body,
                      ArrayRef<::heddle::bundle::Scores::Input> inputs) {
  return body
      .walk([&](ScoresOp op) {
        auto scores = mlir::heddle::scoresOf(op.getBody());
        return llvm::any_of(inputs, [&](auto i) { return scores.uses(i); })
                   ? WalkResult::interrupt()
                   : WalkResult::advance();
      })
      .wasInterrupted();
}

static bool comparesRowsIn(Region &body) {
  return scoresUse(body, ::heddle::bundle::Scores::Query) ||
         body.walk([](MaskOp) { return WalkResult::interrupt(); })
             .wasInterrupted();
}

bool KernelOp::comparesRows() { return comparesRowsIn(getBody()); }

bool AttentionTaskOp::comparesRows() { return comparesRowsIn(getBody()); }

bool KernelOp::scoresPositions() {
  return scoresUse(getBody(), {::heddle::bundle::Scores::Query,
                               ::heddle::bundle::Scores::Key});
}

LogicalResult KernelOp::verify() {
  bool selects = getKind() == KernelKind::Select;
  if (selects != getGroup().has_value())
    return emitOpError() << (selects ? "of kind select needs"
                                     : "of kind attention has no")
                         << " group";
  if (selects && *getGroup() < 1)
    return emitOpError() << "has a group of " << *getGroup()
                         << " rows; expected at least 1";
  if (selects && getWritesLse())
    return emitOpError() << "of kind select reads the log-sum-exp and can't "
                            "write it";
  if (int64_t dim = getHeadDim();
      dim < minHeadDim || dim > maxHeadDim || dim % minHeadDim)
    return emitOpError() << "has head_dim " << dim
                         << "; expected a multiple of " << minHeadDim
                         << " from " << minHeadDim << " to " << maxHeadDim;
  return success();
}

LogicalResult KernelOp::verifyRegions() {
  if (getBody().empty() || getBody().front().empty())
    return emitOpError() << "has an empty body";
  if ((getEncoding() || getSharedLists()) && !hasLists())
    return emitOpError() << "reads and writes no index list, so it can't have "
                         << (getEncoding() ? "an encoding" : "shared ones");
  if (getPerLayer() && !getSharedLists())
    return emitOpError()
           << "has lists of a whole layer, which its heads share: "
              "add `shared_lists`";
  Operation &last = getBody().front().back();
  if (getKind() == KernelKind::Attention && !isa<StoreOp>(last))
    return emitOpError() << "of kind attention must end in shed.store";
  if (getKind() == KernelKind::Select && !isa<TopKOp>(last))
    return emitOpError() << "of kind select must end in shed.top_k";
  Type element = getElement();
  WalkResult walked = getBody().walk([&](Operation *op) {
    for (Type type : op->getResultTypes()) {
      auto tile = dyn_cast<TileType>(type);
      bool isLoad = isa<LoadQueriesOp, LoadKeysOp, LoadValuesOp>(op);
      if (tile && isLoad && tile.getElement() != element) {
        op->emitOpError() << "loads " << tile.getElement()
                          << " in a kernel whose element is " << element;
        return WalkResult::interrupt();
      }
    }
    if (auto loop = dyn_cast<ForKeysOp>(op)) {
      SmallVector<Attribute> sets(loop.getSkip().getValue());
      sets.push_back(loop.getOver());
      for (Attribute set : sets) {
        std::optional<KeyEntries> list = entriesOf(set);
        if (list && list->index >= ::heddle::abi::maxIndexLists) {
          loop.emitOpError()
              << "reads list " << list->index << "; a kernel has at most "
              << ::heddle::abi::maxIndexLists << " lists";
          return WalkResult::interrupt();
        }
      }
    }
    auto loop = dyn_cast<ForKeysOp>(op);
    auto lse = dyn_cast<LoadLseOp>(op);
    if ((loop && isa<SpanAttr>(loop.getOver())) || (lse && lse.getSpan())) {
      auto around = op->getParentOfType<ForQueriesOp>();
      if (!around || !around.getSpan()) {
        op->emitOpError() << "reads a span outside of shed.for_queries span";
        return WalkResult::interrupt();
      }
    }
    return WalkResult::advance();
  });
  if (walked.wasInterrupted() || failed(verifyBody(*this)))
    return failure();
  return success(!getTilingAs<MmaTilingAttr>() ||
                 succeeded(verifyMmaTiling(*this)));
}

LogicalResult shed::verifyMmaTiling(KernelOp kernel) {
  auto tiling = kernel.getTilingAs<MmaTilingAttr>();
  if (kernel.getHeadDim() > maxMmaHeadDim)
    return kernel.emitOpError()
           << "has head_dim " << kernel.getHeadDim()
           << "; GPU kernels take at most " << maxMmaHeadDim;
  // A select task passes over several groups or over a part of one.
  if (kernel.getKind() == KernelKind::Select)
    return success();
  if (int64_t step = kernel.getRowsInStep(); step % tiling.getQueryRows())
    return kernel.emitOpError()
           << "has blocks of " << tiling.getQueryRows()
           << " rows that do not divide its groups (common divisor " << step
           << ")";
  if (kernel.hasLists() &&
      (tiling.getKeys() < 32 || tiling.getKeys() > tiling.getThreads()))
    return kernel.emitOpError()
           << "has tiles of " << tiling.getKeys() << " keys for "
           << tiling.getThreads() << " threads; with index lists a tile has at "
           << "least 32 keys and at most one for each thread";
  if (tiling.getKeepQueries() && kernel.getElement().isF32())
    return kernel.emitOpError()
           << "of element f32 reads its queries from shared memory; drop "
              "keep_queries";
  if (tiling.getShareKeys() &&
      (kernel.hasLists() ||
       !canShareKeys(kernel.getElement(), kernel.getHeadDim(), tiling)))
    return kernel.emitOpError()
           << "shares keys among the warps of a block of few rows, which takes "
              "several warps, 16 keys of a tile for each, room for what they "
              "find, no lists and another element than f32; drop share_keys";
  return success();
}

int64_t shed::meanBytes(int64_t channels, bool blocks, int64_t count) {
  // f32, for blocks behind 16 bytes more so that lanes read other banks, or for
  // tensor cores two halves of 16 bits.
  return count * (channels * 4 + (blocks ? 16 : 0));
}

LogicalResult shed::verifySelectTiling(Operation *op, int64_t group,
                                       MmaTilingAttr tiling) {
  if (group < 16 || !llvm::isPowerOf2_64(group))
    return op->emitOpError()
           << "has groups of " << group
           << " rows; CUDA kernels select for a power of two from 16 rows on";
  const int64_t keys = tiling.getKeys(), warps = tiling.getWarps();
  if (keys % (16 * warps) || keys / warps < 16 || keys / warps > 64)
    return op->emitOpError()
           << "has tiles of " << keys << " keys for " << warps
           << " warps; a select kernel takes 16, 32 or 64 for each warp";
  // A warp's keys move to registers and leave their place to the next.
  if (tiling.getStages() != 2 || tiling.getKeepQueries() ||
      tiling.getShareKeys())
    return op->emitOpError()
           << "has the tiling " << tiling
           << "; a select kernel has stages = 2 and neither keep_queries nor "
              "share_keys";
  return success();
}

bool shed::canShareKeys(Type element, int64_t headDim, MmaTilingAttr tiling) {
  const int64_t warps = tiling.getWarps();
  // Of a warp's 16 rows and 8 channels, and for its sums and maxima, four
  // numbers in each of 32 threads.
  const int64_t found = tiling.getRowsPerWarp() / 16 * (headDim / 8 + 1) * 4 *
                        32 * int64_t(sizeof(float));
  return !element.isF32() && warps > 1 &&
         tiling.getKeys() % (16 * warps) == 0 &&
         warps / 2 * found <=
             2 * tiling.getStages() * tiling.getKeys() * headDim * 2;
}

//===----------------------------------------------------------------------===//
// Loops
//===----------------------------------------------------------------------===//

static LogicalResult verifyLoopBody(Operation *op, Region &body,
                                    TypeRange arguments, Type carried) {
  Block &block = body.front();
  if (block.getArgumentTypes() != arguments)
    return op->emitOpError()
           << "has a region with arguments (" << block.getArgumentTypes()
           << "); expected (" << arguments << ")";
  auto yield = block.empty() ? YieldOp() : dyn_cast<YieldOp>(block.back());
  if (!yield)
    return op->emitOpError() << "has a region that does not end in shed.yield";
  if (yield.getValue().getType() != carried)
    return yield.emitOpError() << "yields " << yield.getValue().getType()
                               << "; the loop carries " << carried;
  return success();
}

LogicalResult ForKeysOp::verify() {
  if (llvm::is_contained(getSkip(), getOver()))
    return emitOpError() << "skips the set " << getOver()
                         << " that it passes over";
  return success();
}

LogicalResult ForKeysOp::verifyRegions() {
  Type carried = getInit().getType();
  return verifyLoopBody(*this, getBody(),
                        {KeysType::get(getContext()), carried}, carried);
}

LogicalResult ForQueriesOp::verifyRegions() {
  auto kernel = (*this)->getParentOfType<KernelOp>();
  if (!kernel || kernel.getKind() != KernelKind::Select)
    return emitOpError() << "needs a kernel of kind select around it";
  Type carried = getInit().getType();
  return verifyLoopBody(*this, getBody(), carried, carried);
}

//===----------------------------------------------------------------------===//
// Tiles
//===----------------------------------------------------------------------===//

LogicalResult TopKOp::verify() {
  if (getSpan() && !getBlocks())
    return emitOpError() << "chooses from spans, which are spans of blocks: "
                            "add `blocks`";
  if (isByLogits()) {
    if (getSpan())
      return emitOpError()
             << "chooses by mean logits, of which the second span "
                "has none of its own: drop `span`";
  } else if (getBlocks() && !getSpan()) {
    return emitOpError() << "chooses blocks and has no mass for the second "
                            "span, by which arguments may ask to choose: add "
                            "`span`";
  }
  if (std::optional<KeySet> within = getWithin()) {
    const KeyEntries list = *within->getEntries();
    if (getBlocks())
      return emitOpError() << "chooses blocks within a list, which only keys "
                              "are: drop `within`";
    Operation *parent = (*this)->getParentOp();
    auto task = dyn_cast<SelectTaskOp>(parent);
    const auto group = static_cast<int64_t>(
        task ? task.getGroup() : cast<KernelOp>(parent).getGroup().value_or(1));
    if (list.index != 0 || list.group % group)
      return emitOpError() << "chooses within list " << list.index
                           << " of groups of " << list.group
                           << " rows; expected list 0 and a multiple of the "
                              "kernel's "
                           << group << " rows";
  }
  if (!getPooled())
    return success();
  if (getBlocks())
    return emitOpError()
           << "pools the scores of keys and chooses blocks, whose "
              "scores are means: drop `pooled`";
  const int64_t pooled = *getPooled();
  if (pooled < ::heddle::bundle::minPooled ||
      pooled > ::heddle::bundle::maxPooled || pooled % 2 == 0)
    return emitOpError() << "pools " << pooled
                         << " scores; expected an odd number from "
                         << ::heddle::bundle::minPooled << " to "
                         << ::heddle::bundle::maxPooled;
  return success();
}

LogicalResult DotOp::verify() {
  auto queries = cast<TileType>(getQueries().getType());
  auto keys = cast<TileType>(getKeys().getType());
  if (queries.getElement() != keys.getElement())
    return emitOpError() << "multiplies " << queries.getElement() << " with "
                         << keys.getElement();
  return verifyMaker<LoadKeysOp>(*this, getKeys(), "keys");
}

LogicalResult SoftmaxUpdateOp::verify() {
  return verifyMaker<LoadValuesOp>(*this, getValues(), "values");
}

LogicalResult ScoresOp::verify() {
  if (!getLogits().getDefiningOp<DotOp>())
    return emitOpError() << "takes logits that are not shed.dot's; scores come "
                            "before masks, once";
  return success();
}

LogicalResult ScoresOp::verifyRegions() {
  return success(succeeded(mlir::heddle::readScores(getBody())));
}

void ScoresOp::getAsmBlockArgumentNames(Region &region,
                                        OpAsmSetValueNameFn setName) {
  mlir::heddle::nameScoreArguments(region, setName);
}

LogicalResult MaskOp::verify() {
  if (!getWithin() && getOutside().empty())
    return emitOpError() << "masks nothing: give `within`, `outside` or both";
  return success();
}
