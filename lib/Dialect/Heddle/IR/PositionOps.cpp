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
  return op && op.getKind() == PositionsKind::All;
}

StringRef mlir::heddle::plainName(Operation *set) {
  return llvm::TypeSwitch<Operation *, StringRef>(set)
      .Case([](PositionsOp op) { return spelled(op.getKind()); })
      .Case([](FixOp) { return "fixed"; })
      .Case([](PredictingOp) { return "rows"; })
      .Default([](Operation *op) -> StringRef {
        if (isa<PairsType>(op->getResult(0).getType()))
          return "pairs";
        return isa<UnionOp, IntersectOp, ExceptOp>(op)
                   ? "positions"
                   : op->getName().stripDialect();
      });
}

/// How the result is called where the op is printed.
static void nameResult(Operation *op, OpAsmSetValueNameFn setName) {
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

void UnionOp::getAsmResultNames(OpAsmSetValueNameFn setName) {
  nameResult(*this, setName);
}

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

void IntersectOp::getAsmResultNames(OpAsmSetValueNameFn setName) {
  nameResult(*this, setName);
}

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

void ExceptOp::getAsmResultNames(OpAsmSetValueNameFn setName) {
  nameResult(*this, setName);
}

void PositionsOp::getAsmResultNames(OpAsmSetValueNameFn setName) {
  nameResult(*this, setName);
}

namespace {
/// Hears which parts a form has, and what its number may be.
struct Parts {
  static constexpr bool writes = true;
  bool dated = false;
  bundle::detail::Range count = {0, 0};

  template <typename T, typename R>
  void operator()(const char *, const T &, R rule) {
    if constexpr (std::is_same_v<T, bundle::Cadence>)
      dated = true;
    else
      count = valueRule(rule);
  }
  bool has(const char *, bool needed, const char * = "") { return needed; }
};
} // namespace

LogicalResult PositionsOp::verify() {
  bundle::Positions value;
  value.kind = getKind();
  value.count = static_cast<int64_t>(getCount());
  StringRef name = spelled(getKind());
  if (value.isMadeOfSets())
    return emitOpError() << name << " is an op of its own";
  Parts parts;
  bundle::detail::fieldsOfForm(parts, value);
  // C1, but that a form may have no number.
  if (value.count != 0 && parts.count.high == 0)
    return emitOpError() << name << " has no count, found " << value.count;
  if (failed(checkCount([&] { return emitOpError(); },
                        "the number of positions or steps", value.count,
                        parts.count.low, parts.count.high)))
    return failure();
  if (parts.dated != static_cast<bool>(getSince()))
    return emitOpError() << name
                         << (parts.dated ? " needs a number of steps or a "
                                           "cadence"
                                         : " has no cadence");
  return success();
}

void FixOp::getAsmResultNames(OpAsmSetValueNameFn setName) {
  nameResult(*this, setName);
}

// Spans stay as they are.
OpFoldResult FixOp::fold(FoldAdaptor) {
  auto positions = getPositions().getDefiningOp<PositionsOp>();
  bool still = positions && (positions.getKind() == PositionsKind::All ||
                             positions.getKind() == PositionsKind::Prompt ||
                             positions.getKind() == PositionsKind::Response);
  // What a cadence without a first step means is an error, not a span.
  CadenceAttr cadence = cadenceOf(getCadence());
  return still && cadence && bundle::includesFirst(cadence.getValue())
             ? OpFoldResult(getPositions())
             : OpFoldResult();
}

void NeighborsOp::getAsmResultNames(OpAsmSetValueNameFn setName) {
  nameResult(*this, setName);
}

void NearestOp::getAsmResultNames(OpAsmSetValueNameFn setName) {
  nameResult(*this, setName);
}

void LastOp::getAsmResultNames(OpAsmSetValueNameFn setName) {
  nameResult(*this, setName);
}

void ConfidentOp::getAsmResultNames(OpAsmSetValueNameFn setName) {
  nameResult(*this, setName);
}

void HullOp::getAsmResultNames(OpAsmSetValueNameFn setName) {
  nameResult(*this, setName);
}

void LeadingOp::getAsmResultNames(OpAsmSetValueNameFn setName) {
  nameResult(*this, setName);
}

void PredictingOp::getAsmResultNames(OpAsmSetValueNameFn setName) {
  nameResult(*this, setName);
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
  bundle::Positions value;
  value.kind = PositionsKind::Confident;
  value.count = static_cast<int64_t>(getCount());
  value.near = static_cast<int64_t>(getNear().value_or(0));
  auto error = [&] { return emitOpError(); };
  FormChecker checker(error, spelled(value.kind));
  if (getNear())
    checker.written.insert("near");
  bundle::detail::numbersOf(checker, value);
  return checker.result();
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
  StringRef name = spelled(getExact());
  const bool all = getExact() == Exact::All;
  const bool share = getExact() == Exact::LeastSimilar;
  const bool hasAmong = static_cast<bool>(getAmong());
  if (all == static_cast<bool>(getRatioAttr()))
    return emitOpError() << name << (all ? " has no ratio" : " needs a ratio");
  if (hasAmong != share)
    return emitOpError() << name
                         << (hasAmong ? " compares no set of positions"
                                      : " needs the positions to compare");
  if (getConfidenceAttr() && !share)
    return emitOpError() << name << " weighs no confidence";
  // R7: a cosine's bound, or a share.
  auto error = [&] { return emitOpError(); };
  FormChecker checker(error, name);
  if (getConfidenceAttr())
    checker.written.insert("confidence");
  bundle::Pass value =
      comparisonOf(getExact(), getRatioAttr(), getConfidenceAttr());
  bundle::detail::comparison(checker, value);
  if (failed(checker.result()))
    return failure();
  // R23: there is something to choose by it.
  if (getConfidenceAttr() && getRatioAttr().getNum() == 0)
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

// U1: something is kept.
LogicalResult ReuseOp::verify() {
  if (getLayersAttr() && getLayersAttr().empty())
    return emitOpError("names no layer in layers(...)");
  if (!getKv() && !getFfn() && getAttention() == ReusedAttention::None)
    return emitOpError("keeps nothing; name kv, context, output or ffn");
  const bool outside = getAttention() == ReusedAttention::Outside;
  if (outside != (getInside() != nullptr) || outside != (getOn() != nullptr))
    return emitOpError(
        outside ? "keeps attention outside of a set and needs both the set and "
                  "a cadence: attention(outside = %set, on = %cadence)"
                : "names a set or a cadence, which only attention(outside = "
                  "%set, on = %cadence) has");
  if ((getRefreshed() && !outside) || (getKeepAttr() && !getRefreshed()))
    return emitOpError(
        outside ? "says how many rows refresh what is kept of "
                  "attention, and not which: refresh = "
                  "least_similar(keep = r) in %rows"
                : "names rows that refresh what is kept of attention, "
                  "which only attention(outside = %set, on = "
                  "%cadence, refresh = %rows) has");
  if (getBeforeRope() && !getKv())
    return emitOpError("keeps no keys, so none before RoPE");
  if (!getKeepAttr())
    return success();
  auto error = [&] { return emitOpError(); };
  FormChecker checker(error, spelled(Exact::LeastSimilar));
  bundle::Reuse value;
  value.keep = getKeepAttr().getValue();
  bundle::detail::refreshed(checker, value);
  return checker.result();
}

LogicalResult ReuseOp::canonicalize(ReuseOp op, PatternRewriter &rewriter) {
  // The most different of all are all.
  RatioAttr keep = op.getKeepAttr();
  const bool all = keep && keep.getValue().num == keep.getValue().den;
  if (!op.getBeforeRope() && !all)
    return failure();
  rewriter.modifyOpInPlace(op, [&] {
    op.setBeforeRope(false);
    if (all)
      op.removeKeepAttr();
  });
  return success();
}
