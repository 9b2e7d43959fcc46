//===- TextMutator.cpp - Changes of lines and words -----------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "test/fuzz/Mutators.h"

#include <algorithm>
#include <cctype>

using namespace heddle::fuzz;

namespace {

enum class Kind { Space, Number, Word, Mark };

Kind kindOf(char c) {
  const auto byte = static_cast<unsigned char>(c);
  if (std::isspace(byte))
    return Kind::Space;
  if (std::isdigit(byte))
    return Kind::Number;
  return std::isalpha(byte) || c == '_' || c == '@' || c == '%' || byte >= 0x80
             ? Kind::Word
             : Kind::Mark;
}

/// Runs of white space, digits and letters; all other characters one by one.
std::vector<std::string> wordsOf(const std::string &text) {
  std::vector<std::string> words;
  for (size_t at = 0; at < text.size();) {
    const Kind kind = kindOf(text[at]);
    size_t end = at + 1;
    while (kind != Kind::Mark && end < text.size() && kindOf(text[end]) == kind)
      ++end;
    words.push_back(text.substr(at, end - at));
    at = end;
  }
  return words;
}

std::vector<std::string> linesOf(const std::string &text) {
  std::vector<std::string> lines;
  for (size_t at = 0; at < text.size();) {
    size_t end = std::min(text.find('\n', at), text.size() - 1) + 1;
    lines.push_back(text.substr(at, end - at));
    at = end;
  }
  return lines;
}

std::string join(const std::vector<std::string> &pieces) {
  std::string text;
  for (const std::string &piece : pieces)
    text += piece;
  return text;
}

std::string otherNumber(const std::string &number, Random &random) {
  static const char *const numbers[] = {
      "0",   "1",     "2",          "16",         "31",
      "128", "65536", "2147483647", "2147483648", "9223372036854775807",
      "1.5", "0.1",   "1/3",        "1e-3",       "18446744073709551616"};
  if (below(random, 3) == 0 && number.size() < 9) {
    const long step = below(random, 2) ? 1 : -1;
    return std::to_string(std::stol(number) + step);
  }
  return numbers[below(random, std::size(numbers))];
}

/// Moves, repeats, drops or swaps pieces.
void rearrange(std::vector<std::string> &pieces, Random &random) {
  const size_t at = below(random, pieces.size());
  const size_t other = below(random, pieces.size());
  switch (below(random, 4)) {
  case 0:
    pieces.erase(pieces.begin() + static_cast<long>(at));
    return;
  case 1: {
    std::string copy = pieces[other];
    pieces.insert(pieces.begin() + static_cast<long>(at), std::move(copy));
    return;
  }
  case 2:
    std::swap(pieces[at], pieces[other]);
    return;
  default:
    pieces[at] = pieces[other];
  }
}

} // namespace

std::string
heddle::fuzz::mutatedWords(const std::string &text,
                           const std::vector<std::string> &dictionary,
                           Random &random) {
  if (text.empty() || below(random, 20) == 0)
    return changeBytes(text);
  if (below(random, 4) == 0) {
    std::vector<std::string> lines = linesOf(text);
    rearrange(lines, random);
    return join(lines);
  }
  std::vector<std::string> words = wordsOf(text);
  const size_t at = below(random, words.size());
  const bool known = !dictionary.empty() && below(random, 2);
  if (kindOf(words[at][0]) == Kind::Number && below(random, 4))
    words[at] = otherNumber(words[at], random);
  else if (known && below(random, 2))
    words[at] = dictionary[below(random, dictionary.size())];
  else if (known)
    words.insert(words.begin() + static_cast<long>(at),
                 dictionary[below(random, dictionary.size())]);
  else
    rearrange(words, random);
  return join(words);
}

std::string heddle::fuzz::crossedLines(const std::string &text,
                                       const std::string &other,
                                       Random &random) {
  std::vector<std::string> lines = linesOf(text), from = linesOf(other);
  if (from.empty())
    return text;
  const size_t first = below(random, from.size());
  const size_t count =
      1 + below(random, std::min<size_t>(4, from.size() - first));
  lines.insert(lines.begin() +
                   static_cast<long>(below(random, lines.size() + 1)),
               from.begin() + static_cast<long>(first),
               from.begin() + static_cast<long>(first + count));
  return join(lines);
}

static constexpr std::string_view between = "\n=====\n";

std::vector<std::string> heddle::fuzz::splitParts(const std::string &input) {
  std::vector<std::string> parts;
  for (size_t at = 0;;) {
    const size_t end = input.find(between, at);
    parts.push_back(input.substr(at, end - at));
    if (end == input.npos)
      return parts;
    at = end + between.size();
  }
}

std::string heddle::fuzz::joinParts(const std::vector<std::string> &parts) {
  std::string input;
  for (size_t i = 0; i < parts.size(); ++i)
    input += (i ? std::string(between) : "") + parts[i];
  return input;
}
