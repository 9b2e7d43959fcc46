//===- Verify.h - What ops of both levels check alike -----------*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_DIALECT_HEDDLE_IR_VERIFY_H
#define HEDDLE_LIB_DIALECT_HEDDLE_IR_VERIFY_H

#include "Assembly.h"
#include "bundle/program/Manifest.h"
#include "bundle/program/Program.h"

#include <map>

namespace mlir::heddle {

/// A schedule or plan has at most one op of a kind.
template <typename OpTy, typename Parent>
LogicalResult verifyOnlyOne(Parent parent) {
  OpTy first;
  for (auto op : parent.template getOps<OpTy>()) {
    if (first)
      return op->emitOpError("is the second one; there can be one only")
                 .attachNote(first.getLoc())
             << "the first one is here";
    first = op;
  }
  return success();
}

/// S2, L2, N2: ops that name layers name disjoint ones. In n log n: generated
/// schedules name tens of thousands.
template <typename OpTy> class NamedLayers {
public:
  /// Takes note of the layers of an op that names some; an error if an earlier
  /// op has named one of them.
  LogicalResult add(OpTy op, LayerRangeAttr layers, const char *message) {
    // Ranges so far are disjoint, so they lie in the order of their ends; the
    // only one that can overlap is the first that ends where this one starts,
    // or later. Numbers from the model's end are negative, of their own.
    auto next = byLast.lower_bound(layers.getFirst());
    if (next != byLast.end() && layers.overlaps(next->second.first))
      return op.emitOpError(message).attachNote(next->second.second.getLoc())
             << "they are named here";
    byLast.emplace(layers.getLast(), std::pair(layers, op));
    return success();
  }

private:
  std::map<int64_t, std::pair<LayerRangeAttr, OpTy>> byLast;
};

/// P1, P2, P6, P8, P9 of heddle.select and heddle.selection.
template <typename OpTy> LogicalResult verifySelection(OpTy op) {
  auto error = [&] { return op.emitOpError(); };
  bool blocks = op.getKind() == SelectionKind::Blocks;
  if (failed(checkRatio(error, "a fraction", op.getKeep())) ||
      failed(checkGroup(error, op.getGroup(), blocks)))
    return failure();
  if (!blocks && op.getIsolation() != Isolation::None)
    return op.emitOpError("isolates spans, which only blocks can");
  if (!blocks && op.getScale() != Scale::HeadDim)
    return op.emitOpError("is scaled by the heads, which only blocks can be");
  if (blocks && op.getPerKvHead())
    return op.emitOpError("selects blocks, which each query head has its own "
                          "of");
  return success();
}

/// heddle.recompute and heddle.pass: each form has its own parameters.
template <typename OpTy> LogicalResult verifyExact(OpTy op, bool hasAmong) {
  auto error = [&] { return op.emitOpError(); };
  RatioAttr ratio = op.getRatioAttr();
  StringRef name = stringifyExact(op.getExact());
  bool all = op.getExact() == Exact::All;
  bool share = op.getExact() == Exact::LeastSimilar;
  if (all == static_cast<bool>(ratio))
    return op.emitOpError()
           << name << (all ? " has no ratio" : " needs a ratio");
  if (hasAmong != share)
    return op.emitOpError() << name
                            << (hasAmong ? " compares no set of positions"
                                         : " needs the positions to compare");
  // R7: a cosine's bound, or a share.
  return all ? success()
             : checkRatio(error, share ? "a fraction" : "the bound of a cosine",
                          ratio, share ? 1 : ::heddle::bundle::maxBelow);
}

/// A rule of this kind, with nothing else in it.
inline ::heddle::bundle::CommitRule ruleOf(CommitKind kind) {
  ::heddle::bundle::CommitRule rule;
  rule.kind = // the same in both, as Program.cpp checks
      static_cast<::heddle::bundle::CommitRule::Kind>(kind);
  return rule;
}

/// Whether sets of this form are made of other sets.
inline bool isMadeOfSets(PositionsKind kind) {
  return kind == PositionsKind::Union || kind == PositionsKind::Intersect ||
         kind == PositionsKind::Fixed || kind == PositionsKind::Neighbors ||
         kind == PositionsKind::Hull || kind == PositionsKind::Leading ||
         kind == PositionsKind::Predicting || kind == PositionsKind::Except ||
         kind == PositionsKind::Last;
}

/// heddle.commit and heddle.commit_rule.
template <typename OpTy> LogicalResult verifyCommit(OpTy op) {
  auto error = [&] { return op.emitOpError(); };
  RatioAttr ratio = op.getRatioAttr();
  const CommitKind kind = op.getKind();
  const bool counted = kind == CommitKind::Best;
  const bool confidence = ruleOf(kind).isAbove();
  const bool shared = ruleOf(kind).hasRatio();
  if (shared != static_cast<bool>(ratio) ||
      counted != static_cast<bool>(op.getCountAttr()))
    return op.emitOpError()
           << stringifyCommitKind(kind)
           << (shared || counted ? " needs a number" : " has no number");
  if (op.getLastAlone() && kind != CommitKind::Factor)
    return op.emitOpError()
           << stringifyCommitKind(kind) << " has no last candidate; factor has";
  // M2: a confidence is at most 1.
  if (shared &&
      failed(checkRatio(error, confidence ? "a confidence" : "a factor", ratio,
                        confidence ? 1 : ::heddle::bundle::maxFactor)))
    return failure();
  if (counted && failed(checkCount(error, "the number of tokens",
                                   static_cast<int64_t>(*op.getCount()))))
    return failure();
  if (!op.getPassesAttr())
    return success();
  const int64_t passes = static_cast<int64_t>(*op.getPasses());
  if (passes > ::heddle::bundle::maxSteps)
    return op.emitOpError()
           << "the number of passes must be at most "
           << ::heddle::bundle::maxSteps << ", found " << passes;
  return checkCount(error, "the number of passes", passes);
}

/// M1: of the commits of a schedule or plan the last, and only the last, has no
/// cadence.
template <typename OpTy, typename ParentTy>
LogicalResult verifyCommits(ParentTy parent) {
  SmallVector<OpTy> commits(parent.template getOps<OpTy>());
  for (OpTy commit : commits) {
    const bool last = commit == commits.back();
    if (commit.getOn().empty() == last)
      continue;
    if (last)
      return commit.emitOpError("is the last one and has a cadence, so that "
                                "other steps have no rule; add one without");
    return commit
               .emitOpError("has no cadence, so that those after it never come")
               .attachNote(commits.back().getLoc())
           << "the last one is here";
  }
  return success();
}

} // namespace mlir::heddle

#endif // HEDDLE_LIB_DIALECT_HEDDLE_IR_VERIFY_H
