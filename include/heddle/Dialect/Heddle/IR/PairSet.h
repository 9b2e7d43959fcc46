//===- PairSet.h - What a value of !heddle.pairs holds ----------*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_DIALECT_HEDDLE_IR_PAIRSET_H
#define HEDDLE_DIALECT_HEDDLE_IR_PAIRSET_H

#include "heddle/Dialect/Heddle/IR/Heddle.h"

namespace mlir::heddle {

/// What an op of a schedule states that makes a set of pairs by arithmetic;
/// null for another op.
TermAttr termOf(Operation *op);

/// The pairs of a selection, or of a set by arithmetic, and of all that these
/// are within.
struct PairTerm {
  SelectOp select;            ///< null: a set by arithmetic
  ::heddle::bundle::Term set; ///< does not say which selection it reads
  Value value;                ///< that is made of it; null: an intersection's
};

/// A set of pairs in normal form: a union of terms, of which none holds another
/// in every sequence. All of it is moot when a part is dense.
struct PairSet {
  DenseOp dense; ///< null, or a part that is all pairs
  /// Those of selections (of which those that are written alike are one) in the
  /// order written, then the others by kind and by what they state.
  SmallVector<PairTerm> terms;
  SmallVector<SelectOp> selections; ///< that terms read, each once

  /// Looks through unions and intersections. A null value means all pairs.
  static PairSet of(Value pairs);
};

/// The values whose union an op is, in canonical order: those of terms, then
/// intersections.
SmallVector<Value> partsOf(UnionOp op);

/// What can't be an intersection of pairs: P10 to P13.
LogicalResult verifyPairs(IntersectOp op);

/// Lists that are within different sets, in what a stage attends to: P14.
LogicalResult verifyBounds(AttendOp attend, const PairSet &set);

/// What each stage of an attend reads. The terms of one that is dense or never
/// comes, since its cadence includes step 1, are left out.
SmallVector<PairSet> pairsOfStages(AttendOp attend);

/// Those that some stage reads, each once, each behind the one that it chooses
/// within.
SmallVector<SelectOp> selectionsOf(AttendOp attend);

/// The cadence on which a selection is refreshed; null when its operand is not
/// made by a `cadence`.
CadenceAttr cadenceOf(Value cadence);

/// True if two selections always hold the same pairs: all but their names and
/// the way their cadences are named agree.
bool sameSelection(SelectOp a, SelectOp b);

/// Whether one of `others` is the same.
bool isAmong(SelectOp select, ArrayRef<SelectOp> others);

} // namespace mlir::heddle

#endif // HEDDLE_DIALECT_HEDDLE_IR_PAIRSET_H
