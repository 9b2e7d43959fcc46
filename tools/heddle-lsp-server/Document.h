//===- Document.h - What the server knows of a file -------------*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_TOOLS_HEDDLE_LSP_SERVER_DOCUMENT_H
#define HEDDLE_TOOLS_HEDDLE_LSP_SERVER_DOCUMENT_H

#include "SourceText.h"

#include "heddle/Pipelines/Reading.h"

#include "mlir/IR/MLIRContext.h"

#include <memory>
#include <optional>

namespace heddle::editor {

/// An error or a warning, and what to write in place of what it is about.
struct Finding {
  llvm::lsp::Diagnostic diagnostic;
  size_t begin, end; ///< of the word
  struct Replacement {
    size_t begin, end;
    std::string text;
  };
  std::vector<Replacement> replacements;
};

/// A file that is open in the editor, as it was when it last changed.
class Document {
public:
  Document(mlir::MLIRContext &context, llvm::lsp::URIForFile uri,
           std::string text);

  std::vector<llvm::lsp::Diagnostic> diagnostics() const;
  std::optional<llvm::lsp::Hover>
  hover(const llvm::lsp::TextDocumentPositionParams &params) const;
  std::vector<llvm::lsp::Location>
  definition(const llvm::lsp::TextDocumentPositionParams &params) const;
  std::vector<llvm::lsp::Location>
  references(const llvm::lsp::ReferenceParams &params) const;
  std::vector<llvm::lsp::CodeAction>
  actions(const llvm::lsp::CodeActionParams &params) const;
  std::vector<llvm::lsp::DocumentSymbol>
  symbols(const llvm::lsp::DocumentSymbolParams &params) const;
  llvm::lsp::CompletionList
  complete(const llvm::lsp::CompletionParams &params) const;

private:
  /// A value or symbol: where it is made and where it is used.
  struct Name {
    llvm::SMRange definition;
    llvm::ArrayRef<llvm::SMRange> uses;
    mlir::Operation *op = nullptr; ///< that makes it; null of an argument
  };

  void addFinding(mlir::Diagnostic &diagnostic);
  std::optional<Name> nameAt(size_t offset) const;
  llvm::lsp::Range rangeOf(llvm::SMRange range) const;
  size_t offsetOf(llvm::SMLoc loc) const;
  /// The name, without prefix, of the operation that has the place, the
  /// innermost one; "" if there is none.
  std::string operationAt(size_t offset) const;

  llvm::lsp::URIForFile uri;
  SourceText source;
  std::vector<Finding> findings;
  /// Null if the text is none that MLIR's parser can be given.
  std::unique_ptr<mlir::heddle::Reading> reading;
  mlir::MLIRContext &context;
};

} // namespace heddle::editor

#endif // HEDDLE_TOOLS_HEDDLE_LSP_SERVER_DOCUMENT_H
