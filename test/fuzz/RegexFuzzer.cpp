//===- RegexFuzzer.cpp - The patterns of a tokenizer ----------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Inputs are a pattern and a text.
//
//===----------------------------------------------------------------------===//

#include "test/fuzz/Mutators.h"

#include "runtime/text/Regex.h"
#include "runtime/text/Utf8.h"

using namespace heddle;
using namespace heddle::rt::text;

void fuzz::runInput(const std::string &input) {
  std::vector<std::string> parts = splitParts(input);
  Result<Regex> regex = Regex::compile(parts[0]);
  if (!regex)
    return;
  // A tokenizer gives a pattern no text that is not UTF-8.
  const std::string text = parts.size() > 1 ? utf8Lossy(parts[1]) : "";
  Regex::Scratch scratch(text.size());
  std::vector<Span> matches;
  if (!regex->findAll(text, scratch, matches))
    return; // a pattern that takes too long is an error
  size_t end = 0;
  for (const Span &match : matches) {
    require(match.begin >= end && match.end >= match.begin &&
                match.end <= text.size(),
            "matches are in the text and in order");
    end = match.end;
  }
}

std::string fuzz::mutated(const std::string &input, Random &random) {
  static const std::vector<std::string> words = {
      "(?i:",    "(?=",     "(?!",      "(?<=",      "(?<!",   "(?:",
      "(?>",     ")",       "[",        "[^",        "]",      "&&",
      "|",       "*",       "+",        "?",         "*?",     "++",
      "{2}",     "{0,3}",   "{,4}",     "\\s",       "\\S",    "\\d",
      "\\p{L}",  "\\P{N}",  "\\p{^Lu}", "\\p{Han}",  "\\r",    "\\n",
      "\\x{41}", "\\u0041", "\\h",      "\\R",       "\\X",    "\\b",
      "\\B",     "\\A",     "\\z",      "\\Z",       "\\G",    "^",
      "$",       ".",       "\\1",      "\\k<n>",    "(?<n>",  "(?m)",
      "(?x)",    "\\Q",     "(*FAIL)",  "[:alpha:]", "\u4f60", " ",
      "a",       "'"};
  std::vector<std::string> parts = splitParts(input);
  const size_t at = below(random, 4) ? 0 : parts.size() - 1;
  parts[at] = mutatedWords(parts[at], words, random);
  return joinParts(parts);
}

std::string fuzz::crossed(const std::string &input, const std::string &other,
                          Random &random) {
  std::vector<std::string> parts = splitParts(input), from = splitParts(other);
  const size_t cut = below(random, from[0].size() + 1);
  parts[0].insert(below(random, parts[0].size() + 1), from[0].substr(cut));
  return joinParts(parts);
}
