//===- Reference.cpp - What TableGen says of ops and words ----------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/Dialect/Heddle/IR/Reference.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir::heddle;
using llvm::StringRef;

static constexpr OpReference ops[] = {
#define HEDDLE_OP(NAME, SUMMARY, DESCRIPTION) {NAME, SUMMARY, DESCRIPTION},
#define HEDDLE_FORM(OP, FORM, MEANING)
#include "Reference.inc"
#undef HEDDLE_OP
#undef HEDDLE_FORM
};

static constexpr FormReference forms[] = {
#define HEDDLE_OP(NAME, SUMMARY, DESCRIPTION)
#define HEDDLE_FORM(OP, FORM, MEANING) {OP, FORM, MEANING},
#include "Reference.inc"
#undef HEDDLE_OP
#undef HEDDLE_FORM
};

llvm::ArrayRef<OpReference> mlir::heddle::allOps() { return ops; }
llvm::ArrayRef<FormReference> mlir::heddle::allForms() { return forms; }

const OpReference *mlir::heddle::findOp(StringRef name) {
  auto *found = llvm::find_if(ops, [&](auto &op) { return op.name == name; });
  return found == std::end(ops) ? nullptr : found;
}

std::vector<StringRef> mlir::heddle::wordsOf(const FormReference &form) {
  std::vector<StringRef> words;
  StringRef rest = form.form;
  while (!rest.empty()) {
    StringRef word =
        rest.take_while([](char c) { return llvm::isAlnum(c) || c == '_'; });
    const bool isValue = rest.data() != form.form.data() &&
                         StringRef("%@").contains(rest.data()[-1]);
    // Numbers are one letter.
    if (word.size() > 1 && !isValue && !llvm::isDigit(word.front()))
      words.push_back(word);
    rest = rest.drop_front(std::max<size_t>(word.size(), 1));
  }
  return words;
}

llvm::ArrayRef<StringRef> mlir::heddle::allWords() {
  static const auto words = [] {
    llvm::SetVector<StringRef> found;
    for (const FormReference &form : forms)
      found.insert_range(wordsOf(form));
    return found;
  }();
  return words.getArrayRef();
}

std::vector<const FormReference *> mlir::heddle::formsOf(StringRef op,
                                                         StringRef word) {
  std::vector<const FormReference *> first, others;
  for (const FormReference &form : forms) {
    if (!form.op.empty() && form.op != op)
      continue;
    std::vector<StringRef> words = wordsOf(form);
    if (!words.empty() && words.front() == word)
      first.push_back(&form);
    else if (llvm::is_contained(words, word))
      others.push_back(&form);
  }
  return first.empty() ? others : first;
}

std::string mlir::heddle::describeOp(StringRef name) {
  const OpReference *op = findOp(name);
  if (!op)
    return "";
  return ("`heddle." + name + "`: " + op->summary + "\n\n" + op->description)
      .str();
}

std::string mlir::heddle::describeWord(StringRef op, StringRef word) {
  std::string text;
  for (const FormReference *form : formsOf(op, word))
    text += ("- `" + form->form + "`: " + form->meaning + "\n").str();
  return text;
}
