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

/// A set of pairs in normal form: the union of some selections (those that are
/// written alike are one) and of sets by arithmetic of which none holds another
/// in every sequence. All of it is moot when a part is dense.
struct PairSet {
  DenseOp dense;                    ///< null, or a part that is all pairs
  SmallVector<SelectOp> selections; ///< in the order written
  SmallVector<Operation *> sets;    ///< by kind, then by what they state

  /// Looks through unions. A null value means all pairs.
  static PairSet of(Value pairs);

  /// The values whose union this is, in canonical order; just the dense part
  /// when there is one.
  SmallVector<Value> parts();

private:
  /// Adds what one op other than a union holds.
  void addPart(Operation *op);
  void addSet(Operation *op);
};

/// What each stage of an attend reads. Selections of one that is dense or never
/// comes, since its cadence includes step 1, are left out.
SmallVector<PairSet> pairsOfStages(AttendOp attend);

/// Those that some stage reads, each once.
SmallVector<SelectOp> selectionsOf(AttendOp attend);

/// The cadence on which a selection is refreshed; null when its operand is not
/// made by a `cadence`.
CadenceAttr cadenceOf(Value cadence);

/// True if two selections always hold the same pairs: all but their names and
/// the way their cadences are named agree.
bool sameSelection(SelectOp a, SelectOp b);

} // namespace mlir::heddle

#endif // HEDDLE_DIALECT_HEDDLE_IR_PAIRSET_H
