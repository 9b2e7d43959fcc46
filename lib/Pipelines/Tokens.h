//===- Tokens.h - The text of schedules, token by token ---------*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// MLIR keeps its lexer to itself. What is said of a text that it can't read
// needs less: where words, names, numbers, strings and other characters are.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_PIPELINES_TOKENS_H
#define HEDDLE_LIB_PIPELINES_TOKENS_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringRef.h"

#include <optional>

namespace mlir::heddle {

/// A word (`heddle.schedule`), a name with its %, @, !, # or ^, a number, a
/// string, or another character alone.
struct Token {
  size_t begin;
  llvm::StringRef text;

  size_t end() const { return begin + text.size(); }
  char first() const { return text.front(); }
  bool isWord() const { return llvm::isAlpha(first()); }
  bool isValue() const { return first() == '%'; }
};

/// Those of a text; of comments none.
llvm::SmallVector<Token> tokensOf(llvm::StringRef text);

/// The word, name or number that the text begins with, or "".
llvm::StringRef wordAt(llvm::StringRef text);

/// How many bytes of its line stand before it.
size_t columnOf(llvm::StringRef text, size_t at);

/// Whether nothing of its line stands before it.
bool beginsLine(llvm::StringRef text, size_t at);

/// A bracket that the token closes, before it.
std::optional<size_t> openedBefore(llvm::ArrayRef<Token> tokens, size_t token);

/// Where the braces are that are not closed.
llvm::SmallVector<size_t> openBraces(llvm::StringRef text);

} // namespace mlir::heddle

#endif // HEDDLE_LIB_PIPELINES_TOKENS_H
