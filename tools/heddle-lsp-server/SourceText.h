//===- SourceText.h - A file as an editor counts in it ----------*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_TOOLS_HEDDLE_LSP_SERVER_SOURCETEXT_H
#define HEDDLE_TOOLS_HEDDLE_LSP_SERVER_SOURCETEXT_H

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/LSP/Protocol.h"

#include <string>
#include <vector>

namespace heddle::editor {

/// A text whose places are byte offsets here, lines and UTF-16 units in the
/// protocol.
class SourceText {
public:
  explicit SourceText(std::string text);

  llvm::StringRef text() const { return contents; }

  /// Places behind the end are the end.
  size_t offsetOf(llvm::lsp::Position position) const;
  llvm::lsp::Position positionOf(size_t offset) const;
  llvm::lsp::Range rangeOf(size_t begin, size_t end) const {
    return {positionOf(begin), positionOf(end)};
  }

  /// Of a line and a column as MLIR counts them: from 1, in bytes.
  size_t offsetOf(unsigned line, unsigned column) const;

  /// The end of the word, value, symbol or number that begins at `offset`; at
  /// least one character further.
  size_t endOfWord(size_t offset) const;

  /// The beginning of the word, value or symbol that `offset` is in or behind.
  size_t beginOfWord(size_t offset) const;

private:
  std::string contents;
  std::vector<size_t> lines; ///< where each begins
};

/// The op of a line, without prefix; its first word if it is none.
llvm::StringRef operationOf(llvm::StringRef line);

} // namespace heddle::editor

#endif // HEDDLE_TOOLS_HEDDLE_LSP_SERVER_SOURCETEXT_H
