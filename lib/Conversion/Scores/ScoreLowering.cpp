//===- ScoreLowering.cpp - Functions of logits as machine code ------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/Conversion/ScoreLowering.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

#include <cmath>
#include <limits>

using namespace mlir;
using namespace mlir::heddle;
using ::heddle::bundle::Scores;
using Kind = Scores::Op;

static constexpr float log2e = 1.44269504088896341f;
static constexpr float ln2 = 0.693147180559945309f;

Value ScoreTarget::tanh(Value x) { return emitTanh(*this, x); }

Value mlir::heddle::emitSmallTanh(ScoreTarget &target, Value x) {
  // x + x^3 P(x^2) with P minimax on [0, 1]; within 3e-8 relative.
  static constexpr float coefficients[] = {
      -4.20695491e-4f, 2.5104594e-3f,  -8.21892172e-3f, 2.16601156e-2f,
      -5.39347902e-2f, 1.33331284e-1f, -3.33333313e-1f};
  ImplicitLocOpBuilder &b = target.builder();
  Value square = arith::MulFOp::create(b, x, x);
  Value p = target.real(coefficients[0]);
  for (float c : ArrayRef<float>(coefficients).drop_front())
    p = target.fma(p, square, target.real(c));
  return target.fma(arith::MulFOp::create(b, x, square), p, x);
}

Value mlir::heddle::emitTanh(ScoreTarget &target, Value x) {
  ImplicitLocOpBuilder &b = target.builder();
  Value size = target.absf(x);
  // 1 - 2 / (e^2|x| + 1), with the sign of x; NaN stays.
  Value one = target.real(1.0f);
  Value power =
      target.exp2(arith::MulFOp::create(b, size, target.real(2.0f * log2e)));
  Value large = arith::SubFOp::create(
      b, one,
      arith::DivFOp::create(b, target.real(2.0f),
                            arith::AddFOp::create(b, power, one)));
  Value negative =
      arith::CmpFOp::create(b, arith::CmpFPredicate::OLT, x, target.real(0.0f));
  large = arith::SelectOp::create(b, negative, arith::NegFOp::create(b, large),
                                  large);
  Value isSmall =
      arith::CmpFOp::create(b, arith::CmpFPredicate::OLT, size, one);
  return arith::SelectOp::create(b, isSmall, emitSmallTanh(target, x), large);
}

namespace {
/// Emits one function for one pair.
class Emitter {
public:
  Emitter(ScoreTarget &target, const Scores &scores, const ScoredPair &pair)
      : target(target), b(target.builder()), scores(scores), pair(pair),
        values(scores.nodes.size()) {}

  ScoredLogit run();

private:
  const Scores::Node *constant(int32_t value) {
    if (value < Scores::inputs)
      return nullptr;
    const Scores::Node &node = scores.nodes[value - Scores::inputs];
    return node.op == Kind::Constant ? &node : nullptr;
  }
  /// What a constant of f32 multiplies, or divides, by.
  std::optional<float> multiplier(const Scores::Node &node, unsigned operand);
  Value input(int32_t which);
  Value value(int32_t number);
  Value emit(const Scores::Node &node);

  ScoreTarget &target;
  ImplicitLocOpBuilder &b;
  const Scores &scores;
  const ScoredPair &pair;
  SmallVector<Value> values;
  Value logit;
};
} // namespace

std::optional<float> Emitter::multiplier(const Scores::Node &node,
                                         unsigned operand) {
  const Scores::Node *by = constant(node.of[operand]);
  if (!by || by->type != Scores::Type::F32)
    return std::nullopt;
  float factor = by->real;
  if (node.op == Kind::DivF)
    factor = 1.0f / factor;
  // Zero and infinity have laws of their own.
  return std::isnormal(factor) && std::isnormal(by->real)
             ? std::optional<float>(factor)
             : std::nullopt;
}

Value Emitter::input(int32_t which) {
  switch (which) {
  case Scores::Query:
    return pair.query;
  case Scores::Key:
    return pair.key;
  case Scores::Head:
    return pair.head;
  default:
    if (!logit)
      logit = arith::MulFOp::create(b, pair.product, pair.scale);
    return logit;
  }
}

Value Emitter::value(int32_t number) {
  return number < Scores::inputs ? input(number)
                                 : values[number - Scores::inputs];
}

Value Emitter::emit(const Scores::Node &node) {
  if (node.op == Kind::Constant) {
    switch (node.type) {
    case Scores::Type::F32:
      return target.real(node.real);
    case Scores::Type::I32:
      return target.integer(node.integer);
    case Scores::Type::I1:
      return target.bit(node.integer);
    }
  }
  if (node.op == Kind::MulF || node.op == Kind::DivF)
    for (unsigned by : {1, 0}) {
      std::optional<float> factor = by == 0 && node.op == Kind::DivF
                                        ? std::nullopt
                                        : multiplier(node, by);
      if (!factor)
        continue;
      const int32_t other = node.of[1 - by];
      if (other == Scores::Logit)
        return arith::MulFOp::create(
            b, pair.product,
            arith::MulFOp::create(b, pair.scale, target.real(*factor)));
      return arith::MulFOp::create(b, value(other), target.real(*factor));
    }
  auto x = [&] { return value(node.of[0]); };
  auto y = [&] { return value(node.of[1]); };
  auto z = [&] { return value(node.of[2]); };
  auto zero = [&] { return target.integer(0); };
  switch (node.op) {
  case Kind::Constant:
    break;
  case Kind::AddF:
    return arith::AddFOp::create(b, x(), y());
  case Kind::SubF:
    return arith::SubFOp::create(b, x(), y());
  case Kind::MulF:
    return arith::MulFOp::create(b, x(), y());
  case Kind::DivF:
    return arith::DivFOp::create(b, x(), y());
  case Kind::NegF:
    return arith::NegFOp::create(b, x());
  case Kind::MaxF:
    return arith::MaximumFOp::create(b, x(), y());
  case Kind::MinF:
    return arith::MinimumFOp::create(b, x(), y());
  case Kind::MaxNumF:
    return arith::MaxNumFOp::create(b, x(), y());
  case Kind::MinNumF:
    return arith::MinNumFOp::create(b, x(), y());
  case Kind::CmpF:
    return arith::CmpFOp::create(
        b, static_cast<arith::CmpFPredicate>(node.predicate), x(), y());
  case Kind::CmpI:
    return arith::CmpIOp::create(
        b, static_cast<arith::CmpIPredicate>(node.predicate), x(), y());
  case Kind::Select:
    return arith::SelectOp::create(b, x(), y(), z());
  case Kind::AddI:
    return arith::AddIOp::create(b, x(), y());
  case Kind::SubI:
    return arith::SubIOp::create(b, x(), y());
  case Kind::MulI:
    return arith::MulIOp::create(b, x(), y());
  case Kind::DivI:
    return arith::DivSIOp::create(b, x(), y());
  case Kind::RemI:
    return arith::RemSIOp::create(b, x(), y());
  case Kind::ShL:
    return arith::ShLIOp::create(b, x(), y());
  case Kind::ShR:
    return arith::ShRSIOp::create(b, x(), y());
  case Kind::And:
    return arith::AndIOp::create(b, x(), y());
  case Kind::Or:
    return arith::OrIOp::create(b, x(), y());
  case Kind::XOr:
    return arith::XOrIOp::create(b, x(), y());
  case Kind::MaxI:
    return arith::MaxSIOp::create(b, x(), y());
  case Kind::MinI:
    return arith::MinSIOp::create(b, x(), y());
  case Kind::ToFloat:
    return arith::SIToFPOp::create(b, target.real(0.0f).getType(), x());
  case Kind::Extend:
    return arith::ExtUIOp::create(b, zero().getType(), x());
  case Kind::AbsF:
    return target.absf(x());
  case Kind::AbsI: {
    Value value = x();
    Value negated = arith::SubIOp::create(b, zero(), value);
    return arith::MaxSIOp::create(b, value, negated);
  }
  case Kind::Fma:
    return target.fma(x(), y(), z());
  case Kind::Exp:
    return target.exp2(arith::MulFOp::create(b, x(), target.real(log2e)));
  case Kind::Exp2:
    return target.exp2(x());
  case Kind::Log:
    return arith::MulFOp::create(b, target.log2(x()), target.real(ln2));
  case Kind::Log2:
    return target.log2(x());
  case Kind::Sqrt:
    return target.sqrt(x());
  case Kind::Tanh:
    return target.tanh(x());
  }
  llvm_unreachable("unknown operation of scores");
}

ScoredLogit Emitter::run() {
  const Scores::Node &last = scores.nodes.back();
  for (auto [node, value] :
       llvm::drop_end(llvm::zip_equal(scores.nodes, values)))
    value = emit(node);
  if (last.op == Kind::MulF || last.op == Kind::DivF)
    for (unsigned by : {1, 0}) {
      std::optional<float> factor = by == 0 && last.op == Kind::DivF
                                        ? std::nullopt
                                        : multiplier(last, by);
      if (factor && *factor > 0 && last.of[1 - by] != Scores::Logit)
        return {value(last.of[1 - by]), *factor};
    }
  return {emit(last), 1};
}

ScoredLogit mlir::heddle::emitScores(ScoreTarget &target, const Scores &scores,
                                     const ScoredPair &pair) {
  if (scores.empty())
    return {arith::MulFOp::create(target.builder(), pair.product, pair.scale),
            1};
  return Emitter(target, scores, pair).run();
}
