//===- KernelBody.cpp - What makes a kernel's body well formed ------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A tile's logits, a running softmax and a mass live in one place each, on
// every target, and what works on them does so in place. So each of these
// values has exactly one use, and a block has one operation of each kind that
// makes or ends them. Whatever passes means what its operands say when its
// operations are run in order.
//
//===----------------------------------------------------------------------===//

#include "KernelBody.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringSwitch.h"

using namespace mlir;
using namespace mlir::shed;

/// Operations of `block` are of these types; those of `Once` are there at most
/// once.
template <typename... Once>
static LogicalResult verifyOnce(Block &block, StringRef place,
                                function_ref<bool(Operation &)> others) {
  llvm::SmallDenseMap<OperationName, Operation *> first;
  for (Operation &op : block) {
    if (!isa<Once...>(op)) {
      if (!others(op))
        return op.emitOpError() << "does not belong in " << place;
      continue;
    }
    auto [before, isFirst] = first.try_emplace(op.getName(), &op);
    if (!isFirst)
      return op.emitOpError()
                 .append("is there twice; ", place, " has one")
                 .attachNote(before->second->getLoc())
             << "the first one is here";
  }
  return success();
}

/// What is worked on in place has one use.
static LogicalResult verifyOneUse(Value value) {
  auto type = dyn_cast<TileType>(value.getType());
  const bool inPlace = isa<SoftmaxType, MassType>(value.getType()) ||
                       (type && type.getRows() == Axis::Queries &&
                        type.getColumns() == Axis::Keys);
  if (!inPlace)
    return success();
  StringRef what = isa<SoftmaxType>(value.getType()) ? "softmax"
                   : isa<MassType>(value.getType())  ? "mass"
                                                     : "tile of logits";
  Block *block = value.getParentBlock();
  if (value.use_empty()) {
    Operation *owner = value.getDefiningOp();
    return (owner ? owner : block->getParentOp())->emitOpError()
           << "makes or carries a " << what << " that nobody takes";
  }
  // Uses are linked in no order: the later one is at fault.
  Operation *first = nullptr;
  for (Operation *user : value.getUsers()) {
    if (user->getBlock() != block)
      return user->emitOpError() << "takes a " << what
                                 << " from outside of its region, which every "
                                    "turn would take anew; carry it";
    if (!first || user->isBeforeInBlock(first))
      first = user;
  }
  if (value.hasOneUse())
    return success();
  Operation *second = first;
  for (Operation *user : value.getUsers())
    if (user != first && (second == first || user->isBeforeInBlock(second)))
      second = user;
  return second->emitOpError()
             .append("takes a ", what,
                     " that is taken before and changed in its place; take "
                     "what was made of it")
             .attachNote(first->getLoc())
         << "it is taken here";
}

static LogicalResult verifyOneUse(Block &block) {
  for (Value argument : block.getArguments())
    if (failed(verifyOneUse(argument)))
      return failure();
  for (Operation &op : block)
    for (Value result : op.getResults())
      if (failed(verifyOneUse(result)))
        return failure();
  return success();
}

/// A pass over a set whose keys differ by row visits more for a row than its
/// own.
static LogicalResult verifyMasked(ForKeysOp loop, SoftmaxUpdateOp update) {
  auto over = dyn_cast<KeySet>(loop.getOver());
  if (!over || over.isUniform())
    return success();
  Operation *op = update.getLogits().getDefiningOp();
  while (op) {
    auto mask = dyn_cast<MaskOp>(op);
    if (mask && mask.getWithin() &&
        ::heddle::bundle::contains(*over.getTerm(),
                                   *mask.getWithin()->getTerm()))
      return success();
    op =
        isa<MaskOp, ScoresOp>(op) ? op->getOperand(0).getDefiningOp() : nullptr;
  }
  return update.emitOpError()
         << "counts every key that some row of the tile has: in a pass over "
         << over << " logits are masked within it, or within a part of it";
}

static LogicalResult verifyPass(ForKeysOp loop, bool attends) {
  Block &body = loop.getBody().front();
  StringRef place = attends ? "an attention kernel's shed.for_keys"
                            : "a select kernel's shed.for_keys";
  auto others = [&](Operation &op) {
    return isa<YieldOp>(op) || (attends && isa<MaskOp>(op));
  };
  LogicalResult allowed =
      attends ? verifyOnce<LoadKeysOp, LoadValuesOp, DotOp, ScoresOp,
                           SoftmaxUpdateOp>(body, place, others)
              : verifyOnce<LoadKeysOp, DotOp, ScoresOp, ColumnMassOp>(
                    body, place, others);
  if (failed(allowed) || failed(verifyOneUse(body)))
    return failure();
  for (Operation &op : body) {
    if (auto dot = dyn_cast<DotOp>(op)) {
      if (failed(verifyMaker<LoadQueriesOp>(dot, dot.getQueries(), "queries")))
        return failure();
    } else if (auto update = dyn_cast<SoftmaxUpdateOp>(op)) {
      if (failed(verifyMasked(loop, update)))
        return failure();
    }
  }
  return success();
}

static LogicalResult verifyAttention(KernelOp kernel) {
  Block &body = kernel.getBody().front();
  if (failed(verifyOnce<LoadQueriesOp, SoftmaxInitOp, StoreOp>(
          body, "an attention kernel",
          [](Operation &op) { return isa<ForKeysOp>(op); })) ||
      failed(verifyOneUse(body)))
    return failure();
  return success(llvm::all_of(body.getOps<ForKeysOp>(), [](ForKeysOp loop) {
    return succeeded(verifyPass(loop, /*attends=*/true));
  }));
}

static LogicalResult verifyQueries(ForQueriesOp loop) {
  Block &body = loop.getBody().front();
  if (!loop.getInit().getDefiningOp<MassInitOp>())
    return loop.emitOpError() << "begins with a mass that is not zero; it "
                                 "takes one of its own from shed.mass_init";
  if (failed(verifyOnce<LoadQueriesOp, LoadLseOp, ForKeysOp>(
          body, "a select kernel's shed.for_queries",
          [](Operation &op) { return isa<YieldOp>(op); })) ||
      failed(verifyOneUse(body)))
    return failure();
  for (auto lse : body.getOps<LoadLseOp>())
    if (lse.getSpan() != loop.getSpan())
      return lse.emitOpError()
             << (loop.getSpan() ? "loads that of all keys in a loop of the "
                                  "second span; write `span`"
                                : "loads the second span's outside of "
                                  "shed.for_queries span");
  if (body.getOps<ForKeysOp>().empty())
    return loop.emitOpError() << "scores no key; it needs a shed.for_keys";
  for (auto pass : body.getOps<ForKeysOp>()) {
    if (pass.getBody().front().getOps<ColumnMassOp>().empty())
      return pass.emitOpError() << "scores no key; it needs a shed.column_mass";
    const bool all = loop.getSpan() ? isa<SpanAttr>(pass.getOver())
                                    : isa<AllAttr>(pass.getOver());
    if (!all || !pass.getSkip().empty())
      return pass.emitOpError()
             << "passes over " << pass.getOver() << "; select kernels score "
             << (loop.getSpan() ? "the keys of the span" : "all keys")
             << ", and skip none";
    if (failed(verifyPass(pass, /*attends=*/false)))
      return failure();
  }
  return success();
}

static LogicalResult verifySelect(KernelOp kernel) {
  Block &body = kernel.getBody().front();
  if (failed(verifyOnce<TopKOp, LogitMassOp>(
          body, "a select kernel",
          [](Operation &op) { return isa<MassInitOp, ForQueriesOp>(op); })) ||
      failed(verifyOneUse(body)))
    return failure();
  ForQueriesOp loops[2];
  for (auto loop : body.getOps<ForQueriesOp>()) {
    ForQueriesOp &same = loops[loop.getSpan()];
    if (same)
      return loop.emitOpError("is there twice; a select kernel has one over "
                              "its rows and one for the span")
                 .attachNote(same.getLoc())
             << "the first one is here";
    same = loop;
    if (failed(verifyQueries(loop)))
      return failure();
  }
  auto choice = cast<TopKOp>(body.back());
  if (choice.isByLogits()) {
    auto logits = choice.getMass().getDefiningOp<LogitMassOp>();
    if (!logits.getMass().getDefiningOp<MassInitOp>())
      return logits.emitOpError() << "begins with a mass that is not zero; it "
                                     "takes one of its own from "
                                     "shed.mass_init";
  } else if (choice.getMass().getDefiningOp() != loops[0]) {
    return choice.emitOpError()
           << "chooses by a mass that does not come from a shed.for_queries "
              "over all keys, nor from shed.logit_mass";
  }
  if (choice.getSpan() && choice.getSpan().getDefiningOp() != loops[1])
    return choice.emitOpError()
           << "chooses in the span by a mass that does not come from "
              "shed.for_queries span";
  return success();
}

LogicalResult shed::verifyBody(KernelOp kernel) {
  return kernel.getKind() == KernelKind::Attention ? verifyAttention(kernel)
                                                   : verifySelect(kernel);
}
