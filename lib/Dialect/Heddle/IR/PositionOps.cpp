//===- PositionOps.cpp - Sets, and the ops that use sets of positions -----===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Forms.h"
#include "Verify.h"
#include "bundle/program/ProgramChecks.h"
#include "heddle/Dialect/Heddle/IR/PairSet.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/SmallPtrSet.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace mlir::heddle;
namespace bundle = ::heddle::bundle;

static bool isAll(Value set) {
  if (set && set.getDefiningOp<DenseOp>())
    return true;
  auto op = set ? set.getDefiningOp<PositionsOp>() : PositionsOp();
  return op && op.getSet().kind == PositionsKind::All;
}

StringRef mlir::heddle::plainName(Operation *set) {
  return llvm::TypeSwitch<Operation *, StringRef>(set)
      .Case([](PositionsOp op) { return spelled(op.getSet().kind); })
      .Case([](FixOp) { return "fixed"; })
      .Case([](PredictingOp) { return "rows"; })
      .Case([](SelectOp op) {
        return op.getName().value_or(spelled(op.getRule().kind));
      })
      .Case<UnionOp, IntersectOp, ExceptOp>([](Operation *op) {
        return isa<PairsType>(op->getResult(0).getType()) ? "pairs"
                                                          : "positions";
      })
      .Default([](Operation *op) { return op->getName().stripDialect(); });
}

void mlir::heddle::nameResult(Operation *op, OpAsmSetValueNameFn setName) {
  StringRef written = writtenName(op);
  setName(op->getResult(0), written.empty() ? plainName(op) : written);
}

/// The operands of `op` with those of the ops of its kind among them in their
/// place, without repeats. Each op is visited once, without recursion: ops that
/// share operands can be exponentially many paths.
template <typename OpTy> static SmallVector<Value> flatOperands(OpTy op) {
  llvm::SmallSetVector<Value, 8> parts;
  SmallPtrSet<Operation *, 8> seen = {op};
  SmallVector<Value> left(llvm::reverse(op.getOperands()));
  while (!left.empty()) {
    Value value = left.pop_back_val();
    auto inner = value.getDefiningOp<OpTy>();
    if (!inner)
      parts.insert(value);
    else if (seen.insert(inner).second)
      llvm::append_range(left, llvm::reverse(inner.getOperands()));
  }
  return parts.takeVector();
}

/// Replaces `op` by its one part or gives it the parts.
template <typename OpTy>
static LogicalResult setParts(OpTy op, ArrayRef<Value> parts,
                              PatternRewriter &rewriter) {
  if (parts.size() == 1) {
    rewriter.replaceOp(op, parts.front());
    return success();
  }
  if (llvm::equal(parts, op.getOperands()))
    return failure();
  rewriter.modifyOpInPlace(op, [&] { op->setOperands(parts); });
  return success();
}

//===----------------------------------------------------------------------===//
// UnionOp
//===----------------------------------------------------------------------===//

// P5: a union has a part.
LogicalResult UnionOp::verify() {
  if (getOperands().empty())
    return emitOpError(isa<PairsType>(getType())
                           ? "needs at least one set of pairs; attention that "
                             "computes nothing is not defined"
                           : "needs at least one set of positions");
  for (Value operand : getOperands())
    if (operand.getType() != getType())
      return emitOpError("unites pairs with positions");
  return success();
}

OpFoldResult UnionOp::fold(FoldAdaptor) {
  for (Value operand : getOperands())
    if (isAll(operand))
      return operand;
  return llvm::all_equal(getOperands()) ? OpFoldResult(getOperands().front())
                                        : OpFoldResult();
}

LogicalResult UnionOp::canonicalize(UnionOp op, PatternRewriter &rewriter) {
  if (isa<PairsType>(op.getType()))
    return setParts(op, partsOf(op), rewriter);
  SmallVector<Value> parts = flatOperands(op);
  if (auto *all = llvm::find_if(parts, isAll); all != parts.end())
    parts = {*all};
  return setParts(op, parts, rewriter);
}

//===----------------------------------------------------------------------===//
// The other sets
//===----------------------------------------------------------------------===//

// R9: an intersection has a part.
LogicalResult IntersectOp::verify() {
  if (getOperands().empty())
    return emitOpError(isa<PairsType>(getType())
                           ? "needs at least one set of pairs"
                           : "needs at least one set of positions");
  for (Value operand : getOperands())
    if (operand.getType() != getType())
      return emitOpError("intersects pairs with positions");
  return isa<PairsType>(getType()) ? verifyPairs(*this) : success();
}

OpFoldResult IntersectOp::fold(FoldAdaptor) {
  return llvm::all_equal(getOperands()) ? OpFoldResult(getOperands().front())
                                        : OpFoldResult();
}

LogicalResult IntersectOp::canonicalize(IntersectOp op,
                                        PatternRewriter &rewriter) {
  SmallVector<Value> parts = flatOperands(op);
  if (!llvm::all_of(parts, isAll))
    llvm::erase_if(parts, isAll);
  return setParts(op, parts, rewriter);
}

LogicalResult PositionsOp::verify() {
  const bundle::Positions set = getSet();
  const bool dated = set.kind == PositionsKind::Committed && set.count == 0;
  if (dated == static_cast<bool>(getSince()))
    return success();
  return emitOpError() << spelled(set.kind)
                       << (dated ? " needs a number of steps or a cadence"
                                 : " has no cadence");
}

// Spans stay as they are.
OpFoldResult FixOp::fold(FoldAdaptor) {
  auto positions = getPositions().getDefiningOp<PositionsOp>();
  bool still = positions &&
               llvm::is_contained({PositionsKind::All, PositionsKind::Prompt,
                                   PositionsKind::Response},
                                  positions.getSet().kind);
  // What a cadence without a first step means is an error, not a span.
  CadenceAttr cadence = cadenceOf(getCadence());
  return still && cadence && bundle::includesFirst(cadence.getValue())
             ? OpFoldResult(getPositions())
             : OpFoldResult();
}

LogicalResult NeighborsOp::verify() {
  return checkCount([&] { return emitOpError(); }, "the number of neighbors",
                    static_cast<int64_t>(getCount()));
}

LogicalResult NearestOp::verify() {
  return checkCount([&] { return emitOpError(); }, "the number of positions",
                    static_cast<int64_t>(getCount()));
}

LogicalResult LastOp::verify() {
  return checkCount([&] { return emitOpError(); }, "the number of positions",
                    static_cast<int64_t>(getCount()));
}

LogicalResult ConfidentOp::verify() {
  // C1, R22: weights are summed position by position.
  auto error = [&] { return emitOpError(); };
  if (failed(checkCount(error, "argument 'count' of confident",
                        static_cast<int64_t>(getCount()))))
    return failure();
  return getNear()
             ? checkCount(error, "argument 'near' of confident",
                          static_cast<int64_t>(*getNear()), 1, bundle::maxNear)
             : success();
}

LogicalResult AttendedOp::verify() {
  // R24: no share is no set.
  return checkRatio([&] { return emitOpError(); },
                    "argument 'share' of attended", getShare().getValue());
}

//===----------------------------------------------------------------------===//
// Uses
//===----------------------------------------------------------------------===//

LogicalResult VisibleOp::canonicalize(VisibleOp op, PatternRewriter &rewriter) {
  if (!isAll(op.getPositions()))
    return failure();
  rewriter.eraseOp(op);
  return success();
}

LogicalResult RecomputeOp::verify() {
  if (getLayersAttr() && getLayersAttr().empty())
    return emitOpError("names no layer in layers(...)");
  const bundle::Pass rule = getRule();
  const bool hasAmong = static_cast<bool>(getAmong());
  if (hasAmong != (rule.exact == Exact::LeastSimilar))
    return emitOpError() << spelled(rule.exact)
                         << (hasAmong ? " compares no set of positions"
                                      : " needs the positions to compare");
  // R23: there is something to choose by it.
  if (rule.confidence.num > 0 && rule.keep.num == 0)
    return emitOpError(
        "computes no row of those to compare (keep = 0 percent), so that "
        "nothing is chosen by their confidence; drop `confidence`");
  return success();
}

LogicalResult RecomputeOp::canonicalize(RecomputeOp op,
                                        PatternRewriter &rewriter) {
  if (!isAll(op.getRows()))
    return failure();
  rewriter.modifyOpInPlace(op, [&] { op.getRowsMutable().clear(); });
  return success();
}

LogicalResult ReuseOp::verify() {
  if (getLayersAttr() && getLayersAttr().empty())
    return emitOpError("names no layer in layers(...)");
  const bundle::Reuse rule = getRule();
  const bool outside = rule.attention == ReusedAttention::Outside;
  if (outside != (getInside() != nullptr) || outside != (getOn() != nullptr))
    return emitOpError(
        outside ? "keeps attention outside of a set and needs both the set and "
                  "a cadence: attention(outside = %set, on = %cadence)"
                : "names a set or a cadence, which only attention(outside = "
                  "%set, on = %cadence) has");
  const bool some = rule.keep != bundle::Reuse().keep;
  if ((getRefreshed() && !outside) || (some && !getRefreshed()))
    return emitOpError(
        outside ? "says how many rows refresh what is kept of "
                  "attention, and not which: refresh = "
                  "least_similar(keep = r) in %rows"
                : "names rows that refresh what is kept of attention, "
                  "which only attention(outside = %set, on = "
                  "%cadence, refresh = %rows) has");
  if (getBeforeRope() && !rule.kv)
    return emitOpError("keeps no keys, so none before RoPE");
  return success();
}

LogicalResult ReuseOp::canonicalize(ReuseOp op, PatternRewriter &rewriter) {
  if (!op.getBeforeRope())
    return failure();
  rewriter.modifyOpInPlace(op, [&] { op.setBeforeRope(false); });
  return success();
}
