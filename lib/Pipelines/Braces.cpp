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

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/Twine.h"

#include <algorithm>

using llvm::SmallVector;
using llvm::StringRef;
using mlir::heddle::BraceProblem;

namespace {

bool inWord(char c) {
  return llvm::isAlnum(c) || StringRef("_.$-").contains(c);
}

class Scanner {
public:
  /// `byIndent`: a brace in the column where its schedule begins is not that of
  /// scores that begin further to the right.
  Scanner(StringRef text, bool byIndent) : text(text), byIndent(byIndent) {}

  SmallVector<BraceProblem> scan();

private:
  enum class Owner { Schedule, Scores, Other };
  struct Open {
    Owner owner;
    size_t at;   ///< of the brace, or where it should be
    size_t head; ///< where what it belongs to begins
  };

  size_t skip(size_t from) const;
  size_t skipWord(size_t from) const;
  size_t codeEnd(size_t before) const;
  size_t columnOf(size_t offset) const;
  bool beginsLine(size_t offset) const;
  std::string found(size_t offset) const;
  size_t readHead(size_t word, size_t end);
  size_t readScores(size_t word, size_t end);
  size_t readYield(size_t end);
  size_t open(Owner owner, size_t head, size_t at);
  void close(size_t before);
  void extra(size_t at);

  StringRef text;
  bool byIndent;
  SmallVector<Open> stack;
  SmallVector<BraceProblem> problems;
  std::optional<size_t> ended; ///< the brace of the latest schedule's end
  std::optional<size_t> stray; ///< what stands outside, behind it
};

/// The next character that is no blank and in no comment.
size_t Scanner::skip(size_t from) const {
  while (from < text.size()) {
    if (llvm::isSpace(text[from]))
      ++from;
    else if (text.substr(from).starts_with("//"))
      from = std::min(text.find('\n', from), text.size());
    else
      break;
  }
  return from;
}

size_t Scanner::skipWord(size_t from) const {
  while (from < text.size() && inWord(text[from]))
    ++from;
  return from;
}

/// Behind the last character before this one that is no blank and in no
/// comment.
size_t Scanner::codeEnd(size_t before) const {
  size_t end = 0;
  for (size_t at = skip(0); at < before; at = skip(at + 1))
    end = at + 1;
  return end;
}

size_t Scanner::columnOf(size_t offset) const {
  return offset - (text.take_front(offset).rfind('\n') + 1);
}

bool Scanner::beginsLine(size_t offset) const {
  return text.substr(offset - columnOf(offset), columnOf(offset))
      .trim()
      .empty();
}

std::string Scanner::found(size_t offset) const {
  if (offset >= text.size())
    return "the end of the file";
  size_t end = offset + (StringRef("%@").contains(text[offset]) ? 1 : 0);
  end = std::max(skipWord(end), offset + 1);
  return ("'" + text.slice(offset, end) + "'").str();
}

/// Goes on behind the brace at `at`; one that is not there is missed.
size_t Scanner::open(Owner owner, size_t head, size_t at) {
  stack.push_back({owner, at, head});
  if (at < text.size() && text[at] == '{')
    return at + 1;
  const bool scores = owner == Owner::Scores;
  const size_t end = codeEnd(at);
  const bool below = text.slice(end, at).contains('\n');
  problems.push_back(
      {below ? end : at, '{',
       (scores ? "expected '{' and what becomes of the logit, "
                 "found "
               : "expected '{' and the schedule's ops, found ") +
           found(at),
       head, scores ? "the scores begin here" : "the schedule begins here"});
  return at;
}

/// Misses the brace that closes the last one, before the word at `before`.
void Scanner::close(size_t before) {
  const Open last = stack.pop_back_val();
  if (last.owner == Owner::Other) {
    problems.push_back({codeEnd(before), '}',
                        "expected '}', found " + found(before), last.at,
                        "this '{' has no '}'"});
    return;
  }
  const bool scores = last.owner == Owner::Scores;
  problems.push_back(
      {codeEnd(before), '}',
       std::string("expected '}' at the end of the ") +
           (scores ? "scores" : "schedule") + ", found " +
           (found(before) == "'}'" ? "that of the schedule" : found(before)),
       last.head,
       scores ? "the scores begin here" : "the schedule begins here"});
}

/// `heddle.schedule @name (...) {`
size_t Scanner::readHead(size_t word, size_t end) {
  auto outer = std::find_if(stack.begin(), stack.end(), [](const Open &each) {
    return each.owner == Owner::Schedule;
  });
  for (auto left = stack.end() - outer; left > 0; --left)
    close(word);
  ended = stray = std::nullopt;
  size_t at = skip(end);
  const bool named = at < text.size() && text[at] == '@';
  if (named && text.substr(at + 1).starts_with("\""))
    at = skip(std::min(text.find('"', at + 2), text.size() - 1) + 1);
  else
    at = skip(skipWord(at + (named ? 1 : 0)));
  if (at < text.size() && text[at] == '(') {
    at = text.find_first_of("){", at);
    at = at == StringRef::npos ? text.size() : text[at] == ')' ? at + 1 : at;
    at = skip(at);
  }
  // Of a name that is missing or has no @ the parser speaks.
  if (!named && (at == text.size() || text[at] != '{'))
    return end;
  return open(Owner::Schedule, word, at);
}

/// `scores(%logit, ...) {`
size_t Scanner::readScores(size_t word, size_t end) {
  size_t at = skip(end);
  if (at == text.size() || text[at] != '(')
    return end;
  at = text.find_first_of("){", at);
  if (at == StringRef::npos)
    return end;
  return open(Owner::Scores, word, skip(at + (text[at] == ')' ? 1 : 0)));
}

/// `yield %y`, with a type, too, of which the parser speaks.
size_t Scanner::readYield(size_t end) {
  size_t at = skip(end);
  if (at < text.size() && text[at] == '%')
    at = skip(skipWord(at + 1));
  if (at < text.size() && text[at] == ':')
    at = skip(skipWord(skip(at + 1)));
  const Open &scores = stack.back();
  const bool closed = at < text.size() && text[at] == '}';
  if (closed && byIndent && stack.size() > 1 && beginsLine(at)) {
    const size_t column = columnOf(at);
    const size_t line = scores.head - columnOf(scores.head);
    const size_t indent = skip(line) - line;
    if (column < indent && column == columnOf(stack[stack.size() - 2].head))
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
  for (size_t at = skip(0); at < text.size(); at = skip(at)) {
    const char c = text[at];
    if (c == '"') {
      for (++at; at < text.size() && text[at] != '"' && text[at] != '\n'; ++at)
        at += text[at] == '\\';
      ++at;
      continue;
    }
    if (c == '{') {
      at = open(Owner::Other, at, at);
      continue;
    }
    if (c == '}') {
      if (stack.empty())
        extra(at);
      else if (stack.pop_back_val().owner == Owner::Schedule)
        ended = at;
      ++at;
      continue;
    }
    const size_t end = skipWord(at);
    if (end == at) {
      if (c == '%' && stack.empty() && !stray)
        stray = at;
      // No word, or the name of something.
      at = StringRef("%@!#^").contains(c) ? skipWord(at + 1) : at + 1;
      continue;
    }
    StringRef word = text.slice(at, end);
    word.consume_front("heddle.");
    const size_t begin = at;
    at = end;
    if (word == "schedule" && (text[begin] == 'h' || stack.empty()))
      at = readHead(begin, end);
    else if (word == "scores")
      at = readScores(begin, end);
    else if (word == "yield" && !stack.empty() &&
             stack.back().owner == Owner::Scores)
      at = readYield(end);
    else if (stack.empty() && !stray)
      stray = begin;
  }
  while (!stack.empty())
    close(text.size());
  return std::move(problems);
}

} // namespace

SmallVector<BraceProblem> mlir::heddle::braceProblems(StringRef text) {
  SmallVector<BraceProblem> problems = Scanner(text, /*byIndent=*/false).scan();
  if (!problems.empty())
    problems = Scanner(text, /*byIndent=*/true).scan();
  return problems;
}

SmallVector<size_t> mlir::heddle::openBraces(StringRef text) {
  SmallVector<size_t> open;
  for (size_t at = 0; at < text.size(); ++at) {
    if (text[at] == '/' && text.substr(at).starts_with("//"))
      at = std::min(text.find('\n', at), text.size());
    else if (text[at] == '{')
      open.push_back(at);
    else if (text[at] == '}' && !open.empty())
      open.pop_back();
  }
  return open;
}
