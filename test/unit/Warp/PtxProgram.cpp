//===- PtxProgram.cpp - Reads PTX -----------------------------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "PtxMachine.h"

#include <algorithm>
#include <bit>
#include <cctype>

using namespace heddle::test;

bool PtxInstruction::has(std::string_view part) const {
  return std::find(parts.begin(), parts.end(), part) != parts.end();
}

namespace {

std::string_view trim(std::string_view text) {
  while (!text.empty() &&
         std::isspace(static_cast<unsigned char>(text.front())))
    text.remove_prefix(1);
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.back())))
    text.remove_suffix(1);
  return text;
}

/// Parts between `separator` that are outside braces and brackets.
std::vector<std::string> splitOutside(std::string_view text, char separator) {
  std::vector<std::string> parts;
  std::string part;
  int depth = 0;
  for (char c : text) {
    depth += c == '{' || c == '[';
    depth -= c == '}' || c == ']';
    if (c == separator && depth == 0) {
      parts.emplace_back(trim(part));
      part.clear();
    } else {
      part += c;
    }
  }
  if (!trim(part).empty())
    parts.emplace_back(trim(part));
  return parts;
}

class Parser {
public:
  explicit Parser(PtxProgram &program) : program(program) {}

  void parse(std::string_view body);

private:
  void statement(std::string_view text);
  PtxOperand operand(std::string_view text);
  int64_t registerOf(std::string_view name);
  std::string scoped(std::string_view name) const {
    return name.starts_with('%') || scopes.size() < 2
               ? std::string(name)
               : std::to_string(scopes.back()) + ":" + std::string(name);
  }

  PtxProgram &program;
  std::map<std::string, int64_t, std::less<>> numbers;
  std::map<std::string, int64_t, std::less<>> labels;
  std::vector<std::pair<size_t, std::string>> branches;
  std::vector<int> scopes;
  int scopeCount = 0;
};

} // namespace

int64_t Parser::registerOf(std::string_view name) {
  auto [found, fresh] = numbers.try_emplace(scoped(name), program.registers);
  program.registers += fresh;
  return found->second;
}

PtxOperand Parser::operand(std::string_view text) {
  using Kind = PtxOperand::Kind;
  static const std::map<std::string_view, int64_t> specials = {
      {"%tid.x", 0},        {"%ctaid.x", 1},     {"%ctaid.y", 2},
      {"%ctaid.z", 3},      {"%nctaid.x", 5},    {"heddle_shared", 4},
      {"%nclusterid.x", 6}, {"%clusterid.x", 7}, {"%nctaid.z", 8}};
  if (auto found = specials.find(text); found != specials.end())
    return {Kind::Special, found->second, -1, {}};
  if (text.front() == '{') {
    PtxOperand result{Kind::List, 0, -1, {}};
    for (const std::string &each :
         splitOutside(text.substr(1, text.size() - 2), ',')) {
      result.list.push_back(registerOf(each));
      if (std::isdigit(static_cast<unsigned char>(each.front())))
        program.constants[result.list.back()] = operand(each).value;
    }
    return result;
  }
  if (text.front() == '[') {
    text = trim(text.substr(1, text.size() - 2));
    PtxOperand result{Kind::Address, 0, -1, {}};
    if (size_t comma = text.find(','); comma != std::string_view::npos) {
      result.list = operand(trim(text.substr(comma + 1))).list;
      text = trim(text.substr(0, comma));
    }
    size_t plus = text.find('+');
    if (plus != std::string_view::npos) {
      result.value = std::stoll(std::string(text.substr(plus + 1)));
      text = text.substr(0, plus);
    }
    if (size_t at = text.find("_param_"); at != std::string_view::npos)
      result.list = {std::stoll(std::string(text.substr(at + 7)))};
    else
      result.base = registerOf(text);
    return result;
  }
  if (text.starts_with("0f"))
    return {Kind::Constant,
            static_cast<int64_t>(
                std::stoul(std::string(text.substr(2)), nullptr, 16)),
            -1,
            {}};
  if (std::isdigit(static_cast<unsigned char>(text.front())) ||
      text.front() == '-')
    return {Kind::Constant, std::stoll(std::string(text), nullptr, 0), -1, {}};
  if (text.front() == '%' && text.find('.') != std::string_view::npos)
    throw PtxError("a special register that is not known: " +
                   std::string(text));
  return {Kind::Register, registerOf(text), -1, {}};
}

void Parser::statement(std::string_view text) {
  text = trim(text);
  if (text.empty() || text.starts_with(".pragma"))
    return;
  if (text.starts_with(".reg")) {
    if (scopes.size() > 1) // else registers are known by their names
      for (const std::string &name :
           splitOutside(text.substr(text.find(' ', 5)), ','))
        registerOf(name);
    return;
  }
  PtxInstruction op;
  op.text = std::string(text);
  if (text.front() == '@') {
    size_t space = text.find_first_of(" \t");
    std::string_view guard = text.substr(1, space - 1);
    op.negated = guard.front() == '!';
    op.guard = registerOf(op.negated ? guard.substr(1) : guard);
    text = trim(text.substr(space));
  }
  size_t end = text.find_first_of(" \t\n");
  op.name = std::string(text.substr(0, end));
  op.parts = splitOutside(op.name, '.');
  op.word = op.parts.front();
  op.parts.erase(op.parts.begin());
  if (op.word == "bra") {
    std::string label(trim(text.substr(end)));
    branches.emplace_back(program.instructions.size(),
                          label.front() == '$' ? label : scoped(label));
  } else if (end != std::string_view::npos) {
    for (const std::string &each : splitOutside(text.substr(end), ','))
      if (each != "_")
        op.operands.push_back(operand(each));
  }
  program.instructions.push_back(std::move(op));
}

void Parser::parse(std::string_view body) {
  std::string text;
  int depth = 0; // of braces and brackets within a statement
  for (char c : body) {
    if (trim(text).empty() && c == '{') {
      scopes.push_back(scopeCount++);
      continue;
    }
    if (trim(text).empty() && c == '}') {
      scopes.pop_back();
      text.clear();
      if (scopes.empty())
        break;
      continue;
    }
    depth += c == '{';
    depth -= c == '}';
    if (c == ';' && depth == 0) {
      statement(text);
      text.clear();
    } else if (c == ':' && depth == 0 &&
               trim(text).find_first_of(" .@") == std::string_view::npos) {
      std::string label(trim(text));
      labels[label.front() == '$' ? label : scoped(label)] =
          static_cast<int64_t>(program.instructions.size());
      text.clear();
    } else {
      text += c;
    }
  }
  for (auto &[at, label] : branches) {
    auto found = labels.find(label);
    if (found == labels.end())
      throw PtxError("no label " + label);
    program.instructions[at].target = found->second;
  }
}

PtxProgram::PtxProgram(std::string_view ptx, std::string_view symbol) {
  size_t at = ptx.find(".entry " + std::string(symbol) + "(");
  if (at == std::string_view::npos)
    throw PtxError("no entry " + std::string(symbol));
  std::string_view rest = ptx.substr(at);
  size_t most = rest.find(".maxntid"), begin = rest.find("\n{");
  if (most == std::string_view::npos || begin == std::string_view::npos ||
      most > begin)
    throw PtxError("no .maxntid");
  threads = std::stoll(std::string(rest.substr(most + 8, 16)));
  if (size_t at = rest.find(".reqnctapercluster"); at < begin)
    cluster = std::stoll(std::string(rest.substr(at + 18, 16)));
  // Without comments.
  std::string body;
  std::string_view source = rest.substr(begin + 1);
  for (size_t i = 0; i < source.size(); ++i) {
    if (source[i] == '/' && i + 1 < source.size() && source[i + 1] == '/')
      while (i < source.size() && source[i] != '\n')
        ++i;
    body += i < source.size() ? source[i] : '\n';
  }
  Parser(*this).parse(body);
}
