//===- Tasks.cpp - Pipelined kernels of shed ------------------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/Dialect/Shed/IR/Shed.h"

using namespace mlir;
using namespace mlir::shed;

/// What holds for tasks of both kinds; `Last` ends them.
template <typename Last, typename Task>
static LogicalResult verifyTask(Task task) {
  const auto headDim = static_cast<int64_t>(task.getHeadDim());
  if (headDim < minHeadDim || headDim > maxMmaHeadDim || headDim % minHeadDim)
    return task.emitOpError()
           << "has head_dim " << headDim << "; expected a multiple of "
           << minHeadDim << " from " << minHeadDim << " to " << maxMmaHeadDim;
  Block &body = task.getBody().front();
  if (body.empty() || !isa<Last>(body.back()))
    return task.emitOpError() << "must end in " << Last::getOperationName();
  const WalkResult walked = body.walk([&](Operation *op) {
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

LogicalResult AttentionTaskOp::verifyRegions() {
  if (!getSplit().empty() &&
      (getSplit().size() != 3 || !getTiling().getShareKeys()))
    return emitOpError() << "is split by " << getSplit().size()
                         << " values; expected 3 where the tiling has "
                            "share_keys, else none";
  return verifyTask<StoreOp>(*this);
}

LogicalResult SelectTaskOp::verifyRegions() {
  return verifyTask<TopKOp>(*this);
}
