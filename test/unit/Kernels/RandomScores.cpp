//===- RandomScores.cpp - Functions of logits at random -------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "RandomScores.h"

#include <cstring>
#include <vector>

using namespace heddle;
using namespace heddle::test;
using bundle::Scores;
using Op = Scores::Op;
using Type = Scores::Type;

namespace {
class Maker {
public:
  explicit Maker(std::mt19937 &random) : random(random) {
    reals = {Scores::Logit};
    integers = {Scores::Query, Scores::Key, Scores::Head};
  }

  Scores make() {
    for (int i = 0; i < 10; ++i)
      random() % 2 ? makeReal() : makeInteger();
    // logit + tanh(x), masked where (i & 3) == 1 unless that is all there is.
    int32_t bounded = add(Op::Tanh, Type::F32, {pick(reals)});
    int32_t result = add(Op::AddF, Type::F32, {Scores::Logit, bounded});
    int32_t low = add(Op::And, Type::I32, {pick(integers), integer(3)});
    Scores::Predicate equal = *bundle::predicateOf(Op::CmpI, "eq");
    int32_t masked = add(Op::CmpI, Type::I1, {low, integer(1)}, equal);
    Scores::Node none;
    none.real = -std::numeric_limits<float>::infinity();
    scores.nodes.push_back(none);
    add(Op::Select, Type::F32, {masked, last(), result});
    return scores;
  }

private:
  int32_t last() const {
    return Scores::inputs + static_cast<int32_t>(scores.nodes.size()) - 1;
  }
  int32_t pick(const std::vector<int32_t> &from) {
    return from[random() % from.size()];
  }
  int32_t integer(int32_t value) {
    Scores::Node node;
    node.type = Type::I32;
    node.integer = value;
    scores.nodes.push_back(node);
    return last();
  }
  int32_t real(float value) {
    Scores::Node node;
    node.real = value;
    scores.nodes.push_back(node);
    return last();
  }
  int32_t add(Op op, Type type, std::vector<int32_t> of,
              Scores::Predicate predicate = 0) {
    Scores::Node node;
    node.op = op;
    node.type = type;
    node.predicate = predicate;
    std::copy(of.begin(), of.end(), node.of.begin());
    scores.nodes.push_back(node);
    return last();
  }
  /// Numbers of the size of 1 stay so.
  void makeReal() {
    int32_t x = pick(reals), y = pick(reals);
    switch (random() % 10) {
    case 0: {
      Op ops[] = {Op::MaxF, Op::MinF, Op::MaxNumF, Op::MinNumF};
      return reals.push_back(add(ops[random() % 4], Type::F32, {x, y}));
    }
    case 1: {
      // Continuous, so that rounding does not decide.
      int32_t less = add(Op::CmpF, Type::I1, {x, y},
                         *bundle::predicateOf(Op::CmpF, "olt"));
      return reals.push_back(add(Op::Select, Type::F32, {less, x, y}));
    }
    case 2:
      return reals.push_back(
          add(Op::MulF, Type::F32, {x, real(random() % 2 ? 0.5f : -0.75f)}));
    case 3:
      return reals.push_back(add(Op::DivF, Type::F32, {x, real(3.0f)}));
    case 4:
      return reals.push_back(add(Op::NegF, Type::F32, {x}));
    case 5:
      return reals.push_back(add(Op::Tanh, Type::F32, {x}));
    case 6: {
      int32_t bounded = add(Op::Tanh, Type::F32, {x});
      return reals.push_back(
          add(random() % 2 ? Op::Exp : Op::Exp2, Type::F32, {bounded}));
    }
    case 7: {
      int32_t size = add(Op::AbsF, Type::F32, {x});
      int32_t more = add(Op::AddF, Type::F32, {size, real(1.0f)});
      Op ops[] = {Op::Log, Op::Log2, Op::Sqrt};
      return reals.push_back(add(ops[random() % 3], Type::F32, {more}));
    }
    case 8: {
      int32_t half = add(Op::Fma, Type::F32, {x, real(0.25f), y});
      return reals.push_back(add(Op::SubF, Type::F32, {half, x}));
    }
    default: {
      // 0 to 7 as a float.
      int32_t low = add(Op::And, Type::I32, {pick(integers), integer(7)});
      int32_t number = add(Op::ToFloat, Type::F32, {low});
      return reals.push_back(add(Op::MulF, Type::F32, {number, real(0.125f)}));
    }
    }
  }
  void makeInteger() {
    int32_t x = pick(integers), y = pick(integers);
    Op same[] = {Op::AddI, Op::SubI, Op::MulI, Op::And,
                 Op::Or,   Op::XOr,  Op::MaxI, Op::MinI};
    switch (random() % 6) {
    case 0:
      return integers.push_back(
          add(Op::DivI, Type::I32, {x, integer(1 + random() % 20)}));
    case 1:
      return integers.push_back(
          add(Op::RemI, Type::I32, {x, integer(1 + random() % 20)}));
    case 2:
      return integers.push_back(add(random() % 2 ? Op::ShL : Op::ShR, Type::I32,
                                    {x, integer(random() % 5)}));
    case 3: {
      int32_t less = add(Op::CmpI, Type::I1, {x, y},
                         static_cast<Scores::Predicate>(random() % 10));
      int32_t other = add(Op::CmpI, Type::I1, {y, integer(random() % 50)},
                          static_cast<Scores::Predicate>(random() % 10));
      Op logic[] = {Op::And, Op::Or, Op::XOr};
      int32_t both = add(logic[random() % 3], Type::I1, {less, other});
      integers.push_back(random() % 2
                             ? add(Op::Extend, Type::I32, {both})
                             : add(Op::Select, Type::I32, {both, x, y}));
      return;
    }
    case 4:
      return integers.push_back(add(Op::AbsI, Type::I32, {x}));
    default:
      return integers.push_back(add(same[random() % 8], Type::I32, {x, y}));
    }
  }

  std::mt19937 &random;
  Scores scores;
  std::vector<int32_t> reals, integers;
};
} // namespace

Scores test::randomScores(std::mt19937 &random) { return Maker(random).make(); }

std::string test::regionOf(const Scores &scores) {
  std::string text = "scores(%v0, %v1, %v2, %v3) {\n";
  auto value = [](int32_t number) { return "%v" + std::to_string(number); };
  auto typeOf = [&](int32_t number) {
    if (number < Scores::inputs)
      return std::string(number == Scores::Logit ? "f32" : "i32");
    return std::string(nameOf(scores.nodes[number - Scores::inputs].type));
  };
  int32_t next = Scores::inputs;
  for (const Scores::Node &node : scores.nodes) {
    text += "  " + value(next++) + " = " + std::string(dialectOf(node.op)) +
            "." + std::string(nameOf(node.op)) + " ";
    const std::string type(nameOf(node.type));
    if (node.op == Op::Constant) {
      uint32_t bits;
      std::memcpy(&bits, &node.real, 4);
      char hex[16];
      std::snprintf(hex, sizeof(hex), "0x%08X", bits);
      text += (node.type == Type::F32 ? std::string(hex)
                                      : std::to_string(node.integer)) +
              " : " + type + "\n";
      continue;
    }
    const bool compares = node.op == Op::CmpF || node.op == Op::CmpI;
    if (compares)
      text += std::string(predicateName(node.op, node.predicate)) + ", ";
    for (size_t i = 0; i < node.of.size() && node.of[i] >= 0; ++i)
      text += (i ? ", " : "") + value(node.of[i]);
    text += " : ";
    if (node.op == Op::ToFloat || node.op == Op::Extend)
      text += typeOf(node.of[0]) + " to " + type;
    else
      text += compares ? typeOf(node.of[0]) : type;
    text += "\n";
  }
  return text + "  heddle.yield " + value(next - 1) + "\n}";
}
