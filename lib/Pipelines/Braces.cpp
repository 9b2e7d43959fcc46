//===- Braces.cpp - Braces that a schedule's text lacks -------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The parser misses a brace where the text ends, or takes what follows for what
// it is not. Here words say what a brace belongs to: no schedule stands in
// another one, and scores end behind their yield.
//
//===----------------------------------------------------------------------===//

#include "Braces.h"

#include "Tokens.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/Twine.h"

using llvm::ArrayRef;
using llvm::SmallVector;
using llvm::StringRef;
using namespace mlir::heddle;

namespace {

class Scanner {
public:
  /// `byIndent`: a brace in the column where its schedule begins is not that of
  /// scores that begin further to the right.
  Scanner(StringRef text, ArrayRef<Token> tokens, bool byIndent)
      : text(text), tokens(tokens), byIndent(byIndent) {}

  SmallVector<BraceProblem> scan();

private:
  enum class Owner { Schedule, Scores, Other };
  struct Open {
    Owner owner;
    size_t at;   ///< of the brace, or where it should be
    size_t head; ///< where what it belongs to begins
  };

  // Tokens by their number; the one behind the last is the end of the text.
  size_t placeOf(size_t token) const {
    return token < tokens.size() ? tokens[token].begin : text.size();
  }
  size_t endBefore(size_t token) const {
    return token > 0 ? tokens[token - 1].end() : 0;
  }
  StringRef textOf(size_t token) const {
    return token < tokens.size() ? tokens[token].text : "";
  }
  std::string found(size_t token) const {
    return token < tokens.size() ? ("'" + tokens[token].text + "'").str()
                                 : "the end of the file";
  }

  size_t behindParentheses(size_t token) const;
  size_t readHead(size_t word);
  size_t readScores(size_t word);
  size_t readYield(size_t word);
  size_t open(Owner owner, size_t head, size_t token);
  void close(size_t before);
  void extra(size_t at);

  StringRef text;
  ArrayRef<Token> tokens;
  bool byIndent;
  SmallVector<Open> stack;
  SmallVector<BraceProblem> problems;
  std::optional<size_t> ended; ///< the brace of the latest schedule's end
  std::optional<size_t> stray; ///< what stands outside, behind it
};

/// Behind the ')' of the '(' at the token, or at the '{' that comes first. Of
/// other brackets the parser speaks.
size_t Scanner::behindParentheses(size_t token) const {
  int depth = 0;
  for (; token < tokens.size() && textOf(token) != "{"; ++token) {
    depth += StringRef("([<").contains(textOf(token));
    if (StringRef(")]>").contains(textOf(token)) && --depth <= 0)
      return token + 1;
  }
  return token;
}

/// Goes on behind the brace at the token; one that is not there is missed.
size_t Scanner::open(Owner owner, size_t head, size_t token) {
  const size_t at = placeOf(token);
  stack.push_back({owner, at, placeOf(head)});
  if (textOf(token) == "{")
    return token + 1;
  const bool scores = owner == Owner::Scores;
  const size_t end = endBefore(token);
  const bool below = text.slice(end, at).contains('\n');
  problems.push_back(
      {below ? end : at, '{',
       (scores ? "expected '{' and what becomes of the logit, "
                 "found "
               : "expected '{' and the schedule's ops, found ") +
           found(token),
       placeOf(head),
       scores ? "the scores begin here" : "the schedule begins here"});
  return token;
}

/// Misses the brace that closes the last one, before the token.
void Scanner::close(size_t before) {
  const Open last = stack.pop_back_val();
  const size_t at = endBefore(before);
  if (last.owner == Owner::Other) {
    problems.push_back({at, '}', "expected '}', found " + found(before),
                        last.at, "this '{' has no '}'"});
    return;
  }
  const bool scores = last.owner == Owner::Scores;
  problems.push_back(
      {at, '}',
       std::string("expected '}' at the end of the ") +
           (scores ? "scores" : "schedule") + ", found " +
           (textOf(before) == "}" ? "that of the schedule" : found(before)),
       last.head,
       scores ? "the scores begin here" : "the schedule begins here"});
}

/// `heddle.schedule @name (...) {`
size_t Scanner::readHead(size_t word) {
  auto outer = llvm::find_if(
      stack, [](const Open &each) { return each.owner == Owner::Schedule; });
  for (auto left = stack.end() - outer; left > 0; --left)
    close(word);
  ended = stray = std::nullopt;
  size_t at = word + 1;
  const bool named = textOf(at).starts_with("@");
  if (named || (at < tokens.size() && tokens[at].isWord()))
    ++at;
  if (at < tokens.size() && StringRef("([<").contains(textOf(at)))
    at = behindParentheses(at);
  // Of a name that is missing or has no @ the parser speaks, and of parameters
  // that have no parenthesis.
  if (named && textOf(at + 1) == "=" && tokens[at].isWord())
    return word + 1;
  return named || textOf(at) == "{" ? open(Owner::Schedule, word, at)
                                    : word + 1;
}

/// `scores(%logit, ...) {`
size_t Scanner::readScores(size_t word) {
  const size_t at = behindParentheses(word + 1);
  return textOf(word + 1) == "(" && at < tokens.size()
             ? open(Owner::Scores, word, at)
             : word + 1;
}

/// `yield %y`, with a type, too, of which the parser speaks.
size_t Scanner::readYield(size_t word) {
  size_t at = word + 1;
  at += textOf(at).starts_with("%");
  if (textOf(at) == ":")
    at += 2;
  at = std::min(at, tokens.size());
  // Of what is none of an op the parser speaks.
  if (at < tokens.size() && !tokens[at].isWord() && !tokens[at].isValue() &&
      textOf(at) != "}")
    return at;
  const Open &scores = stack.back();
  const bool closed = textOf(at) == "}";
  if (closed && byIndent && stack.size() > 1 && beginsLine(text, placeOf(at))) {
    const size_t column = columnOf(text, placeOf(at));
    StringRef line = text.substr(scores.head - columnOf(text, scores.head));
    const size_t indent = line.size() - line.ltrim().size();
    if (column < indent &&
        column == columnOf(text, stack[stack.size() - 2].head))
      close(at);
  } else if (!closed) {
    close(at);
  }
  return at;
}

void Scanner::extra(size_t at) {
  if (!stray || !ended) {
    problems.push_back({at, 0, "this '}' closes nothing; drop it"});
    return;
  }
  // Others may have been found between the two.
  auto *behind = llvm::find_if(
      problems, [&](const BraceProblem &each) { return each.at > *ended; });
  problems.insert(behind,
                  {*ended, 0,
                   "this '}' ends the schedule, and ops follow it; drop it",
                   *stray, "they begin here"});
  ended = stray = std::nullopt;
}

SmallVector<BraceProblem> Scanner::scan() {
  size_t at = 0;
  while (at < tokens.size() && problems.size() < mostBraceProblems) {
    const Token &token = tokens[at];
    StringRef word = token.text;
    word.consume_front("heddle.");
    if (word == "schedule" && (word != token.text || stack.empty())) {
      at = readHead(at);
      continue;
    }
    if (word == "scores") {
      at = readScores(at);
      continue;
    }
    if (word == "yield" && !stack.empty() &&
        stack.back().owner == Owner::Scores) {
      at = readYield(at);
      continue;
    }
    if (word == "{") {
      at = open(Owner::Other, at, at);
      continue;
    }
    if (word != "}") {
      if (stack.empty() && !stray && (token.isWord() || token.isValue()))
        stray = token.begin;
    } else if (stack.empty()) {
      extra(token.begin);
    } else if (stack.pop_back_val().owner == Owner::Schedule) {
      ended = token.begin;
    }
    ++at;
  }
  while (!stack.empty() && problems.size() < mostBraceProblems)
    close(tokens.size());
  return std::move(problems);
}

} // namespace

SmallVector<BraceProblem> mlir::heddle::braceProblems(StringRef text) {
  const SmallVector<Token> tokens = tokensOf(text);
  SmallVector<BraceProblem> problems = Scanner(text, tokens, false).scan();
  if (!problems.empty())
    problems = Scanner(text, tokens, /*byIndent=*/true).scan();
  return problems;
}
