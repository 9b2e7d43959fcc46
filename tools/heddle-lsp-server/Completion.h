//===- Completion.h - What may be written at a place ------------*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The parser is asked: of all words of the dialect's reference, all values and
// all parameters those are suggested that it takes at the place. So what is
// suggested is what heddlec reads, and nothing is said twice.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_TOOLS_HEDDLE_LSP_SERVER_COMPLETION_H
#define HEDDLE_TOOLS_HEDDLE_LSP_SERVER_COMPLETION_H

#include "mlir/IR/MLIRContext.h"
#include "llvm/Support/LSP/Protocol.h"

#include <string>
#include <vector>

namespace heddle::editor {

struct Suggestion {
  std::string text;
  llvm::lsp::CompletionItemKind kind;
  std::string detail;        ///< a type, an op's summary
  std::string documentation; ///< Markdown
};

/// What may follow `text`, the part of a file in front of the word that is
/// being typed.
std::vector<Suggestion> suggestAt(mlir::MLIRContext &context,
                                  llvm::StringRef text);

} // namespace heddle::editor

#endif // HEDDLE_TOOLS_HEDDLE_LSP_SERVER_COMPLETION_H
