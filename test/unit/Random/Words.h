//===- Words.h - What of the language schedules say -------------*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_TEST_UNIT_RANDOM_WORDS_H
#define HEDDLE_TEST_UNIT_RANDOM_WORDS_H

#include "mlir/IR/BuiltinOps.h"

#include <map>
#include <set>
#include <string>

namespace heddle::test {

/// The words that a schedule can say, as the dialect registers them: each op of
/// the level and its attributes, each value of its enumerations, each form and
/// part of a cadence, each operation of scores. "heddle.select rounding",
/// "keep_rule ceil", "cadence in_block", "math.tanh".
std::set<std::string> wordsOfLanguage(mlir::MLIRContext *context);

/// Adds the words of a module's schedules, as parsed. An attribute of a kind
/// that wordsOfLanguage() does not know is a word "? ...".
void countWords(mlir::ModuleOp module, std::map<std::string, int> &words);

} // namespace heddle::test

#endif // HEDDLE_TEST_UNIT_RANDOM_WORDS_H
