//===- PingPong.cpp - Have warpgroups start products in order -------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/Dialect/Warp/Transforms/Passes.h"

#include "mlir/Dialect/SCF/IR/SCF.h"

namespace mlir::warp {
#define GEN_PASS_DEF_WARPPINGPONG
#include "heddle/Dialect/Warp/Transforms/Passes.h.inc"
} // namespace mlir::warp

using namespace mlir;
using namespace mlir::warp;

/// The op of the role's block that `op` is in. Null, with an error, where it is
/// in anything but loops: warpgroups would come in other numbers.
static Operation *outermost(Operation *op) {
  Operation *outer = op;
  while (!isa<RolesOp>(outer->getParentOp())) {
    outer = outer->getParentOp();
    if (isa<scf::ForOp>(outer))
      continue;
    op->emitOpError() << "is in " << outer->getName()
                      << ", which not all warpgroups need come to; they start "
                         "products in order (ping_pong)";
    return nullptr;
  }
  if (outer == op) {
    op->emitOpError("is in no loop; products in order (ping_pong) are of loops "
                    "over tiles");
    return nullptr;
  }
  return outer;
}

/// Puts the products of a loop's body in order: what is started between two
/// waits is started together.
static void orderProducts(OpBuilder &b, Block &body) {
  MultiplyOp last;
  auto arrive = [&] {
    if (last) {
      b.setInsertionPointAfter(last);
      OrderArriveOp::create(b, last.getLoc());
    }
    last = {};
  };
  for (Operation &op : llvm::make_early_inc_range(body)) {
    if (auto product = dyn_cast<MultiplyOp>(op)) {
      b.setInsertionPoint(product);
      if (!last)
        OrderWaitOp::create(b, product.getLoc());
      last = product;
    } else if (isa<WaitOp>(op)) {
      arrive();
    }
  }
  arrive();
}

static LogicalResult order(RolesOp roles) {
  SetVector<Block *> bodies;
  Operation *first = nullptr, *last = nullptr;
  WalkResult walked = roles.getConsumer().walk([&](MultiplyOp op) {
    last = outermost(op);
    if (!last)
      return WalkResult::interrupt();
    if (!first)
      first = last;
    bodies.insert(op->getBlock());
    return WalkResult::advance();
  });
  if (walked.wasInterrupted())
    return failure();
  if (!first)
    return success();
  OpBuilder b(first);
  OrderBeginOp::create(b, first->getLoc());
  for (Block *body : bodies)
    orderProducts(b, *body);
  b.setInsertionPointAfter(last);
  OrderEndOp::create(b, last->getLoc());
  return success();
}

namespace {
struct PingPong : warp::impl::WarpPingPongBase<PingPong> {
  void runOnOperation() override {
    WalkResult walked = getOperation().walk([](RolesOp roles) {
      if (!roles.getPingPong())
        return WalkResult::advance();
      roles.setPingPong(false);
      return WalkResult(order(roles));
    });
    if (walked.wasInterrupted())
      signalPassFailure();
  }
};
} // namespace
