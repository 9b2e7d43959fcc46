//===- Scores.cpp - What becomes of logits before the softmax -------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "bundle/program/Scores.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>
#include <sstream>

using namespace heddle;
using namespace heddle::bundle;

using Op = Scores::Op;
using Type = Scores::Type;

namespace {
struct OpFacts {
  std::string_view dialect, name, signature;
};
constexpr OpFacts facts[] = {
#define HEDDLE_SCORE_OP(kind, dialect, name, signature)                        \
  {dialect, name, signature},
    HEDDLE_SCORE_OPS(HEDDLE_SCORE_OP)
#undef HEDDLE_SCORE_OP
};
constexpr std::string_view typeNames[] = {"f32", "i32", "i1"};
constexpr std::string_view realPredicates[] = {
    "false", "oeq", "ogt", "oge", "olt", "ole", "one", "ord",
    "ueq",   "ugt", "uge", "ult", "ule", "une", "uno", "true"};
constexpr std::string_view integerPredicates[] = {
    "eq", "ne", "slt", "sle", "sgt", "sge", "ult", "ule", "ugt", "uge"};

const OpFacts &factsOf(Op op) { return facts[static_cast<size_t>(op)]; }

std::span<const std::string_view> predicates(Op op) {
  if (op == Op::CmpF)
    return realPredicates;
  return integerPredicates;
}
} // namespace

std::string_view bundle::nameOf(Type type) {
  return typeNames[static_cast<size_t>(type)];
}
std::string_view bundle::nameOf(Op op) { return factsOf(op).name; }
std::string_view bundle::signatureOf(Op op) { return factsOf(op).signature; }
std::string_view bundle::dialectOf(Op op) { return factsOf(op).dialect; }

std::optional<Op> bundle::scoreOp(std::string_view fullName) {
  for (size_t i = 0; i < std::size(facts); ++i) {
    const OpFacts &op = facts[i];
    if (fullName.size() == op.dialect.size() + 1 + op.name.size() &&
        fullName.starts_with(op.dialect) && fullName.ends_with(op.name) &&
        fullName[op.dialect.size()] == '.')
      return static_cast<Op>(i);
  }
  return std::nullopt;
}

std::string_view bundle::predicateName(Op op, Scores::Predicate predicate) {
  const auto names = predicates(op);
  return predicate >= 0 && predicate < std::ssize(names)
             ? names[static_cast<size_t>(predicate)]
             : std::string_view("?");
}

std::optional<Scores::Predicate> bundle::predicateOf(Op op,
                                                     std::string_view name) {
  const auto names = predicates(op);
  const auto found = std::ranges::find(names, name);
  if (found == names.end())
    return std::nullopt;
  return static_cast<Scores::Predicate>(found - names.begin());
}

//===----------------------------------------------------------------------===//
// Scores
//===----------------------------------------------------------------------===//

bool Scores::uses(Input input) const {
  return std::ranges::any_of(nodes, [&](const Node &node) {
    return std::ranges::find(node.of, input) != node.of.end();
  });
}

bool Scores::has(Op op) const {
  return std::ranges::find(nodes, op, &Node::op) != nodes.end();
}

Type Scores::typeOf(int32_t value) const {
  if (value < inputs)
    return value == Logit ? Type::F32 : Type::I32;
  const auto index = static_cast<size_t>(value - inputs);
  return index < nodes.size() ? nodes[index].type : Type::I32;
}

static std::string problemOf(const Scores &scores, size_t index) {
  const Scores::Node &node = scores.nodes[index];
  std::string where = "operation " + std::to_string(index) + " (" +
                      std::string(nameOf(node.op)) + ") ";
  std::string_view signature = signatureOf(node.op);
  auto matches = [&](char letter, Type type) {
    switch (letter) {
    case 'f':
      return type == Type::F32;
    case 'b':
      return type == Type::I1;
    case 'x':
      return type == node.type;
    default:
      return type == Type::I32;
    }
  };
  if (!matches(signature[0], node.type))
    return where + "gives no " + std::string(nameOf(node.type));
  // Bits are no numbers: only i32 and i1 have and, or, xor.
  if ((node.op == Op::And || node.op == Op::Or || node.op == Op::XOr) &&
      node.type == Type::F32)
    return where + "gives no f32";
  if (node.op == Op::Constant && std::isnan(node.real))
    return where + "is not a number";
  size_t operand = 0;
  for (char letter : signature.substr(1)) {
    if (letter == 'c')
      continue;
    if (letter == 'p') {
      if (predicateName(node.op, node.predicate) == "?")
        return where + "has no such predicate";
      continue;
    }
    const int32_t value = node.of[operand++];
    if (value < 0 || value >= Scores::inputs + static_cast<int32_t>(index))
      return where + "reads value " + std::to_string(value) +
             ", which does not stand before it";
    if (!matches(letter, scores.typeOf(value)))
      return where + "reads a value of type " +
             std::string(nameOf(scores.typeOf(value))) + " as operand " +
             std::to_string(operand - 1);
    if (letter != '+' && letter != 's')
      continue;
    const Scores::Node *constant =
        value < Scores::inputs
            ? nullptr
            : &scores.nodes[static_cast<size_t>(value - Scores::inputs)];
    if (!constant || constant->op != Op::Constant ||
        (letter == '+' ? constant->integer < 1
                       : constant->integer < 0 || constant->integer > 31))
      return where + (letter == '+' ? "divides by what is no positive constant"
                                    : "shifts by what is no constant from 0 "
                                      "to 31");
  }
  for (; operand < node.of.size(); ++operand)
    if (node.of[operand] != -1)
      return where + "has too many operands";
  return "";
}

std::string bundle::problemOf(const Scores &scores) {
  if (scores.nodes.size() > Scores::maxNodes)
    return "there are " + std::to_string(scores.nodes.size()) +
           " operations; at most " + std::to_string(Scores::maxNodes) +
           " are possible";
  for (size_t i = 0; i < scores.nodes.size(); ++i)
    if (std::string problem = ::problemOf(scores, i); !problem.empty())
      return problem;
  if (!scores.empty() && scores.nodes.back().type != Type::F32)
    return "the last operation gives no f32";
  return "";
}

//===----------------------------------------------------------------------===//
// Evaluation
//===----------------------------------------------------------------------===//

namespace {
struct Number {
  double f = 0;
  int32_t i = 0;
};

/// 32-bit arithmetic that wraps.
int32_t wrap(int64_t x) {
  return static_cast<int32_t>(static_cast<uint32_t>(x));
}

bool compare(Scores::Predicate predicate, double x, double y) {
  const bool unordered = std::isnan(x) || std::isnan(y);
  // Bits of the predicate: equal, greater, less, unordered.
  const int bit = unordered ? 8 : x == y ? 1 : x > y ? 2 : 4;
  return predicate & bit;
}

bool compare(Scores::Predicate predicate, int32_t x, int32_t y) {
  const auto a = static_cast<uint32_t>(x), b = static_cast<uint32_t>(y);
  const bool results[] = {
      x == y, x != y, x<y, x <= y, x> y, x >= y, a<b, a <= b, a> b, a >= b};
  return results[predicate];
}

Number apply(const Scores::Node &node, const Number &x, const Number &y,
             const Number &z) {
  const bool nan = std::isnan(x.f) || std::isnan(y.f);
  constexpr double none = std::numeric_limits<double>::quiet_NaN();
  switch (node.op) {
  case Op::Constant:
    return {node.real, node.integer};
  case Op::AddF:
    return {x.f + y.f};
  case Op::SubF:
    return {x.f - y.f};
  case Op::MulF:
    return {x.f * y.f};
  case Op::DivF:
    return {x.f / y.f};
  case Op::NegF:
    return {-x.f};
  case Op::MaxF:
    return {nan ? none : std::fmax(x.f, y.f)};
  case Op::MinF:
    return {nan ? none : std::fmin(x.f, y.f)};
  case Op::MaxNumF:
    return {std::fmax(x.f, y.f)};
  case Op::MinNumF:
    return {std::fmin(x.f, y.f)};
  case Op::CmpF:
    return {0, compare(node.predicate, x.f, y.f)};
  case Op::CmpI:
    return {0, compare(node.predicate, x.i, y.i)};
  case Op::Select:
    return x.i ? y : z;
  case Op::AddI:
    return {0, wrap(int64_t(x.i) + y.i)};
  case Op::SubI:
    return {0, wrap(int64_t(x.i) - y.i)};
  case Op::MulI:
    return {0, wrap(int64_t(x.i) * y.i)};
  case Op::DivI:
    return {0, x.i / y.i};
  case Op::RemI:
    return {0, x.i % y.i};
  case Op::ShL:
    return {0, wrap(int64_t(static_cast<uint64_t>(int64_t(x.i)) << y.i))};
  case Op::ShR:
    return {0, x.i >> y.i};
  case Op::And:
    return {0, x.i & y.i};
  case Op::Or:
    return {0, x.i | y.i};
  case Op::XOr:
    return {0, x.i ^ y.i};
  case Op::MaxI:
    return {0, std::max(x.i, y.i)};
  case Op::MinI:
    return {0, std::min(x.i, y.i)};
  case Op::ToFloat:
    return {static_cast<double>(x.i)};
  case Op::Extend:
    return {0, x.i};
  case Op::AbsF:
    return {std::fabs(x.f)};
  case Op::AbsI:
    return {0, wrap(std::abs(int64_t(x.i)))};
  case Op::Fma:
    return {x.f * y.f + z.f};
  case Op::Exp:
    return {std::exp(x.f)};
  case Op::Exp2:
    return {std::exp2(x.f)};
  case Op::Log:
    return {std::log(x.f)};
  case Op::Log2:
    return {std::log2(x.f)};
  case Op::Sqrt:
    return {std::sqrt(x.f)};
  case Op::Tanh:
    return {std::tanh(x.f)};
  }
  return {none};
}
} // namespace

double bundle::evaluate(const Scores &scores, double logit, int32_t query,
                        int32_t key, int32_t head) {
  if (scores.empty())
    return logit;
  std::array<Number, Scores::inputs + Scores::maxNodes> values;
  values[Scores::Logit].f = logit;
  values[Scores::Query].i = query;
  values[Scores::Key].i = key;
  values[Scores::Head].i = head;
  size_t next = Scores::inputs;
  for (const Scores::Node &node : scores.nodes) {
    auto operand = [&](size_t i) -> const Number & {
      return values[static_cast<size_t>(std::max(node.of[i], 0))];
    };
    values[next++] = apply(node, operand(0), operand(1), operand(2));
  }
  return values[next - 1].f;
}

//===----------------------------------------------------------------------===//
// Words
//===----------------------------------------------------------------------===//

static std::string wordsFor(const Scores &scores, int32_t value) {
  constexpr const char *inputs[] = {"logit", "query", "key", "head"};
  if (value < Scores::inputs)
    return inputs[value];
  const Scores::Node &node =
      scores.nodes[static_cast<size_t>(value - Scores::inputs)];
  if (node.op == Op::Constant) {
    std::ostringstream text;
    if (node.type == Type::F32)
      text << node.real;
    else
      text << node.integer;
    return text.str();
  }
  std::string text(nameOf(node.op));
  if (node.op == Op::CmpF || node.op == Op::CmpI)
    text = predicateName(node.op, node.predicate);
  text += '(';
  for (size_t i = 0; i < node.of.size() && node.of[i] >= 0; ++i)
    text += (i ? ", " : "") + wordsFor(scores, node.of[i]);
  return text + ')';
}

std::string bundle::toString(const Scores &scores) {
  if (scores.empty())
    return "logit";
  // What is used twice is written twice.
  constexpr size_t few = 12;
  if (scores.nodes.size() > few)
    return "a function of " + std::to_string(scores.nodes.size()) +
           " operations";
  return wordsFor(scores, Scores::inputs +
                              static_cast<int32_t>(scores.nodes.size()) - 1);
}
