//===- Repairs.cpp - What makes an op of schedules a good one -------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "AlienWords.h"
#include "HintsOp.h"
#include "heddle/Dialect/Heddle/IR/Heddle.h"
#include "heddle/Pipelines/Reading.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Parser/Parser.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Regex.h"

using namespace mlir;
using namespace mlir::heddle;

/// The parser is asked of this many bytes at most: it reads what stands in
/// front of an op each time.
static constexpr size_t mostAsked = size_t(16) << 10;

//===----------------------------------------------------------------------===//
// What the parser takes
//===----------------------------------------------------------------------===//

/// Whether nothing is wrong with the op when it is changed so, but that there
/// may be values in it that are not made.
bool Hints::reads(const Op &op, StringRef changed) const {
  std::string all = (op.before + changed).str();
  if (all.size() > mostAsked)
    return false;
  if (changed.rtrim().ends_with("{") && changed.contains("scores"))
    all += " yield %none";
  all += std::string(openBraces(all).size(), '}');
  bool good = true;
  ScopedDiagnosticHandler handler(context, [&](Diagnostic &diagnostic) {
    good &= diagnostic.getSeverity() != DiagnosticSeverity::Error ||
            StringRef(diagnostic.str()).ends_with(undeclared);
  });
  ParserConfig config(context, /*verifyAfterParse=*/false);
  OwningOpRef<ModuleOp> module = parseSourceString<ModuleOp>(all, config);
  // What is left over of an op may be another one: `attend pairs(%a) dense`.
  if (!good || !module || module->getBody()->empty() ||
      changed.contains("schedule"))
    return good;
  auto schedule = dyn_cast<ScheduleOp>(module->getBody()->back());
  if (!schedule || schedule.getBody()->empty())
    return good;
  StringRef word = changed.ltrim();
  if (word.starts_with("%"))
    word = word.split('=').second.ltrim();
  word = word.take_while(
      [](char c) { return llvm::isAlnum(c) || c == '_' || c == '.'; });
  word.consume_front("heddle.");
  // Ops of scores stand in another one.
  return word == "yield" || word.contains('.') ||
         schedule.getBody()->back().getName().stripDialect() == word;
}

/// The op of which the word at the token is one, as `select` is of columns.
std::optional<std::string> Hints::asOp(const Op &op, size_t token) const {
  for (RegisteredOperationName each : context->getRegisteredOperations()) {
    if (!isOfSchedules(each) || each.hasTrait<OpTrait::OneResult>() != op.named)
      continue;
    if (reads(op, op.with(token, token, each.stripDialect())))
      return each.stripDialect().str();
  }
  return std::nullopt;
}

/// What makes a value of the words from the token on, such as every(8):
/// "cadence every(8)".
std::optional<std::string> Hints::asValue(const Op &op, size_t token) const {
  if (token >= op.tokens.size() || !op.tokens[token].isWord())
    return std::nullopt;
  size_t end = token + 1;
  if (end < op.tokens.size() && op.tokens[end].text == "(") {
    int depth = 0;
    do {
      depth += op.tokens[end].text == "(";
      depth -= op.tokens[end].text == ")";
      ++end;
    } while (depth > 0 && end < op.tokens.size());
  }
  if (auto own = opOfSchedules(context, op.tokens[token].text))
    return own->hasTrait<OpTrait::OneResult>()
               ? std::optional((op.tokens[token].text + " ...").str())
               : std::nullopt;
  const std::string words = op.textOf(token, end);
  for (RegisteredOperationName each : context->getRegisteredOperations()) {
    if (!isOfSchedules(each) || !each.hasTrait<OpTrait::OneResult>())
      continue;
    std::string made = (each.stripDialect() + " " + words).str();
    if (reads(op, "%none = " + made))
      return made;
  }
  return std::nullopt;
}

//===----------------------------------------------------------------------===//
// Tokens
//===----------------------------------------------------------------------===//

/// Looks for the token that is missing, or too many. The error has none of its
/// sentence yet but what it is about.
class Hints::Repair {
public:
  Repair(const Hints &hints, const Op &op, Diagnostic &error)
      : hints(hints), op(op), error(error), at(op.at), size(op.tokens.size()) {}

  bool here(StringRef expected);
  bool before();

private:
  bool reads(size_t first, size_t last, StringRef other) const {
    return last <= size && hints.reads(op, op.with(first, last, other));
  }
  bool missing(size_t token, StringRef word);
  bool extra(size_t token);
  bool unwrap();
  bool doubled();
  bool nested(size_t first);
  bool join();
  bool ofType();
  bool replaced();
  bool swapped(size_t first);
  void moveTo(size_t token);

  static constexpr StringLiteral brackets[] = {",", ")", "(", "="};

  const Hints &hints;
  const Op &op;
  Diagnostic &error;
  const size_t at, size;
};

/// Gives what is said so far another place.
void Hints::Repair::moveTo(size_t token) {
  Diagnostic there(hints.locationOf(op.begin(token)), error.getSeverity());
  there << error.str();
  std::swap(error, there);
}

/// Says that the word is missing before the token, if the op is good with it.
bool Hints::Repair::missing(size_t token, StringRef word) {
  if (word.empty() || !reads(token, token, word))
    return false;
  if (token != at)
    moveTo(token);
  error << "expected '" << word << "', found " << op.found(token);
  if (token < size && word != ",")
    error << "; write " << word << (word == "(" ? "" : " ")
          << op.tokens[token].text;
  else if (token < size)
    error << "; write one before it";
  else
    error << "; write it behind '" << op.tokens.back().text << "'";
  if (word == ")")
    if (auto opened = openedBefore(op.tokens, token))
      error.attachNote(hints.locationOf(op.begin(*opened)))
          << "this '(' is open";
  return true;
}

/// Says that the token is too many, if the op is good without it.
bool Hints::Repair::extra(size_t token) {
  if (at >= size || !reads(token, token + 1, ""))
    return false;
  if (token != at)
    moveTo(token);
  const std::string extra = op.textOf(token, token + 1),
                    rest = op.textOf(token + 1, size);
  error << "found '" << extra << "'";
  // Without a clause the op would mean something else.
  if (op.tokens[token].isWord() && token + 1 < size &&
      reads(token, size, rest + " " + extra)) {
    error << "; write it behind '" << rest << "'";
  } else if (token > 0 && op.tokens[token - 1].text == ")" &&
             reads(token - 1, token + 1, ", " + extra + ")")) {
    error << "; write it within the parentheses, ', " << extra << ")'";
  } else {
    error << ", which has no place here";
    // It was meant for another op.
    if (token != at || !hints.belongs(op, error))
      error << "; drop it";
  }
  return true;
}

/// A set is no function of others.
bool Hints::Repair::unwrap() {
  if (at >= size || op.tokens[at].text != "(")
    return false;
  size_t close = at + 1;
  while (close < size && op.tokens[close].text != ")")
    ++close;
  const std::string inside = op.textOf(at + 1, std::min(close, size));
  if (!reads(at, close + 1, inside))
    return false;
  error << "found '('; write "
        << (inside.empty() && at > 0 ? op.tokens[at - 1].text.str() : inside)
        << ", without parentheses";
  return true;
}

bool Hints::Repair::doubled() {
  if (at == 0 || at >= size || op.tokens[at - 1].text != op.tokens[at].text ||
      !reads(at, at + 1, ""))
    return false;
  error << "'" << op.tokens[at].text << "' is written twice; drop one";
  return true;
}

/// Of two words one says more of the other; without it the op would mean
/// something else.
bool Hints::Repair::nested(size_t first) {
  if (first + 2 > size || !op.tokens[first].isWord() ||
      !op.tokens[first + 1].isWord())
    return false;
  const std::string a = op.tokens[first].text.str(),
                    b = op.tokens[first + 1].text.str();
  for (const std::string &words : {a + "(" + b + ")", b + "(" + a + ")"})
    if (reads(first, first + 2, words)) {
      moveTo(first);
      error << "found '" << a << " " << b << "'; write " << words;
      return true;
    }
  return false;
}

/// Of numbers with nothing but space between them: says that they are one, that
/// they are several, or that there is to be one.
bool Hints::Repair::join() {
  if (op.split || !op.isNumber(at) || !op.isNumber(at - 1))
    return false;
  size_t first = at - 1, last = at + 1;
  while (op.isNumber(first - 1))
    --first;
  while (op.isNumber(last))
    ++last;
  static const llvm::Regex groups("^[1-9][0-9]?[0-9]?( +[0-9][0-9][0-9])+$");
  const std::string found = op.textOf(first, last);
  std::string one, several;
  bool isOne = groups.match(found);
  for (size_t token = first; token < last; ++token) {
    one += op.tokens[token].text;
    several += (token > first ? ", " : "") + op.tokens[token].text.str();
  }
  // A number that begins with 0 is the rest of another one.
  const bool areSeveral = reads(first, last, several);
  isOne = isOne && (!areSeveral || found.find(" 0") != std::string::npos) &&
          reads(first, last, one);
  // Of one comma others say that it is missing.
  if (areSeveral && !isOne && last == first + 2)
    return false;
  if (!areSeveral && !isOne && !reads(first, last, op.tokens[first].text))
    return false;
  moveTo(first);
  if (isOne || areSeveral)
    error << "found '" << found << "'; write " << (isOne ? one : several);
  else
    error << "expected one number, found '" << found << "'";
  return true;
}

bool Hints::Repair::ofType() {
  if (at >= size || op.tokens[at].text != ":" || !reads(at, size, ""))
    return false;
  error << "found '" << op.textOf(at, size)
        << "', and no type is written here; drop it";
  return true;
}

/// Says that the token stands in the place of another one.
bool Hints::Repair::replaced() {
  // A word between two numbers may mean anything but that both are meant.
  if (at >= size || (op.isNumber(at - 1) && op.isNumber(at + 1) &&
                     op.tokens[at].isWord() && op.tokens[at].text != "and"))
    return false;
  for (StringRef word : brackets)
    if (reads(at, at + 1, word)) {
      error << "expected '" << word << "', found " << op.found(at) << "; write "
            << word << " in its place";
      return true;
    }
  return false;
}

bool Hints::Repair::swapped(size_t first) {
  if (first + 2 > size)
    return false;
  StringRef a = op.tokens[first].text, b = op.tokens[first + 1].text;
  if (!reads(first, first + 2, (b + " " + a).str()))
    return false;
  error << "expected '" << b << " " << a << "', found '" << a << " " << b
        << "'";
  return true;
}

/// What is wrong where the error is.
bool Hints::Repair::here(StringRef expected) {
  if (missing(at, expected) || unwrap() || doubled() || nested(at) ||
      (at > 0 && nested(at - 1)) || join())
    return true;
  for (StringRef word : brackets)
    if (missing(at, word))
      return true;
  return extra(at) || ofType() || replaced() || (at > 0 && swapped(at - 1)) ||
         swapped(at);
}

/// What was wrong before and was seen late, or which word is missing.
bool Hints::Repair::before() {
  for (StringRef word : allWords())
    if (!beginsOp(hints.context, word) && missing(at, word))
      return true;
  for (size_t token = at; token-- > (op.named ? 2 : 0);) {
    for (StringRef word : brackets)
      if (missing(token, word))
        return true;
    if (extra(token))
      return true;
  }
  return false;
}

/// Says which token is missing, or too many, if the op is good with it. The
/// error has none of its sentence yet but what it is about.
bool Hints::repair(const Op &op, StringRef expected, Diagnostic &error,
                   bool thorough) const {
  Repair repair(*this, op, error);
  return repair.here(expected) || (thorough && repair.before());
}

//===----------------------------------------------------------------------===//
// Clauses
//===----------------------------------------------------------------------===//

/// Of a clause that has no place where it begins: says before or behind which
/// other one it is written, or behind which word, if the op is good so.
bool Hints::move(const Op &op, Diagnostic &error) const {
  const size_t end = op.endOfClause();
  if (end == op.at)
    return false;
  const std::string clause = op.textOf(op.at, end);
  for (size_t to = op.at; to-- > 1;) {
    if (!op.beginsClause(to))
      continue;
    const std::string between = op.textOf(to, op.at);
    if (!reads(op, op.with(to, end, clause + " " + between)))
      continue;
    error.attachNote(locationOf(op.begin(to)))
        << "write '" << clause << "' before '" << op.tokens[to].text << "'";
    return true;
  }
  for (size_t to = end; to++ < op.tokens.size();) {
    if (to < op.tokens.size() && !op.beginsClause(to))
      continue;
    const std::string between = op.textOf(end, to);
    if (!reads(op, op.with(op.at, to, between + " " + clause)))
      continue;
    error.attachNote(locationOf(op.begin(to)))
        << "write '" << clause << "' behind '" << between << "'";
    return true;
  }
  // At the beginning of a line it may be another op's.
  if (beginsLine(text, op.begin(op.at)))
    return false;
  for (StringRef word : allWords())
    if (!beginsOp(context, word) && reads(op, op.with(op.at, op.at, word))) {
      error << "; write " << word << " " << op.tokens[op.at].text;
      return true;
    }
  return false;
}

/// Says which other op the clause belongs to, if it is one alone.
bool Hints::belongs(const Op &op, Diagnostic &error) const {
  if (op.endOfClause() == op.at)
    return false;
  llvm::SmallSetVector<StringRef, 4> owners;
  for (const FormReference &form : allForms()) {
    const std::vector<StringRef> words = wordsOf(form);
    if (!form.op.empty() && !words.empty() &&
        words.front() == op.tokens[op.at].text)
      owners.insert(form.op);
  }
  if (owners.size() != 1 || owners.front() == op.tokens[op.named ? 2 : 0].text)
    return false;
  error << "; it belongs to " << owners.front();
  return true;
}

/// Of a clause that says more of the word before it: says that it is written in
/// parentheses behind that, if the op is good so. Or that the next word says
/// more of it, and a comma is missing as well. Or behind which word that is not
/// there.
bool Hints::enclose(const Op &op, Diagnostic &error) const {
  const size_t end = op.endOfClause();
  if (end == op.at || !op.tokens[op.at - 1].isWord())
    return false;
  if (op.at + 1 < op.tokens.size() && op.tokens[op.at + 1].isWord()) {
    const std::string another =
        (", " + op.tokens[op.at].text + "(" + op.tokens[op.at + 1].text + ")")
            .str();
    if (reads(op, op.with(op.at, op.at + 2, another))) {
      error << "; write '" << another << "' behind '"
            << op.tokens[op.at - 1].text << "'";
      return true;
    }
  }
  const std::string words =
      op.textOf(op.at - 1, op.at) + "(" + op.textOf(op.at, end) + ")";
  if (reads(op, op.with(op.at - 1, end, words))) {
    error << "; write " << words;
    return true;
  }
  for (StringRef word : allWords()) {
    const std::string another =
        (", " + word + "(" + op.textOf(op.at, end) + ")").str();
    if (beginsOp(context, word) || !reads(op, op.with(op.at, end, another)))
      continue;
    error << "; write '" << another << "' behind '" << op.tokens[op.at - 1].text
          << "'";
    return true;
  }
  return false;
}

/// Says that the clause is dropped, if the op is good so.
bool Hints::drop(const Op &op, Diagnostic &error) const {
  const size_t end = op.endOfClause();
  if (end == op.at || beginsLine(text, op.begin(op.at)) ||
      !reads(op, op.with(op.at, end, "")))
    return false;
  error << "; drop '" << op.textOf(op.at, end) << "'";
  return true;
}

//===----------------------------------------------------------------------===//
// Words and numbers
//===----------------------------------------------------------------------===//

/// Of a word, a name or a number that the parser takes for two, as it reads 2
/// of 2k: says what to write.
std::optional<Diagnostic> Hints::asOneWord(const Op &op,
                                           DiagnosticSeverity kind) const {
  const size_t first = op.at - (op.split && op.at > 0);
  if (op.at >= op.tokens.size() || !(op.split || op.tokens[first].isWord()))
    return std::nullopt;
  const std::string word = op.textOf(first, op.at + 1);
  std::string mended = word;
  std::replace(mended.begin(), mended.end(), '-', '_');
  Diagnostic said(locationOf(op.begin(first)), kind);
  said << "found '" << word << "'; ";
  const Token &part = op.tokens[first];
  if (part.first() == '@' || part.first() == '%') {
    // As the parser has them: of a digit and a letter it reads the digit.
    if (llvm::isDigit(word[1]))
      mended.insert(1, "_");
    if (mended == word)
      return std::nullopt;
    said << "a name has letters, digits, _, . and $, and begins with no digit: "
            "write "
         << mended;
  } else if (part.isWord()) {
    if (mended == word)
      return std::nullopt;
    if (reads(op, op.with(first, op.at + 1, mended)))
      said << "write " << mended;
    else
      said << "a word has no -, and numbers are written or named, not computed";
  } else if (llvm::isDigit(word.front()) &&
             !llvm::is_contained(allWords(), op.tokens[op.at].text)) {
    said << "write " << aNumber;
  } else {
    return std::nullopt;
  }
  return said;
}

/// Of a number with commas in it, which part arguments: says how it is written,
/// if it is read so.
std::optional<Diagnostic> Hints::withoutCommas(const Op &op, size_t at,
                                               DiagnosticSeverity kind) const {
  static const llvm::Regex groups("^[1-9][0-9]?[0-9]?(,[0-9][0-9][0-9])+$");
  // With spaces they may be arguments, unless one begins with 0.
  static const llvm::Regex apart(
      "^[1-9][0-9]?[0-9]?(, ?[0-9][0-9][0-9])*, ?0[0-9][0-9]"
      "(, ?[0-9][0-9][0-9])*$");
  static const llvm::Regex decimals("^[0-9]+,[0-9]+$");
  auto isPart = [&](size_t i) {
    return llvm::isDigit(text[i]) || text[i] == ',' ||
           (text[i] == ' ' && i > op.start && text[i - 1] == ',');
  };
  size_t begin = at;
  while (begin > op.start && isPart(begin - 1))
    --begin;
  // The end of a fraction or of a name.
  if (begin > 0 && (llvm::isAlnum(text[begin - 1]) ||
                    StringRef("_%./").contains(text[begin - 1])))
    return std::nullopt;
  size_t end = begin;
  while (end < text.size() && isPart(end))
    ++end;
  const StringRef number = text.slice(begin, end).rtrim(", ");
  end = begin + number.size();
  if (end > op.start + op.text.size() || end > mostAsked)
    return std::nullopt;
  std::string written = number.str();
  if (groups.match(number) || apart.match(number))
    llvm::erase_if(written, [](char c) { return c == ',' || c == ' '; });
  else if (decimals.match(number))
    std::replace(written.begin(), written.end(), ',', '.');
  else
    return std::nullopt;
  std::string all = (text.take_front(begin) + written +
                     text.slice(end, op.start + op.text.size()))
                        .str();
  all += std::string(openBraces(all).size(), '}');
  if (std::optional<size_t> error = firstError(context, all);
      error && *error < begin + written.size())
    return std::nullopt;
  Diagnostic said(locationOf(begin), kind);
  said << "found '" << number << "'; write " << written;
  return said;
}

/// Of a number whose argument is named: says its name, if there is one with
/// which the op is good.
bool Hints::giveName(const Op &op, StringRef names, Diagnostic &error) const {
  if (op.at >= op.tokens.size())
    return false;
  for (StringRef each : llvm::split(names, ", ")) {
    const std::string named = (each + " = " + op.tokens[op.at].text).str();
    if (!reads(op, op.with(op.at, op.at + 1, named)))
      continue;
    error << "; found " << op.found(op.at) << "; write " << named;
    return true;
  }
  return false;
}
