//===- Scores.cpp - Functions of logits, and masks ------------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Lowering.h"

#include "heddle/Conversion/ScoreLowering.h"
#include "heddle/Support/ScoreRegion.h"

#include "mlir/Dialect/SCF/IR/SCF.h"

#include <limits>

using namespace mlir;
using namespace mlir::heddle;
using namespace mlir::heddle::vectors;
using ::heddle::bundle::Scores;

static constexpr float log2e = 1.44269504088896341f;
static constexpr float ln2 = 0.693147180559945309f;

namespace {
/// Vectors along query rows.
class VectorScores final : public ScoreTarget {
public:
  explicit VectorScores(VectorBuilder &v) : v(v) {}

  ImplicitLocOpBuilder &builder() override { return v.b; }
  Value real(float value) override { return v.splat(value); }
  Value integer(int32_t value) override {
    return v.splat(v.integer(v.i32(), value));
  }
  Value bit(bool value) override {
    return v.splat(v.integer(v.b.getI1Type(), value));
  }
  Value exp2(Value x) override {
    // VectorBuilder's takes no more than 127.
    Value most = real(128.0f);
    Value over = v.compare(Float::OGE, x, most);
    Value power = v.exp2(v.select(over, real(127.0f), x));
    return v.select(over, real(std::numeric_limits<float>::infinity()), power);
  }
  Value log2(Value x) override {
    Value infinity = real(std::numeric_limits<float>::infinity());
    Value finite = v.log2(x);
    Value nan = real(std::numeric_limits<float>::quiet_NaN());
    finite = v.select(v.compare(Float::OLT, x, real(0.0f)), nan, finite);
    return v.select(v.compare(Float::OEQ, x, infinity), infinity, finite);
  }
  Value sqrt(Value x) override { return v.call("llvm.sqrt", v.floats(), {x}); }
  Value absf(Value x) override {
    return v.bits(v.floats(),
                  v.bitAnd(v.bits(v.ints(), x), integer(0x7fffffff)));
  }
  Value fma(Value x, Value y, Value z) override { return v.fma(x, y, z); }
  Value tanh(Value x) override {
    // A soft cap is far above most logits: vectors whose lanes are all small
    // take the polynomial alone.
    Value large = v.any(v.compare(Float::UGE, absf(x), real(1.0f)));
    auto choice = scf::IfOp::create(v.b, v.floats(), large,
                                    /*withElseRegion=*/true);
    OpBuilder::InsertionGuard guard(v.b);
    v.b.setInsertionPointToStart(choice.thenBlock());
    scf::YieldOp::create(v.b, emitTanh(*this, x));
    v.b.setInsertionPointToStart(choice.elseBlock());
    scf::YieldOp::create(v.b, emitSmallTanh(*this, x));
    return choice.getResult(0);
  }

private:
  VectorBuilder &v;
};
} // namespace

/// The tile's logits become what the function makes of them.
static Results lowerScores(Lowering<shed::ScoresOp> &v) {
  auto logits = unpack<LogitTile>(v.in.getLogits());
  const auto keys = unpack<Keys>(v.in.getKeys());
  const Scores scores = scoresOf(v.op.getBody());
  VectorScores target(v);
  ScoredPair pair;
  // Logits in scratch are in base 2, or are it once multiplied.
  pair.scale = logits.isScaled() ? v.splat(v.mulf(logits.scale, v.real(ln2)))
                                 : v.splat(ln2);
  if (scores.uses(Scores::Head))
    pair.head = v.splat(v.narrow(v.here.head));
  Values rows;
  if (scores.uses(Scores::Query))
    rows = v.positionsOfRows(logits);
  float factor = 1;
  v.each(logits.count, [&](Value j) {
    Value row = v.logitsRow(logits.base, j);
    if (scores.uses(Scores::Key))
      pair.key = v.splat(v.narrow(v.positionAt(v.placeOf(keys, j))));
    for (int64_t i = 0; i < v.here.active; ++i) {
      pair.product = v.loadLane(row, i);
      if (!rows.empty())
        pair.query = rows[i];
      ScoredLogit logit = emitScores(target, scores, pair);
      factor = logit.factor;
      v.storeLane(logit.value, row, i);
    }
  });
  logits.scale = v.real(factor * log2e);
  logits.infinite = v.integer(v.b.getI1Type(), 1);
  return {pack(logits)};
}

/// Leaves of each row the pairs that the masked sets say.
static Results lowerMask(Lowering<shed::MaskOp> &v) {
  const auto logits = unpack<LogitTile>(v.in.getLogits());
  const auto keys = unpack<Keys>(v.in.getKeys());
  Value lowest = v.splat(-std::numeric_limits<float>::infinity());
  Values rows = v.positionsOfRows(logits);
  shed::PairArithmetic a(v.b, v.ints());
  v.each(logits.count, [&](Value j) {
    Value row = v.logitsRow(logits.base, j);
    Value key = v.splat(v.narrow(v.positionAt(v.placeOf(keys, j))));
    for (int64_t i = 0; i < v.here.active; ++i) {
      Value logit = v.loadLane(row, i);
      if (std::optional<shed::KeySet> within = v.op.getWithin())
        logit = v.select(within->keeps(a, rows[i], key), logit, lowest);
      for (auto set : v.op.getOutside().getAsRange<shed::KeySet>())
        logit = v.select(set.keeps(a, rows[i], key), lowest, logit);
      v.storeLane(logit, row, i);
    }
  });
  return {pack(logits)};
}

void vectors::populateScorePatterns(const VectorPatterns &patterns) {
  patterns.add(lowerScores);
  patterns.add(lowerMask);
}
