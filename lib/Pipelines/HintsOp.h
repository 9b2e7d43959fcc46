//===- HintsOp.h - The op that an error is about, as tokens -----*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_PIPELINES_HINTSOP_H
#define HEDDLE_LIB_PIPELINES_HINTSOP_H

#include "Hints.h"
#include "Tokens.h"
#include "heddle/Dialect/Heddle/IR/Reference.h"

#include "llvm/ADT/STLExtras.h"

namespace mlir::heddle {

/// Whether an op begins with a word that makes no value. No clause does.
bool beginsOp(MLIRContext *context, llvm::StringRef word);

/// The op of a schedule that has a token, as text.
class Hints::Op {
public:
  Op(MLIRContext *context, llvm::StringRef all, size_t place);

  /// Where a token begins in the file; behind the last one, where it ends.
  size_t begin(size_t token) const {
    return start + (token < tokens.size() ? tokens[token].begin
                    : tokens.empty()      ? 0
                                          : tokens.back().end());
  }
  /// The op with this in place of tokens [first, last).
  std::string with(size_t first, size_t last, llvm::StringRef other) const {
    const size_t from = begin(first) - start;
    const size_t to = last > first ? tokens[last - 1].end() : from;
    return (text.take_front(from) + " " + other + " " + text.substr(to)).str();
  }
  std::string textOf(size_t first, size_t last) const {
    return first < last
               ? text.slice(tokens[first].begin, tokens[last - 1].end()).str()
               : "";
  }
  bool isNumber(size_t token) const {
    return token < tokens.size() && llvm::isDigit(tokens[token].first());
  }
  /// Whether a clause begins there.
  bool beginsClause(size_t token) const {
    return token > 0 && tokens[token].isWord() &&
           llvm::is_contained(allWords(), tokens[token].text) &&
           !openedBefore(tokens, token);
  }
  /// Where the one ends that begins at `at`; `at` if none does.
  size_t endOfClause() const {
    size_t end = at;
    if (at < tokens.size() && beginsClause(at))
      do
        ++end;
      while (end < tokens.size() && !beginsClause(end));
    return end;
  }
  std::string found(size_t token) const {
    return token < tokens.size() ? ("'" + tokens[token].text + "'").str()
                                 : "the end of the op";
  }

  llvm::StringRef before, text;
  size_t start = 0;
  llvm::SmallVector<Token> tokens;
  size_t at = 0; ///< the token that the error is about; their number: the end
  bool named = false; ///< `%x =` stands in front
  bool split = false; ///< the error is about the rest of a token, parted here
};

} // namespace mlir::heddle

#endif // HEDDLE_LIB_PIPELINES_HINTSOP_H
