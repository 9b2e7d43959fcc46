//===- ScheduleText.cpp - A schedule's text without the compiler ----------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "bundle/format/ScheduleText.h"

#include <algorithm>
#include <charconv>

using namespace heddle::bundle;

namespace {

/// Goes over the tokens of MLIR's textual form, as far as heads need it.
class Tokens {
public:
  explicit Tokens(std::string_view text) : text(text) {}

  /// The next token, a word, a string or a single character; "" at the end.
  std::string_view next() {
    while (at < text.size() && (isSpace(text[at]) || isComment()))
      at = isComment() ? std::min(text.find_first_of("\r\n", at), text.size())
                       : at + 1;
    start = at;
    if (at == text.size())
      return {};
    if (text[at] == '"') {
      for (++at; at < text.size() && text[at] != '"'; ++at)
        at += text[at] == '\\';
      at = std::min(at + 1, text.size());
    } else if (isWord(text[at])) {
      while (at < text.size() && isWord(text[at]))
        ++at;
    } else {
      ++at;
    }
    return text.substr(start, at - start);
  }

  std::size_t begin() const { return start; } ///< of the latest token
  std::size_t end() const { return at; }

private:
  static bool isSpace(char c) {
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
  }
  static bool isWord(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
           (c >= '0' && c <= '9') || c == '_' || c == '.' || c == '$';
  }
  bool isComment() const { return text.substr(at, 2) == "//"; }

  std::string_view text;
  std::size_t at = 0, start = 0;
};

} // namespace

/// What a string says, which MLIR writes with escapes: `\"`, `\\`, `\n`, `\t`
/// and two hexadecimal digits.
static std::string unescaped(std::string_view text) {
  std::string said;
  while (!text.empty()) {
    int code = 0;
    std::size_t used = 1;
    char c = text[0];
    if (c == '\\' && text.size() > 1) {
      const char *digits = text.data() + 1;
      used = 2;
      c = text[1] == 'n' ? '\n' : text[1] == 't' ? '\t' : text[1];
      if (text.size() > 2 &&
          std::from_chars(digits, digits + 2, code, 16).ptr == digits + 2) {
        used = 3;
        c = static_cast<char>(code);
      }
    }
    said += c;
    text.remove_prefix(used);
  }
  return said;
}

/// Reads the parameters of a head as far as they are well formed.
static void readParameters(Tokens &tokens, std::string_view source,
                           TextHead &head) {
  while (!head.isWhole) {
    TextParameter parameter;
    parameter.name = tokens.next();
    parameter.nameAt = tokens.begin();
    if (parameter.name.starts_with('"') || tokens.next() != "=")
      return;
    std::string_view token = tokens.next();
    parameter.valueAt = tokens.begin();
    std::size_t end = parameter.valueAt;
    for (; token != "," && token != ")"; token = tokens.next()) {
      if (token.empty())
        return;
      end = tokens.end();
    }
    parameter.value = source.substr(parameter.valueAt, end - parameter.valueAt);
    head.parameters.push_back(std::move(parameter));
    head.isWhole = token == ")";
  }
}

std::vector<TextHead> heddle::bundle::headsOf(std::string_view source) {
  std::vector<TextHead> heads;
  Tokens tokens(source);
  for (auto token = tokens.next(); !token.empty();) {
    const std::size_t at = tokens.begin();
    const bool begins = token == "heddle.schedule";
    token = tokens.next();
    if (!begins || token != "@")
      continue;
    std::string_view name = tokens.next();
    const bool isString = name.size() > 1 && name.front() == '"';
    TextHead head = {.name = isString
                                 ? unescaped(name.substr(1, name.size() - 2))
                                 : std::string(name),
                     .at = at,
                     .parameters = {}};
    token = tokens.next();
    if (token == "(")
      readParameters(tokens, source, head);
    heads.push_back(std::move(head));
  }
  return heads;
}

std::vector<TextParameter>
heddle::bundle::parametersOf(std::string_view source,
                             std::string_view schedule) {
  for (TextHead &head : headsOf(source))
    if (head.name == schedule)
      return std::move(head.parameters);
  return {};
}
