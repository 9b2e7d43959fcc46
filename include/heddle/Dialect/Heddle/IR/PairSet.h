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

/// A set of pairs in normal form: the union of some selections (those that are
/// written alike are one), at most one window, one number and one share of
/// sinks (the largest of each holds the others; which of a number and a share
/// is larger depends on the sequence). All of it is moot when a part is dense.
struct PairSet {
  DenseOp dense;                    ///< null, or a part that is all pairs
  SmallVector<SelectOp> selections; ///< in the order written
  WindowOp window;                  ///< may be null
  SinksOp sinks;                    ///< may be null; a number of keys
  SinksOp shareOfSinks;             ///< may be null; a share of the sequence

  /// Looks through unions. A null value means all pairs.
  static PairSet of(Value pairs);

  /// The values whose union this is, in canonical order; just the dense part
  /// when there is one.
  SmallVector<Value> parts();

private:
  /// Adds what one op other than a union holds.
  void addPart(Operation *op);
};

/// The cadence on which a selection is refreshed; null when its operand is not
/// made by a `cadence`.
CadenceAttr cadenceOf(Value cadence);

/// True if two selections always hold the same pairs: all but their names and
/// the way their cadences are named agree.
bool sameSelection(SelectOp a, SelectOp b);

} // namespace mlir::heddle

#endif // HEDDLE_DIALECT_HEDDLE_IR_PAIRSET_H
