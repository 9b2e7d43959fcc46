//===- ScoreBounds.cpp - Between which numbers functions of logits lie ----===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/Conversion/ScoreLowering.h"

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <limits>

using namespace mlir;
using namespace mlir::heddle;
using ::heddle::bundle::Scores;
using Kind = Scores::Op;

static constexpr double infinity = std::numeric_limits<double>::infinity();

namespace {
/// Interval arithmetic. A constant of minus infinity alone is no number.
struct Interval {
  double low = -infinity, high = infinity;

  bool isEmpty() const { return low > high; }
  static Interval around(std::initializer_list<double> some) {
    if (std::any_of(some.begin(), some.end(),
                    [](double x) { return std::isnan(x); }))
      return {};
    return {std::min(some), std::max(some)};
  }
};
} // namespace

static Interval product(Interval x, Interval y) {
  return Interval::around(
      {x.low * y.low, x.low * y.high, x.high * y.low, x.high * y.high});
}

static Interval sum(Interval x, Interval y) {
  return Interval::around({x.low + y.low, x.high + y.high});
}

/// Of an operation on numbers.
static Interval apply(Kind op, Interval x, Interval y, Interval z) {
  // Of a function that rises, and gives NaN below `least`.
  auto rising = [&](auto f, double least = -infinity) {
    return x.low < least ? Interval() : Interval::around({f(x.low), f(x.high)});
  };
  switch (op) {
  case Kind::AddF:
    return sum(x, y);
  case Kind::SubF:
    return sum(x, {-y.high, -y.low});
  case Kind::MulF:
    return product(x, y);
  case Kind::DivF:
    return y.low <= 0 && y.high >= 0 ? Interval()
                                     : product(x, {1 / y.high, 1 / y.low});
  case Kind::Fma:
    return sum(product(x, y), z);
  case Kind::NegF:
    return {-x.high, -x.low};
  case Kind::MaxF:
  case Kind::MaxNumF:
    return {std::max(x.low, y.low), std::max(x.high, y.high)};
  case Kind::MinF:
  case Kind::MinNumF:
    return {std::min(x.low, y.low), std::min(x.high, y.high)};
  case Kind::AbsF:
    return {std::max({0.0, x.low, -x.high}), std::max(-x.low, x.high)};
  case Kind::Tanh:
    return rising([](double v) { return std::tanh(v); });
  case Kind::Exp:
    return rising([](double v) { return std::exp(v); });
  case Kind::Exp2:
    return rising([](double v) { return std::exp2(v); });
  case Kind::Log:
    return rising([](double v) { return std::log(v); }, 0);
  case Kind::Log2:
    return rising([](double v) { return std::log2(v); }, 0);
  case Kind::Sqrt:
    return rising([](double v) { return std::sqrt(v); }, 0);
  default: // of integers
    return {};
  }
}

std::optional<ScoreBounds> mlir::heddle::boundsOf(const Scores &scores) {
  if (scores.empty())
    return std::nullopt;
  SmallVector<Interval> values(Scores::inputs);
  for (const Scores::Node &node : scores.nodes) {
    auto of = [&](unsigned i) {
      return node.of[i] < 0 ? Interval() : values[node.of[i]];
    };
    Interval result;
    if (node.op == Kind::Constant && node.type == Scores::Type::F32)
      result = node.real == -infinity ? Interval{infinity, -infinity}
                                      : Interval{node.real, node.real};
    else if (node.op == Kind::Select && node.type == Scores::Type::F32)
      result = {std::min(of(1).low, of(2).low),
                std::max(of(1).high, of(2).high)};
    else if (!of(0).isEmpty() && !of(1).isEmpty() && !of(2).isEmpty())
      result = apply(node.op, of(0), of(1), of(2));
    values.push_back(result);
  }
  const Interval last = values.back();
  if (!std::isfinite(last.low) || !std::isfinite(last.high))
    return std::nullopt;
  return ScoreBounds{last.low, last.high};
}
