//===- Reference.h - What TableGen says of ops and words --------*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_DIALECT_HEDDLE_IR_REFERENCE_H
#define HEDDLE_DIALECT_HEDDLE_IR_REFERENCE_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"

#include <string>
#include <vector>

namespace mlir::heddle {

/// An op of the dialect, without its prefix.
struct OpReference {
  llvm::StringLiteral name, summary, description;
};

/// A row of a table in a description: `every(n, from = s)` and what it means.
/// Of an attribute, which stands in several ops, `op` is empty.
struct FormReference {
  llvm::StringLiteral op, form, meaning;
};

llvm::ArrayRef<OpReference> allOps();
llvm::ArrayRef<FormReference> allForms();

/// Null if there is no such op.
const OpReference *findOp(llvm::StringRef name);

/// The words that are written in a form: `every` and `from`, not the names of
/// values and numbers.
std::vector<llvm::StringRef> wordsOf(const FormReference &form);

/// The words of all forms, each once.
llvm::ArrayRef<llvm::StringRef> allWords();

/// The forms of an op, or of attributes, that have the word; those that begin
/// with it if there are any.
std::vector<const FormReference *> formsOf(llvm::StringRef op,
                                           llvm::StringRef word);

/// The op's, in Markdown; "" if there is none.
std::string describeOp(llvm::StringRef name);

/// The word's in the op, in Markdown; "" if no form has it.
std::string describeWord(llvm::StringRef op, llvm::StringRef word);

} // namespace mlir::heddle

#endif // HEDDLE_DIALECT_HEDDLE_IR_REFERENCE_H
