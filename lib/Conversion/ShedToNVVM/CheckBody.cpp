//===- CheckBody.cpp - What kernels can be lowered for GPUs ---------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "CheckBody.h"

using namespace mlir;
using namespace mlir::heddle;

namespace {

/// One block of a kernel of which each operation is met in turn. Values are
/// null until the operation that gives them has been met.
class BlockChecker {
public:
  explicit BlockChecker(StringRef place) : place(place) {}

  /// `value` becomes the result of `op`; an error if it has been met before.
  LogicalResult define(Operation &op, Value &value) {
    if (value)
      return op.emitOpError() << "is there twice; " << place << " has one";
    value = op.getResult(0);
    return success();
  }

  /// Operand `i` must be `value`, which is called `name`.
  LogicalResult expect(Operation &op, unsigned i, Value value, StringRef name) {
    if (value && op.getOperand(i) == value)
      return success();
    return op.emitOpError() << "has an operand " << i << " that is not " << name
                            << ", so it can't be lowered for a GPU";
  }

  LogicalResult refuse(Operation &op) {
    return op.emitOpError() << "is not expected in " << place;
  }

private:
  StringRef place;
};

} // namespace

//===----------------------------------------------------------------------===//
// Attention
//===----------------------------------------------------------------------===//

static LogicalResult checkAttentionPass(shed::ForKeysOp loop, Value queries) {
  BlockChecker check("an attention kernel's shed.for_keys");
  Value keys, values, logits, next;
  Block &body = loop.getBody().front();
  auto checkOp = [&](Operation &op) {
    if (isa<shed::LoadKeysOp>(op))
      return check.define(op, keys);
    if (isa<shed::LoadValuesOp>(op))
      return check.define(op, values);
    if (isa<shed::DotOp>(op))
      return success(
          succeeded(check.define(op, logits)) &&
          succeeded(check.expect(op, 0, queries, "the kernel's queries")) &&
          succeeded(check.expect(op, 1, keys, "the keys of the pass")));
    if (isa<shed::MaskOp, shed::ScoresOp>(op)) {
      LogicalResult good = check.expect(op, 0, logits, "the latest logits");
      logits = op.getResult(0);
      return good;
    }
    if (isa<shed::SoftmaxUpdateOp>(op))
      return success(
          succeeded(check.define(op, next)) &&
          succeeded(check.expect(op, 0, body.getArgument(1),
                                 "what the pass carries")) &&
          succeeded(check.expect(op, 1, logits, "the latest logits")) &&
          succeeded(check.expect(op, 2, values, "the values of the pass")));
    if (isa<shed::YieldOp>(op))
      return check.expect(op, 0, next, "the updated softmax");
    return check.refuse(op);
  };
  return success(llvm::all_of(
      body, [&](Operation &op) { return succeeded(checkOp(op)); }));
}

static LogicalResult checkAttention(shed::KernelOp kernel) {
  BlockChecker check("an attention kernel");
  Value queries, state, passed;
  auto checkOp = [&](Operation &op) {
    if (isa<shed::LoadQueriesOp>(op))
      return check.define(op, queries);
    if (isa<shed::SoftmaxInitOp>(op))
      return check.define(op, state);
    if (auto loop = dyn_cast<shed::ForKeysOp>(op)) {
      if (failed(check.expect(op, 0, state, "the softmax so far")) ||
          failed(checkAttentionPass(loop, queries)))
        return failure();
      passed = state = loop.getResult();
      return success();
    }
    if (isa<shed::StoreOp>(op))
      return check.expect(op, 0, passed, "the softmax of the last pass");
    return check.refuse(op);
  };
  return success(llvm::all_of(kernel.getBody().front(), [&](Operation &op) {
    return succeeded(checkOp(op));
  }));
}

//===----------------------------------------------------------------------===//
// Selection
//===----------------------------------------------------------------------===//

static LogicalResult checkSelectPass(shed::ForKeysOp loop, Value queries,
                                     Value lse, bool span) {
  bool all = span ? isa<shed::SpanAttr>(loop.getOver())
                  : isa<shed::AllAttr>(loop.getOver());
  if (!all || !loop.getSkip().empty())
    return loop.emitOpError() << "is not expected here: a CUDA select kernel "
                                 "scores all keys"
                              << (span ? " of the span" : "") << ", unmasked";
  BlockChecker check("a select kernel's shed.for_keys");
  Value keys, logits, next;
  Block &body = loop.getBody().front();
  auto checkOp = [&](Operation &op) {
    if (isa<shed::LoadKeysOp>(op))
      return check.define(op, keys);
    if (isa<shed::DotOp>(op))
      return success(
          succeeded(check.define(op, logits)) &&
          succeeded(check.expect(op, 0, queries, "the queries at hand")) &&
          succeeded(check.expect(op, 1, keys, "the keys of the pass")));
    if (isa<shed::ScoresOp>(op)) {
      LogicalResult good = check.expect(op, 0, logits, "the latest logits");
      logits = op.getResult(0);
      return good;
    }
    if (isa<shed::ColumnMassOp>(op))
      return success(
          succeeded(check.define(op, next)) &&
          succeeded(check.expect(op, 0, body.getArgument(1),
                                 "what the pass carries")) &&
          succeeded(check.expect(op, 1, logits, "the logits")) &&
          succeeded(check.expect(op, 2, lse, "the queries' log-sum-exp")));
    if (isa<shed::YieldOp>(op))
      return check.expect(op, 0, next, "the added mass");
    return check.refuse(op);
  };
  return success(llvm::all_of(
      body, [&](Operation &op) { return succeeded(checkOp(op)); }));
}

static LogicalResult checkQueries(shed::ForQueriesOp loop) {
  BlockChecker check("a select kernel's shed.for_queries");
  Value queries, lse, next;
  Block &body = loop.getBody().front();
  auto checkOp = [&](Operation &op) {
    if (isa<shed::LoadQueriesOp>(op))
      return check.define(op, queries);
    if (auto load = dyn_cast<shed::LoadLseOp>(op))
      return load.getSpan() == loop.getSpan() ? check.define(op, lse)
                                              : check.refuse(op);
    if (auto pass = dyn_cast<shed::ForKeysOp>(op))
      return success(
          succeeded(check.define(op, next)) &&
          succeeded(check.expect(op, 0, body.getArgument(0),
                                 "what the loop carries")) &&
          succeeded(checkSelectPass(pass, queries, lse, loop.getSpan())));
    if (isa<shed::YieldOp>(op))
      return check.expect(op, 0, next, "the mass of the pass");
    return check.refuse(op);
  };
  return success(llvm::all_of(
      body, [&](Operation &op) { return succeeded(checkOp(op)); }));
}

static LogicalResult checkSelect(shed::KernelOp kernel) {
  BlockChecker check("a select kernel");
  Value empty, mass, span;
  auto checkOp = [&](Operation &op) {
    if (isa<shed::MassInitOp>(op)) {
      empty = op.getResult(0);
      return success();
    }
    if (auto loop = dyn_cast<shed::ForQueriesOp>(op))
      return success(
          succeeded(check.define(op, loop.getSpan() ? span : mass)) &&
          succeeded(check.expect(op, 0, empty, "the mass before the loop")) &&
          succeeded(checkQueries(loop)));
    if (auto choice = dyn_cast<shed::TopKOp>(op))
      return success(
          succeeded(check.expect(op, 0, mass, "the mass of all queries")) &&
          (!choice.getSpan() ||
           succeeded(check.expect(op, 1, span, "the mass of the span"))));
    return check.refuse(op);
  };
  return success(llvm::all_of(kernel.getBody().front(), [&](Operation &op) {
    return succeeded(checkOp(op));
  }));
}

LogicalResult mlir::heddle::checkBody(shed::KernelOp kernel) {
  return kernel.getKind() == shed::KernelKind::Select ? checkSelect(kernel)
                                                      : checkAttention(kernel);
}
