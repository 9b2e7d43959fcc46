//===- ScoreLowering.h - Functions of logits as machine code ----*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What the lowerings of every target do with a score region, on values of the
// target's own shape: an f32 and i32 of a thread, or vectors of them.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_CONVERSION_SCORELOWERING_H
#define HEDDLE_CONVERSION_SCORELOWERING_H

#include "bundle/program/Scores.h"

#include "mlir/IR/ImplicitLocOpBuilder.h"

#include <optional>

namespace mlir::heddle {

/// What a target gives: constants and functions, elementwise.
class ScoreTarget {
public:
  virtual ~ScoreTarget() = default;
  virtual ImplicitLocOpBuilder &builder() = 0;
  virtual Value real(float value) = 0;
  virtual Value integer(int32_t value) = 0;
  virtual Value bit(bool value) = 0;
  /// For any argument, within some 3e-7 relative; denormals may be 0.
  virtual Value exp2(Value x) = 0;
  virtual Value log2(Value x) = 0;
  virtual Value sqrt(Value x) = 0;
  virtual Value absf(Value x) = 0;
  virtual Value fma(Value x, Value y, Value z) = 0;
  /// By default emitTanh().
  virtual Value tanh(Value x);
};

/// tanh within 2e-7 relative: a polynomial for |x| < 1, else by way of exp2.
Value emitTanh(ScoreTarget &target, Value x);
/// The polynomial alone.
Value emitSmallTanh(ScoreTarget &target, Value x);

/// The pair at hand. The logit is product * scale; a scale is the same for all
/// pairs, so that its products with constants are as well.
struct ScoredPair {
  Value product, scale;
  Value query, key, head; ///< i32; null where nobody asks for it
};

/// value * factor is the logit that the softmax gets; factor > 0.
struct ScoredLogit {
  Value value;
  float factor = 1;
};

/// Emits the function where the target's builder stands. A constant that the
/// product is multiplied with first, or the result last, costs no instruction
/// for each pair: one goes into the scale, the other into the factor.
ScoredLogit emitScores(ScoreTarget &target,
                       const ::heddle::bundle::Scores &scores,
                       const ScoredPair &pair);

/// Between which numbers all results lie, whatever the logit and the positions;
/// minus infinity, which masks a pair, may stand beside them.
struct ScoreBounds {
  double low, high;
};

/// None where a function has no bounds, or they can't be told.
std::optional<ScoreBounds> boundsOf(const ::heddle::bundle::Scores &scores);

} // namespace mlir::heddle

#endif // HEDDLE_CONVERSION_SCORELOWERING_H
