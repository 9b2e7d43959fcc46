//===- Tokens.cpp - The text of schedules, token by token -----------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Tokens.h"

using llvm::SmallVector;
using llvm::StringRef;
using namespace mlir::heddle;

/// Behind the string whose quotation mark is at `at`; it ends with its line at
/// the latest.
static size_t endOfString(StringRef text, size_t at) {
  for (++at; at < text.size() && text[at] != '"' && text[at] != '\n'; ++at)
    at += text[at] == '\\';
  return std::min(at + 1, text.size());
}

StringRef mlir::heddle::wordAt(StringRef text) {
  size_t end = !text.empty() && StringRef("%@!#^").contains(text.front());
  while (end < text.size() &&
         (llvm::isAlnum(text[end]) || StringRef("_$.-").contains(text[end])))
    ++end;
  return text.take_front(end);
}

SmallVector<Token> mlir::heddle::tokensOf(StringRef text) {
  SmallVector<Token> tokens;
  for (size_t at = 0; at < text.size();) {
    if (llvm::isSpace(text[at])) {
      ++at;
      continue;
    }
    if (text.substr(at).starts_with("//")) {
      at = std::min(text.find('\n', at), text.size());
      continue;
    }
    const bool named = text.substr(at).starts_with("@\"");
    const size_t end =
        named || text[at] == '"'
            ? endOfString(text, at + named)
            : at + std::max<size_t>(wordAt(text.substr(at)).size(), 1);
    tokens.push_back({at, text.slice(at, end)});
    at = end;
  }
  return tokens;
}

size_t mlir::heddle::columnOf(StringRef text, size_t at) {
  return at - (text.take_front(at).rfind('\n') + 1);
}

bool mlir::heddle::beginsLine(StringRef text, size_t at) {
  const size_t column = columnOf(text, at);
  return text.slice(at - column, at).trim().empty();
}

SmallVector<size_t> mlir::heddle::openBraces(StringRef text) {
  SmallVector<size_t> open;
  for (const Token &token : tokensOf(text))
    if (token.text == "{")
      open.push_back(token.begin);
    else if (token.text == "}" && !open.empty())
      open.pop_back();
  return open;
}

std::optional<size_t> mlir::heddle::openedBefore(llvm::ArrayRef<Token> tokens,
                                                 size_t token) {
  int depth = 0;
  while (token-- > 0) {
    depth += tokens[token].text == ")";
    if (tokens[token].text == "(" && depth-- == 0)
      return token;
  }
  return std::nullopt;
}
