//===- ManifestScores.cpp - Functions of logits as JSON -------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "bundle/format/ManifestScores.h"

#include "nlohmann/json.hpp"

#include <cmath>
#include <limits>

using namespace heddle::bundle;
using nlohmann::ordered_json;

ordered_json detail::toJson(const Scores &scores) {
  ordered_json json = ordered_json::array();
  for (const Scores::Node &node : scores.nodes) {
    ordered_json item = {nameOf(node.op)};
    if (node.op == Scores::Op::Constant) {
      item.push_back(nameOf(node.type));
      if (node.type != Scores::Type::F32)
        item.push_back(node.integer);
      else if (std::isinf(node.real)) // JSON has no such number
        item.push_back(node.real < 0 ? "-inf" : "inf");
      else
        item.push_back(node.real);
    } else if (node.op == Scores::Op::CmpF || node.op == Scores::Op::CmpI) {
      item.push_back(predicateName(node.op, node.predicate));
    }
    for (int32_t value : node.of)
      if (value >= 0)
        item.push_back(value);
    json.push_back(std::move(item));
  }
  return json;
}

namespace {

constexpr Scores::Type allTypes[] = {Scores::Type::F32, Scores::Type::I32,
                                     Scores::Type::I1};

/// A node's type where its operation has more than one.
Scores::Type typeOf(const Scores &scores, const Scores::Node &node) {
  switch (signatureOf(node.op)[0]) {
  case 'f':
    return Scores::Type::F32;
  case 'i':
    return Scores::Type::I32;
  case 'b':
    return Scores::Type::I1;
  }
  return scores.typeOf(node.of[node.op == Scores::Op::Select ? 1 : 0]);
}

std::string readConstant(const ordered_json &type, const ordered_json &value,
                         Scores::Node &node) {
  bool known = false;
  for (Scores::Type each : allTypes)
    if (type == nameOf(each)) {
      node.type = each;
      known = true;
    }
  if (!known)
    return "a constant is f32, i32 or i1";
  if (node.type != Scores::Type::F32) {
    const bool isBit = node.type == Scores::Type::I1;
    // A number beyond 64 bits is no integer to the parser.
    if (!value.is_number_integer() || value < (isBit ? 0 : INT32_MIN) ||
        value > (isBit ? 1 : INT32_MAX))
      return "expected an integer of " + std::string(nameOf(node.type));
    node.integer = value.get<int32_t>();
    return "";
  }
  constexpr float infinity = std::numeric_limits<float>::infinity();
  if (value == "-inf" || value == "inf")
    node.real = value == "inf" ? infinity : -infinity;
  else if (value.is_number() &&
           std::abs(value.get<double>()) <= std::numeric_limits<float>::max())
    node.real = value.get<float>();
  else
    return "expected a number of f32, \"inf\" or \"-inf\"";
  return "";
}

std::string readNode(const ordered_json &json, const Scores &before,
                     Scores::Node &node) {
  if (!json.is_array() || json.empty() || !json[0].is_string())
    return "expected a list that begins with an operation";
  const std::string name = json[0].get<std::string>();
  std::optional<Scores::Op> op = scoreOp("arith." + name);
  if (!op)
    op = scoreOp("math." + name);
  if (!op)
    return "the operation is not known to this build";
  node.op = *op;
  const bool constant = node.op == Scores::Op::Constant;
  std::string_view signature = signatureOf(*op).substr(1);
  if (json.size() != 1 + signature.size() + constant)
    return name + " has too many or too few operands";
  if (constant)
    return readConstant(json[1], json[2], node);
  size_t next = 1, operand = 0;
  for (char letter : signature) {
    const ordered_json &item = json[next++];
    if (letter == 'p') {
      std::optional<Scores::Predicate> predicate =
          item.is_string() ? predicateOf(node.op, item.get<std::string>())
                           : std::nullopt;
      if (!predicate)
        return name + " has no such predicate";
      node.predicate = *predicate;
    } else if (item.is_number_integer() && item >= 0 && item <= INT32_MAX) {
      node.of[operand++] = item.get<int32_t>();
    } else {
      return name + " has an operand that is no number of a value";
    }
  }
  node.type = typeOf(before, node);
  return "";
}

} // namespace

std::string detail::readScores(const ordered_json &json, Scores &scores) {
  if (!json.is_array() || json.empty() || json.size() > Scores::maxNodes)
    return "expected a list of 1 to " + std::to_string(Scores::maxNodes) +
           " operations";
  for (const ordered_json &item : json) {
    Scores::Node node;
    if (std::string problem = readNode(item, scores, node); !problem.empty())
      return "operation " + std::to_string(scores.nodes.size()) + ": " +
             problem;
    scores.nodes.push_back(node);
  }
  return problemOf(scores);
}
