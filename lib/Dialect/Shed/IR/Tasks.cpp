//===- Tasks.cpp - Pipelined kernels of shed ------------------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/Dialect/Shed/IR/MmaTiling.h"

#include "bundle/program/Manifest.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/IR/Matchers.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace mlir::shed;

/// What holds for tasks of both kinds; `Last` ends them.
template <typename Last, typename Task>
static LogicalResult verifyTask(Task task) {
  if (!task->template getParentOfType<LLVM::LLVMFuncOp>() ||
      task->template getParentOfType<AttentionTaskOp>() ||
      task->template getParentOfType<SelectTaskOp>())
    return task.emitOpError() << "must stand in an llvm.func and in no task";
  const auto headDim = static_cast<int64_t>(task.getHeadDim());
  if (headDim < minHeadDim || headDim > maxMmaHeadDim || headDim % minHeadDim)
    return task.emitOpError()
           << "has head_dim " << headDim << "; expected a multiple of "
           << minHeadDim << " from " << minHeadDim << " to " << maxMmaHeadDim;
  Block &body = task.getBody().front();
  if (body.empty() || !isa<Last>(body.back()))
    return task.emitOpError() << "must end in " << Last::getOperationName();
  const WalkResult walked = body.walk([&](Operation *op) {
    if (isa<Last>(op) && op != &body.back()) {
      op->emitOpError() << "ends a task and stands before its end; drop it";
      return WalkResult::interrupt();
    }
    auto isKeys = llvm::IsaPred<KeysType>;
    auto takesKeys = [&](Region &region) {
      return llvm::any_of(region, [&](Block &block) {
        return llvm::any_of(block.getArgumentTypes(), isKeys);
      });
    };
    // What is known of a tile is read off the op that names it.
    if (std::is_same_v<Last, StoreOp> && !isa<KeysAtOp>(op) &&
        (llvm::any_of(op->getResultTypes(), isKeys) ||
         llvm::any_of(op->getRegions(), takesKeys))) {
      op->emitOpError() << "hands on keys of attention, which shed.keys_at "
                           "makes where they are used";
      return WalkResult::interrupt();
    }
    for (Type type : op->getResultTypes()) {
      auto tile = dyn_cast<TileType>(type);
      if (tile && tile.getColumns() == Axis::Channels &&
          tile.getElement() != task.getElement()) {
        op->emitOpError() << "makes a tile of " << tile.getElement()
                          << " in a task whose element is "
                          << task.getElement();
        return WalkResult::interrupt();
      }
    }
    return WalkResult::advance();
  });
  return success(!walked.wasInterrupted());
}

LogicalResult SharedLayoutAttr::verify(
    function_ref<InFlightDiagnostic()> emitError, int64_t queries, int64_t keys,
    int64_t bytes, int64_t values, int64_t weights, int64_t source,
    int64_t filter, int64_t positions, int64_t lse, int64_t inverses) {
  for (int64_t offset : {queries, keys, values, weights, source, filter,
                         positions, lse, inverses})
    if (offset < 0 || offset % 16 || offset > bytes)
      return emitError() << "an offset into shared memory is a multiple of 16 "
                            "from 0 to the "
                         << bytes << " bytes of all, found " << offset;
  return success();
}

LogicalResult KeysAtOp::verify() {
  auto task = (*this)->getParentOfType<AttentionTaskOp>();
  if (!task)
    return emitOpError() << "must stand in a shed.attention_task";
  if (getBlocks() && !(isListed() && isMarked()))
    return emitOpError() << "has blocks of a list, which leave gaps that the "
                            "filter marks; write `marks`, and no `from`";
  if (getPartial() && isMarked())
    return emitOpError() << "is partial and marked; the filter marks what is "
                            "behind the last key, too: drop `partial`";
  if (!isListed() && !isMarked())
    return success();
  const MmaTilingAttr tiling = task.getTiling();
  if (!canTakeLists(tiling) || !task.getSplit().empty())
    return emitOpError() << "is of a list or marked, in tiles of "
                         << tiling.getKeys() << " keys for "
                         << tiling.getThreads()
                         << " threads; such tiles have at least 32 keys, at "
                            "most one for each thread, and no split";
  return success();
}

/// What logits are made of, and of which keys, as far as an op says it.
struct LogitSources {
  Value keys;
  SmallVector<Value> logits;

  bool areKnown() const { return keys || !logits.empty(); }
};

static LogitSources sourcesOf(OpResult logits) {
  Operation *op = logits.getOwner();
  if (auto dot = dyn_cast<DotOp>(op))
    return {dot.getKeys().getDefiningOp<LoadKeysOp>().getKeys(), {}};
  if (auto mask = dyn_cast<MaskOp>(op))
    return {mask.getKeys(), {mask.getLogits()}};
  if (auto scores = dyn_cast<ScoresOp>(op))
    return {scores.getKeys(), {scores.getLogits()}};
  LogitSources sources;
  if (auto either = dyn_cast<scf::IfOp>(op)) {
    for (Region *branch : {&either.getThenRegion(), &either.getElseRegion()})
      sources.logits.push_back(branch->front().getTerminator()->getOperand(
          logits.getResultNumber()));
    return sources;
  }
  // Ops of others make logits of logits, as arith.select does. What regions of
  // theirs give is not known.
  if (op->getNumRegions() == 0)
    llvm::copy_if(
        op->getOperands(), std::back_inserter(sources.logits),
        [&](Value each) { return each.getType() == logits.getType(); });
  return sources;
}

/// Logits and values are of the same keys, whose form says which of them have
/// no weight. `known`: the keys of logits that were looked at before.
static LogicalResult verifyKeys(SoftmaxUpdateOp update,
                                DenseMap<Value, Value> &known) {
  Value keys = update.getValues().getDefiningOp<LoadValuesOp>().getKeys();
  SetVector<Value> made;
  made.insert(update.getLogits());
  for (size_t i = 0; i < made.size(); ++i) {
    if (known.lookup(made[i]) == keys)
      continue;
    auto result = dyn_cast<OpResult>(made[i]);
    LogitSources sources = result ? sourcesOf(result) : LogitSources();
    if (!sources.areKnown())
      return update.emitOpError()
                 .append("takes logits of which it is not known what keys "
                         "they are of; expected shed.dot, shed.mask and "
                         "shed.scores, and what scf.if, arith.select or ops "
                         "without regions make of their logits")
                 .attachNote(made[i].getLoc())
             << "of these it is not known";
    if (sources.keys && sources.keys != keys)
      return update.emitOpError()
                 .append("takes values of other keys than its logits are of")
                 .attachNote(result.getOwner()->getLoc())
             << "these are of other keys";
    made.insert_range(sources.logits);
  }
  for (Value logits : made)
    known[logits] = keys;
  return success();
}

LogicalResult AttentionTaskOp::verifyRegions() {
  const bool shares = getTiling().getShareKeys();
  if (getSplit().size() != (shares ? 3 : 0) ||
      (shares && !canShareKeys(getElement(), getHeadDim(), getTiling())))
    return emitOpError() << "is split by " << getSplit().size()
                         << " values; expected 3 where the tiling has "
                            "share_keys and can have them, else none";
  if (getTiling().getKeepQueries() && getElement().isF32())
    return emitOpError() << "of element f32 reads its queries from shared "
                            "memory; drop keep_queries";
  const bool lists = getBody()
                         .walk([](KeysAtOp keys) {
                           return keys.isListed() && !keys.getBlocks()
                                      ? WalkResult::interrupt()
                                      : WalkResult::advance();
                         })
                         .wasInterrupted();
  if (getEncoding() && !lists)
    return emitOpError() << "has no keys of a list, so it can't have an "
                            "encoding";
  if (failed(verifyTask<StoreOp>(*this)))
    return failure();
  DenseMap<Value, Value> known;
  return success(!getBody()
                      .walk([&](SoftmaxUpdateOp update) {
                        return WalkResult(verifyKeys(update, known));
                      })
                      .wasInterrupted());
}

LogicalResult SelectTaskOp::verify() {
  const auto group = static_cast<int64_t>(getGroup());
  if (failed(verifySelectTiling(*this, group, getTiling())))
    return failure();
  const bool ofRange = group == ::heddle::bundle::groupOfAll;
  if (ofRange != static_cast<bool>(getFirstRow()))
    return emitOpError() << "says where rows begin if and only if it has one "
                            "group of some of the rows";
  return success();
}

/// Lists are made of what scratch has.
static LogicalResult verifyStored(TopKOp choice, Value mass) {
  if (auto logits = mass.getDefiningOp<LogitMassOp>())
    mass = logits.getMass();
  auto cast = mass.getDefiningOp<UnrealizedConversionCastOp>();
  if (cast && !cast.getOperands().empty() &&
      llvm::all_of(cast.getOperands().drop_back(), [](Value sum) {
        return matchPattern(sum, m_AnyZeroFloat());
      }))
    return success();
  InFlightDiagnostic error =
      choice.emitOpError() << "chooses by a mass that is not cast from zeros, "
                              "so it has yet to be added to scores";
  if (Operation *made = mass.getDefiningOp())
    error.attachNote(made->getLoc()) << "the mass is made here";
  return error;
}

LogicalResult SelectTaskOp::verifyRegions() {
  if (failed(verifyTask<TopKOp>(*this)))
    return failure();
  auto choice = cast<TopKOp>(getBody().front().back());
  if (failed(verifyStored(choice, choice.getMass())))
    return failure();
  const bool byLogits = choice.isByLogits();
  if (getHeads() && !byLogits)
    return emitOpError() << "says how many heads share a list and has no "
                            "shed.logit_mass, which alone asks that";
  const WalkResult scored = getBody().walk([&](Operation *op) {
    if (isa<LogitMassOp>(op)
            ? byLogits && op == choice.getMass().getDefiningOp()
            : !byLogits || !isa<DotOp, ScoresOp, ColumnMassOp>(op))
      return WalkResult::advance();
    op->emitOpError() << "scores keys in another way than shed.top_k chooses "
                         "by; a task has one";
    return WalkResult::interrupt();
  });
  if (scored.wasInterrupted())
    return failure();
  return success(!choice.getSpan() ||
                 succeeded(verifyStored(choice, choice.getSpan())));
}
