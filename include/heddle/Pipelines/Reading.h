//===- Reading.h - Texts of schedules, with all their mistakes --*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What heddlec, heddle-opt and the language server say of a text, from one
// place.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_PIPELINES_READING_H
#define HEDDLE_PIPELINES_READING_H

#include "mlir/AsmParser/AsmParserState.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/OwningOpRef.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/MemoryBufferRef.h"
#include "llvm/Support/SourceMgr.h"

#include <memory>
#include <optional>
#include <set>

namespace mlir::heddle {

/// The location of the character at `offset` of the text of file `name`.
Location locationAt(MLIRContext *context, StringRef text, StringRef name,
                    size_t offset);

/// Where the first error is that the parser finds in the text; none if it reads
/// all. Nothing is said of it.
std::optional<size_t> firstError(MLIRContext *context, StringRef text);

/// A text as far as it can be read. Each mistake is an error of the context's
/// diagnostics, at its place, with what to write; what follows from another
/// mistake is not said. The text must be one that has no textProblem().
class Reading {
public:
  Reading(llvm::MemoryBufferRef buffer, MLIRContext *context);

  /// Whether there was no mistake.
  bool isGood() const { return good; }

  /// What was read, without the operations that errors are about; null if not
  /// even that could be.
  ModuleOp module() { return result ? *result : ModuleOp(); }
  OwningOpRef<ModuleOp> takeModule() { return std::move(result); }

  /// Where what was read stands; pointers into kept().
  const AsmParserState &places() const { return state; }

  /// The text with spaces where operations were left out.
  StringRef kept() const;

private:
  bool parse(bool first);
  bool mendBraces();
  bool mendHead();
  void asWritten(Diagnostic &error) const;
  void keepNames();
  std::optional<size_t> endOfUnfinished(const Diagnostic &error,
                                        size_t place) const;
  std::string unfinished(const Diagnostic &error, size_t place) const;
  std::optional<size_t> placeOf(const Diagnostic &error) const;
  void addNotes(Diagnostic &error, size_t place);
  StringRef meantBy(StringRef before, StringRef word) const;
  void noteValue(Diagnostic &error, StringRef value) const;
  bool beginsOperation(StringRef line) const;
  bool dropOperationAt(size_t line);
  LogicalResult checkOrder();
  LogicalResult verifyAll();

  MLIRContext *context;
  std::string name;
  std::string text; ///< with spaces where operations were left out
  bool good = false;
  bool mended = false;        ///< braces or heads are not as they were
  std::optional<size_t> head; ///< what is meant to be a schedule's first word
  struct Moved {
    unsigned line, column; ///< behind a head that was mended
    size_t by;
  };
  SmallVector<Moved> moved;     ///< what follows in its line
  SmallVector<size_t> newLines; ///< of this round's errors, from 0
  std::set<size_t> said;        ///< places of errors
  llvm::StringSet<> lost;       ///< values of operations that were left out
  std::unique_ptr<llvm::SourceMgr> sources;
  AsmParserState state;
  OwningOpRef<ModuleOp> result;
};

/// Warnings and errors that compiling the module's schedules to plans gives
/// beyond reading them. The module stays as it is. Says nothing of a module
/// that holds other things than schedules.
LogicalResult checkSchedules(ModuleOp module);

} // namespace mlir::heddle

#endif // HEDDLE_PIPELINES_READING_H
