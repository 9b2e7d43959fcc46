//===- Hints.h - MLIR's errors in the words of schedules --------*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The parser is MLIR's and says what it misses in its own words: which token,
// of which dialect. Here these become sentences of schedules: what was found,
// what was expected and, where one token more, one less or another order makes
// the op a good one, what to write. Whether it does, the parser is asked.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_PIPELINES_HINTS_H
#define HEDDLE_LIB_PIPELINES_HINTS_H

#include "Tokens.h"

#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/OperationSupport.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/ADT/Twine.h"

#include <optional>
#include <string>

namespace mlir::heddle {

/// What MLIR says of a value that no op makes.
inline constexpr llvm::StringLiteral undeclared =
    "use of undeclared SSA value name";

/// The op of schedules that begins with the word, if there is one.
std::optional<RegisteredOperationName> opOfSchedules(MLIRContext *context,
                                                     llvm::StringRef word);

/// Whether the error or a note of it says what to write.
bool saysWhatToWrite(Diagnostic &error);

/// Says that a value is made further below than it is used.
void sayMadeBelow(Diagnostic &error, llvm::StringRef value, Location made);

/// Says it in other words or at another place, with its notes.
void retell(Diagnostic &error, Location at, const llvm::Twine &words);

/// While it lives, what verifiers and passes say of ops has them as schedules
/// write them: "attend: " and not "'heddle.attend' op ".
class NamesAsWritten : public ScopedDiagnosticHandler {
public:
  explicit NamesAsWritten(MLIRContext *context);
};

class Hints {
public:
  /// Of the text of a file as far as it has been read.
  Hints(MLIRContext *context, llvm::StringRef text, llvm::StringRef name)
      : context(context), text(text), name(name) {}

  /// The error, which is about what stands at `at`, with its notes.
  Diagnostic reword(Diagnostic error, size_t at) const;

private:
  class Op;
  class Repair;

  bool reads(const Op &op, llvm::StringRef changed) const;
  std::optional<std::string> asOp(const Op &op, size_t token) const;
  std::optional<std::string> asValue(const Op &op, size_t token) const;
  bool repair(const Op &op, llvm::StringRef expected, Diagnostic &error,
              bool thorough) const;
  bool move(const Op &op, Diagnostic &error) const;
  bool belongs(const Op &op, Diagnostic &error) const;
  bool enclose(const Op &op, Diagnostic &error) const;
  bool drop(const Op &op, Diagnostic &error) const;
  std::optional<Diagnostic> asOneWord(const Op &op,
                                      DiagnosticSeverity kind) const;
  std::optional<Diagnostic> withoutCommas(const Op &op, size_t at,
                                          DiagnosticSeverity kind) const;
  bool giveName(const Op &op, llvm::StringRef names, Diagnostic &error) const;
  std::optional<Diagnostic> asOthersWrite(const Op &op,
                                          llvm::ArrayRef<Token> all,
                                          size_t place,
                                          DiagnosticSeverity kind) const;
  void sayOfMlir(const Op &op, llvm::StringRef owner, llvm::StringRef body,
                 bool isSaid, Diagnostic &said) const;
  void sayOfOp(const Op &op, llvm::StringRef body, bool isSaid,
               Diagnostic &said) const;
  void sayCadence(const Op &op, Diagnostic &error) const;
  void sayUnknown(const Op &op, llvm::StringRef word, bool isSaid,
                  Diagnostic &error) const;
  Location locationOf(size_t at) const;

  MLIRContext *context;
  llvm::StringRef text, name;
};

} // namespace mlir::heddle

#endif // HEDDLE_LIB_PIPELINES_HINTS_H
