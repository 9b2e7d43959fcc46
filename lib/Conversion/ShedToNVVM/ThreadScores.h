//===- ThreadScores.h - Functions of logits in a thread ---------*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_CONVERSION_SHEDTONVVM_THREADSCORES_H
#define HEDDLE_LIB_CONVERSION_SHEDTONVVM_THREADSCORES_H

#include "NVVMBuilder.h"
#include "heddle/Conversion/ScoreLowering.h"

namespace mlir::heddle {

/// Scalars of a thread. 16-bit kernels (not `exact`) take the machine's own
/// tanh, within 2^-11 relative: what rounding K and Q to bf16 does to a logit
/// is more.
class ThreadScores final : public ScoreTarget {
public:
  ThreadScores(NVVMBuilder &v, bool exact) : v(v), exact(exact) {}

  ImplicitLocOpBuilder &builder() override { return v.b; }
  Value real(float value) override { return v.real(value); }
  Value integer(int32_t value) override { return v.word(value); }
  Value bit(bool value) override { return v.integer(v.i1(), value); }
  Value exp2(Value x) override { return v.exp2(x); }
  Value log2(Value x) override { return v.log2(x); }
  Value sqrt(Value x) override { return v.sqrt(x); }
  Value absf(Value x) override {
    return v.bits(v.f32(), v.both(v.bits(v.i32(), x), 0x7fffffff));
  }
  Value fma(Value x, Value y, Value z) override { return v.fma(x, y, z); }
  Value tanh(Value x) override {
    return exact ? emitTanh(*this, x) : v.tanhApprox(x);
  }

private:
  NVVMBuilder &v;
  const bool exact;
};

/// A function of logits, applied to those of a thread one by one.
class LogitFunction {
public:
  /// Logits are products that are multiplied with `factor` for base 2.
  LogitFunction(NVVMBuilder &v, bool exact, ::heddle::bundle::Scores scores,
                Value factor, Value head)
      : v(v), target(v, exact), scores(std::move(scores)) {
    pair.scale = v.mulf(factor, v.real(0.693147180559945309f));
    pair.head = head;
  }

  bool asksQuery() const {
    return scores.uses(::heddle::bundle::Scores::Query);
  }
  bool asksKey() const { return scores.uses(::heddle::bundle::Scores::Key); }

  /// `query` and `key` are null where nobody asks.
  void apply(Value &logit, Value query, Value key) {
    pair.product = logit;
    pair.query = query;
    pair.key = key;
    ScoredLogit scored = emitScores(target, scores, pair);
    logit = scored.value;
    left = scored.factor;
  }
  /// What is left to multiply the results with.
  Value factor() { return v.real(left * 1.44269504088896341f); }

private:
  NVVMBuilder &v;
  ThreadScores target;
  const ::heddle::bundle::Scores scores;
  ScoredPair pair;
  float left = 1;
};

} // namespace mlir::heddle

#endif // HEDDLE_LIB_CONVERSION_SHEDTONVVM_THREADSCORES_H
