//===- ScoreRegion.h - Functions of logits, as regions ----------*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The region of `scores(...)`, at every level: one block of `arith` and `math`
// on scalars,
//
//   scores(%logit, %query, %key, %head) {
//     %cap = arith.constant 30.0 : f32
//     ...
//     yield %capped
//   }
//
// from the scaled logit (f32), the positions of query and key in the sequence
// and the query head (i32) to the logit that the softmax gets. In text the last
// arguments may be left out. Which operations there are is said in
// bundle/program/Scores.h.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_SUPPORT_SCOREREGION_H
#define HEDDLE_SUPPORT_SCOREREGION_H

#include "bundle/program/Scores.h"

#include "mlir/IR/OpImplementation.h"

namespace mlir::heddle {

/// Types of the region's arguments: f32, i32, i32, i32.
SmallVector<Type> scoreArgumentTypes(MLIRContext *context);

/// `(%logit, ...) { ... }`, with one to four arguments; the region gets all.
ParseResult parseScoreRegion(OpAsmParser &parser, Region &region);
/// The same; arguments that are used by nobody are left out at the end.
void printScoreRegion(OpAsmPrinter &printer, Region &region);
/// %logit, %query, %key, %head.
void nameScoreArguments(Region &region, OpAsmSetValueNameFn setName);

/// What the region says, which ends in a terminator of one operand. Fails, with
/// an error on the operation at fault, for whatever bundle/program/Scores.h
/// does not know. No nodes for an empty region.
FailureOr<::heddle::bundle::Scores> readScores(Region &region);

/// The same of a region that has been verified.
::heddle::bundle::Scores scoresOf(Region &region);

} // namespace mlir::heddle

#endif // HEDDLE_SUPPORT_SCOREREGION_H
