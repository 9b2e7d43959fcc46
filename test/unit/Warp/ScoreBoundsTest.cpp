//===- ScoreBoundsTest.cpp - Bounds of functions of logits ----------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/Conversion/ScoreLowering.h"

#include <gtest/gtest.h>
#include <limits>

using heddle::bundle::Scores;
using mlir::heddle::boundsOf;
using Op = Scores::Op;

namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();

/// Builds a function, value by value.
struct Builder {
  int32_t operator()(Op op, int32_t x, int32_t y = -1, int32_t z = -1) {
    Scores::Node node;
    node.op = op;
    node.type = op == Op::CmpI ? Scores::Type::I1 : Scores::Type::F32;
    node.of = {x, y, z};
    return add(node);
  }
  int32_t constant(float value) {
    Scores::Node node;
    node.real = value;
    return add(node);
  }
  int32_t add(const Scores::Node &node) {
    scores.nodes.push_back(node);
    return static_cast<int32_t>(scores.nodes.size()) - 1 + Scores::inputs;
  }
  /// cap * tanh(logit / cap).
  int32_t capped(float cap) {
    const int32_t c = constant(cap);
    const int32_t share = (*this)(Op::DivF, Scores::Logit, c);
    return (*this)(Op::MulF, (*this)(Op::Tanh, share), c);
  }
  void expect(double low, double high) const {
    ASSERT_EQ(problemOf(scores), "");
    auto bounds = boundsOf(scores);
    ASSERT_TRUE(bounds);
    EXPECT_NEAR(bounds->low, low, 1e-12);
    EXPECT_NEAR(bounds->high, high, 1e-12);
  }
  void expectNone() const {
    ASSERT_EQ(problemOf(scores), "");
    EXPECT_FALSE(boundsOf(scores));
  }

  Scores scores;
};

} // namespace

TEST(ScoreBounds, OfACap) {
  Builder f;
  f.capped(30);
  f.expect(-30, 30);
  Builder g;
  g(Op::NegF, g(Op::AddF, g.capped(30), g.constant(5)));
  g.expect(-35, 25);
  Builder h;
  h(Op::Fma, h.capped(2), h.constant(-3), h.constant(1));
  h.expect(-5, 7);
  Builder least;
  const int32_t low = least.constant(-4), high = least.constant(9);
  least(Op::MinF, least(Op::MaxF, Scores::Logit, low), high);
  least.expect(-4, 9);
  Builder size;
  size(Op::Sqrt, size(Op::AbsF, size.capped(16)));
  size.expect(0, 4);
  Builder power;
  power(Op::Exp2, power.capped(3));
  power.expect(0.125, 8);
}

/// Minus infinity that a comparison chooses masks a pair.
TEST(ScoreBounds, OfAMask) {
  auto masked = [](Builder &f) {
    const int32_t capped = f.capped(30), none = f.constant(-infinity);
    Scores::Node ahead;
    ahead.op = Op::CmpI;
    ahead.type = Scores::Type::I1;
    ahead.predicate = 4;
    ahead.of = {Scores::Key, Scores::Query, -1};
    return f(Op::Select, f.add(ahead), none, capped);
  };
  Builder f;
  masked(f);
  f.expect(-30, 30);
  // Whatever else is done with it may be NaN.
  Builder g;
  g(Op::SubF, masked(g), g.constant(-infinity));
  g.expectNone();
}

TEST(ScoreBounds, OfWhatHasNone) {
  EXPECT_FALSE(boundsOf({}));
  Builder f;
  f(Op::MulF, Scores::Logit, f.constant(0.5f));
  f.expectNone();
  Builder g; // a bias by distance
  g(Op::AddF, g.capped(30), g(Op::ToFloat, Scores::Query));
  g.expectNone();
  Builder h; // where the divisor may be 0
  h(Op::DivF, h.constant(1), h.capped(2));
  h.expectNone();
  Builder root; // NaN for what is below 0
  root(Op::Sqrt, root.capped(4));
  root.expectNone();
  Builder zero; // 0 times infinity
  zero(Op::MulF, Scores::Logit, zero.constant(0));
  zero.expectNone();
  Builder log;
  log(Op::Log, log(Op::AbsF, log.capped(2)));
  log.expectNone();
}
