//===- Tasks.cpp - Pipelined kernels of shed ------------------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/Dialect/Shed/IR/MmaTiling.h"

#include "bundle/program/Manifest.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"

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
  const SharedLayoutAttr layout = task.getLayout();
  auto is = [&](TileForm what) { return bitEnumContainsAny(getForm(), what); };
  const bool listed = is(TileForm::Listed), marked = is(TileForm::Marked);
  if ((listed && !layout.getSource()) || (marked && !layout.getFilter()) ||
      (is(TileForm::Blocks) && !listed) ||
      ((listed || marked) && !task.getSplit().empty()))
    return emitOpError() << "has a form that the task's layout has no place "
                            "for, or that warps do not share: listed needs "
                            "source, marked filter, blocks are listed";
  return success();
}

LogicalResult AttentionTaskOp::verifyRegions() {
  if (!getSplit().empty() &&
      (getSplit().size() != 3 || !getTiling().getShareKeys() ||
       !canShareKeys(getElement(), getHeadDim(), getTiling())))
    return emitOpError() << "is split by " << getSplit().size()
                         << " values; expected 3 where the tiling has "
                            "share_keys and can have them, else none";
  return verifyTask<StoreOp>(*this);
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

LogicalResult SelectTaskOp::verifyRegions() {
  return verifyTask<TopKOp>(*this);
}
