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

/// S2, L2: ops that name layers name disjoint ones. In n log n: generated
/// schedules name tens of thousands.
template <typename OpTy> class NamedLayers {
public:
  /// Takes note of the layers of an op that names some; an error if an earlier
  /// op, or the op itself, has named one of them.
  LogicalResult add(OpTy op, LayerRangeAttr layers, const char *message) {
    // Ranges so far are disjoint, so they lie in the order of their ends; the
    // only one that can overlap is the first that ends where this one starts,
    // or later. Numbers from the model's end are negative, of their own.
    auto next = byLast.lower_bound(layers.getFirst());
    if (next != byLast.end() && layers.overlaps(next->second.first)) {
      auto [others, other] = next->second;
      if (other == op)
        return op.emitOpError("names layer ")
               << std::max(layers.getFirst(), others.getFirst()) << " twice";
      return op.emitOpError(message).attachNote(other.getLoc())
             << "they are named here";
    }
    byLast.emplace(layers.getLast(), std::pair(layers, op));
    return success();
  }

private:
  std::map<int64_t, std::pair<LayerRangeAttr, OpTy>> byLast;
};

/// U4, S2, L2: ops that name disjoint layers, and last one that names none and
/// holds for all others, or nothing. `message`: of one that shares a layer.
template <typename OpTy, typename ParentTy>
LogicalResult verifyLayersOf(ParentTy parent, const char *message) {
  SmallVector<OpTy> ops(parent.template getOps<OpTy>());
  NamedLayers<OpTy> named;
  for (OpTy op : ops) {
    if (!op.getLayersAttr()) {
      if (op == ops.back())
        return success();
      return op.emitOpError("names no layers, so that those after it never "
                            "come; write it last")
                 .attachNote(ops.back().getLoc())
             << "the last one is here";
    }
    for (auto range : op.getLayersAttr().template getAsRange<LayerRangeAttr>())
      if (failed(named.add(op, range, message)))
        return failure();
  }
  return success();
}

/// The reuses of a schedule or plan.
template <typename ParentTy> LogicalResult verifyReuses(ParentTy parent) {
  if (failed(verifyLayersOf<ReuseOp>(parent,
                                     "names layers that another one has; "
                                     "give each layer one reuse")))
    return failure();
  SmallVector<ReuseOp> reuses(parent.template getOps<ReuseOp>());
  if (!reuses.empty() && reuses.back().getLayersAttr())
    return reuses.back().emitOpError(
        "is the last one and names layers, so that others "
        "keep nothing; add one that names none");
  return success();
}

/// M1: of the commits of a schedule or plan the last, and only the last, has no
/// cadence.
template <typename ParentTy> LogicalResult verifyCommits(ParentTy parent) {
  SmallVector<CommitOp> commits(parent.template getOps<CommitOp>());
  for (CommitOp commit : commits) {
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
