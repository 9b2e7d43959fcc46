//===- Program.h - Rows, keys, reuse and commit as data ---------*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What a schedule or a plan says beside attention, in the bundle's own form:
// the rules that it must keep are the bundle's
// (bundle/program/ProgramChecks.h), so that compiler and runtime hold to the
// same ones.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_DIALECT_HEDDLE_IR_PROGRAM_H
#define HEDDLE_DIALECT_HEDDLE_IR_PROGRAM_H

#include "bundle/program/Manifest.h"
#include "heddle/Dialect/Heddle/IR/Heddle.h"

#include "llvm/ADT/MapVector.h"

namespace mlir::heddle {

struct Program {
  /// `selections`, `positions`, `visible`, `allVisible`, `passes`,
  /// `layeredReuses`, `reuse`, `datedCommits` and `commit`, and of a plan
  /// `kernels`, without variants, and `rules`; nothing else.
  ::heddle::bundle::Manifest manifest;
  /// The ops that its parts come from. Several ops may be one set or selection;
  /// a pass that a selection's refresh asks for comes from the selection.
  SmallVector<Operation *> selections, positions, passes;
  /// Of `datedCommits`, and then of `commit`, if there is one.
  SmallVector<Operation *> commits;
  /// Likewise of `layeredReuses` and `reuse`.
  SmallVector<Operation *> reuses;
  Operation *visible = nullptr;
  /// Of each value that is used and is a set of positions: which of
  /// `positions`.
  llvm::MapVector<Value, int64_t> sets;

  /// The program of a schedule or a plan whose ops verify. Sets that are alike
  /// are one; those that nothing uses are left out. If a schedule has passes,
  /// one that computes all on each cadence of a selection that is read comes
  /// before them. Failure, without a word, if an operand is not defined before
  /// its use, which the verifier of dominance reports.
  static FailureOr<Program> of(Operation *scheduleOrPlan);

  /// Emits an error at the op that breaks a rule.
  LogicalResult check() const;
};

} // namespace mlir::heddle

#endif // HEDDLE_DIALECT_HEDDLE_IR_PROGRAM_H
