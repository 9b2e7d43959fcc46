//===- AlienWords.cpp - What other languages write ------------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "AlienWords.h"

#include "llvm/ADT/APFloat.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Error.h"
#include "llvm/Support/Regex.h"

using namespace mlir;
using namespace mlir::heddle;
using llvm::ArrayRef;
using llvm::SmallString;
using llvm::StringLiteral;
using llvm::StringRef;

/// A number as schedules write it: 0.5 for .5, 2000 for 2e3 and 2_000. Or "".
static std::string plainNumber(StringRef word) {
  static const llvm::Regex grouped("^[0-9][0-9_]*(\\.[0-9_]+)?$");
  if (word.contains('_') && grouped.match(word)) {
    // What is grouped does not begin with 0: 0_3 may be meant for 0.3.
    const StringRef whole = word.take_until([](char c) { return c == '.'; });
    return whole.size() > 1 && whole.starts_with("0")
               ? aNumber.str()
               : llvm::join(llvm::split(word, '_'), "");
  }
  static const llvm::Regex number("^-?([0-9]*\\.[0-9]+|[0-9]+(\\.[0-9]*)?[eE]-?"
                                  "[0-9]+)$");
  llvm::APFloat value(llvm::APFloat::IEEEdouble());
  if (!number.match(word) ||
      (llvm::isDigit(word.ltrim('-').front()) &&
       !word.contains_insensitive('e')) ||
      llvm::errorToBool(
          value.convertFromString(word, llvm::APFloat::rmNearestTiesToEven)
              .takeError()))
    return "";
  SmallString<32> text;
  value.toString(text, /*FormatPrecision=*/15, /*FormatMaxPadding=*/18);
  // What has no short form without an exponent, or is infinite.
  return text.str().find_if(llvm::isAlpha) == StringRef::npos
             ? text.str().str()
             : "it without an exponent";
}

/// What is said of the token in the middle of `0 - 3`, a range of layers; "" if
/// it is none. Of `0-3` the op itself speaks.
static std::string rangeOfLayers(ArrayRef<Token> tokens, size_t at) {
  static constexpr StringLiteral words[] = {
      "-", "..", "...", ":", "until", "till", "through", "thru", "upto"};
  const std::optional<size_t> open = openedBefore(tokens, at);
  if (!open || *open == 0 || tokens[*open - 1].text != "layers" ||
      at + 1 == tokens.size() || !llvm::is_contained(words, tokens[at].text))
    return "";
  const Token &before = tokens[at - 1], &behind = tokens[at + 1];
  if (before.end() + tokens[at].text.size() == behind.begin)
    return "";
  const StringRef first = before.text, last = behind.text;
  if (!llvm::isDigit(first.back()) || !llvm::isDigit(last.back()))
    return "";
  return ("a range of layers is written with `to`, found '" + first + " " +
          tokens[at].text + " " + last + "'; write " + first + " to " + last)
      .str();
}

std::string mlir::heddle::alienWords(StringRef text, ArrayRef<Token> tokens,
                                     size_t at) {
  const Token &token = tokens[at];
  const StringRef word = token.text;
  const StringRef next = at + 1 < tokens.size() ? tokens[at + 1].text : "";
  const bool inParentheses = openedBefore(tokens, at).has_value();
  const std::string found = ("found '" + word + "'; ").str();
  if (std::string number = plainNumber(word); !number.empty())
    return found + "write " + number;
  if (std::string range = rangeOfLayers(tokens, at); !range.empty())
    return range;
  if (inParentheses && word.trim(".-").empty())
    return (found + "write " + aNumber).str();
  if (word.starts_with("#") && word.size() > 1 && llvm::isDigit(word[1]))
    return (found + "write " + word.drop_front()).str();
  if (word.starts_with("#") || word.starts_with("--") ||
      (word == "/" && next == "*"))
    return found + "a comment begins with // and ends with its line";
  if (next == "=" && beginsLine(text, token.begin) && !inParentheses &&
      (word.front() == '$' || token.isWord()))
    return (found + "the name of a value begins with %: write %" +
            word.ltrim('$'))
        .str();
  if (word == ";")
    return found + (inParentheses ? "write a comma in its place" : "drop it");
  if (at == 0)
    return "";
  const Token &previous = tokens[at - 1];
  if (word == ":" && next == "=")
    return "found ':='; write =";
  if (word == ":" && inParentheses && previous.isWord())
    return found + "write = in its place";
  const bool twoSets = word == "," && at >= 3 && tokens[at - 2].text == "(" &&
                       tokens[at - 3].text == "pairs";
  if ((twoSets || word == "|" || word == "+" || word == "&") &&
      previous.isValue() && next.starts_with("%"))
    return (found + "give it a line of its own: %both = " +
            (word == "&" ? "intersect " : "union ") + previous.text + ", " +
            next)
        .str();
  if ((word == "+" || word == "*") && inParentheses &&
      (previous.isWord() || llvm::isDigit(previous.first())))
    return found + "numbers are written or named, not computed";
  return "";
}
