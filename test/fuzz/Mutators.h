//===- Mutators.h - Changes that keep a format ------------------*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_TEST_FUZZ_MUTATORS_H
#define HEDDLE_TEST_FUZZ_MUTATORS_H

#include "test/fuzz/Target.h"

#include <vector>

namespace heddle::fuzz {

/// A JSON text with a value, a key or the place of one changed: keys twice,
/// numbers at the ends of their ranges, values of another type and copies of
/// other parts of the document. Text that is no JSON: bytes changed.
std::string mutatedJson(const std::string &text, Random &random);

/// A JSON text in which a value of `other` replaces one or joins a list.
std::string crossedJson(const std::string &text, const std::string &other,
                        Random &random);

/// A text with a word, a number or a line changed, moved, repeated or dropped;
/// new words come from `words`, which may be empty, and from the text.
std::string mutatedWords(const std::string &text,
                         const std::vector<std::string> &words, Random &random);

/// A text with some lines of `other`.
std::string crossedLines(const std::string &text, const std::string &other,
                         Random &random);

/// Inputs of several files are written one after the other, "=====" on a line
/// of its own between them.
std::vector<std::string> splitParts(const std::string &input);
std::string joinParts(const std::vector<std::string> &parts);

} // namespace heddle::fuzz

#endif // HEDDLE_TEST_FUZZ_MUTATORS_H
