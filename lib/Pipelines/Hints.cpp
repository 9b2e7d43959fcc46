//===- Hints.cpp - MLIR's errors in the words of schedules ----------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Hints.h"

#include "AlienWords.h"
#include "Tokens.h"
#include "heddle/Dialect/Heddle/IR/Heddle.h"
#include "heddle/Dialect/Heddle/IR/Reference.h"
#include "heddle/Pipelines/Reading.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Parser/Parser.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Regex.h"

using namespace mlir;
using namespace mlir::heddle;

/// The parser is asked of this many bytes at most: it reads what stands in
/// front of an op each time.
static constexpr size_t mostAsked = size_t(16) << 10;

bool mlir::heddle::saysWhatToWrite(Diagnostic &error) {
  const std::string said = error.str();
  if (StringRef(said).contains("write ") ||
      StringRef(said).contains(" is now written "))
    return true;
  return llvm::any_of(error.getNotes(), [](Diagnostic &note) {
    const std::string text = note.str();
    return StringRef(text).starts_with("did you mean ") ||
           StringRef(text).starts_with("write ");
  });
}

std::optional<RegisteredOperationName>
mlir::heddle::opOfSchedules(MLIRContext *context, StringRef word) {
  word.consume_front("heddle.");
  auto op = RegisteredOperationName::lookup(("heddle." + word).str(), context);
  return op && isOfSchedules(*op) ? op : std::nullopt;
}

void mlir::heddle::sayMadeBelow(Diagnostic &error, StringRef value,
                                Location made) {
  error << value << " is made below; write its line above this one";
  error.attachNote(made) << value << " is made here";
}

void mlir::heddle::retell(Diagnostic &error, Location at, const Twine &words) {
  Diagnostic told(at, error.getSeverity());
  told << words;
  for (Diagnostic &note : error.getNotes())
    told.attachNote(note.getLocation()) << note.str();
  std::swap(error, told);
}

NamesAsWritten::NamesAsWritten(MLIRContext *context)
    : ScopedDiagnosticHandler(context, [context](Diagnostic &error) {
        const std::string said = error.str();
        auto [owner, what] = StringRef(said).split("' op ");
        if (owner.consume_front("'heddle."))
          if (opOfSchedules(context, owner) || owner == "schedule")
            retell(error, error.getLocation(), owner + ": " + what);
        return failure(); // on to whoever prints it
      }) {}

//===----------------------------------------------------------------------===//
// Ops as tokens
//===----------------------------------------------------------------------===//

namespace {

/// Whether an op begins with a word that makes no value. No clause does.
bool beginsOp(MLIRContext *context, StringRef word) {
  auto op = opOfSchedules(context, word);
  return word == "heddle.schedule" || word == "yield" ||
         word == YieldOp::getOperationName() ||
         (op && !op->hasTrait<OpTrait::OneResult>());
}

} // namespace

/// The op of a schedule that has a token, as text.
class Hints::Op {
public:
  Op(MLIRContext *context, StringRef all, size_t place);

  /// Where a token begins in the file; behind the last one, where it ends.
  size_t begin(size_t token) const {
    return start + (token < tokens.size() ? tokens[token].begin
                    : tokens.empty()      ? 0
                                          : tokens.back().end());
  }
  /// The op with this in place of tokens [first, last).
  std::string with(size_t first, size_t last, StringRef other) const {
    const size_t from = begin(first) - start;
    const size_t to = last > first ? tokens[last - 1].end() : from;
    return (text.take_front(from) + " " + other + " " + text.substr(to)).str();
  }
  std::string textOf(size_t first, size_t last) const {
    return first < last
               ? text.slice(tokens[first].begin, tokens[last - 1].end()).str()
               : "";
  }
  bool isNumber(size_t token) const {
    return token < tokens.size() && llvm::isDigit(tokens[token].first());
  }
  /// Whether a clause begins there.
  bool beginsClause(size_t token) const {
    return token > 0 && tokens[token].isWord() &&
           llvm::is_contained(allWords(), tokens[token].text) &&
           !openedBefore(tokens, token);
  }
  /// Where the one ends that begins at `at`; `at` if none does.
  size_t endOfClause() const {
    size_t end = at;
    if (at < tokens.size() && beginsClause(at))
      do
        ++end;
      while (end < tokens.size() && !beginsClause(end));
    return end;
  }
  std::string found(size_t token) const {
    return token < tokens.size() ? ("'" + tokens[token].text + "'").str()
                                 : "the end of the op";
  }

  StringRef before, text;
  size_t start = 0;
  SmallVector<Token> tokens;
  size_t at = 0; ///< the token that the error is about; their number: the end
  bool named = false; ///< `%x =` stands in front
  bool split = false; ///< the error is about the rest of a token, parted here
};

Hints::Op::Op(MLIRContext *context, StringRef all, size_t place) {
  SmallVector<Token> every = tokensOf(all);
  auto column = [&](const Token &token) { return columnOf(all, token.begin); };
  size_t first = 0, found = 0;
  while (found < every.size() && every[found].begin < place)
    ++found;
  // The parser may take for two what is one here, such as 2k.
  if (found > 0 && every[found - 1].end() > place &&
      !every[found - 1].text.contains('"')) {
    const Token whole = every[found - 1];
    const size_t size = place - whole.begin;
    every[found - 1].text = whole.text.take_front(size);
    every.insert(every.begin() + found, {place, whole.text.drop_front(size)});
    split = true;
  }
  const bool exact = found < every.size() && every[found].begin == place;
  size_t last = every.size();
  size_t indent = 0;
  for (size_t i = 0; i < every.size(); ++i) {
    const Token &token = every[i];
    const bool behindBrace =
        i > 0 && StringRef("{}").contains(every[i - 1].text);
    const bool second =
        i > 0 && every[i - 1].isValue() && beginsLine(all, every[i - 1].begin);
    const bool makes = token.isValue() && !second && i + 1 < every.size() &&
                       every[i + 1].text == "=";
    const bool line = beginsLine(all, token.begin);
    const bool begins =
        i == 0 || behindBrace || makes || token.text == "}" ||
        (beginsOp(context, token.text) && every[i - 1].text != "=") ||
        (line && column(token) <= indent);
    if (!begins)
      continue;
    // Behind the end of an op its own end is missed.
    if (i > found || (i == found && !exact)) {
      last = i;
      break;
    }
    first = i;
    if (line)
      indent = column(token);
  }
  start = first < every.size() ? every[first].begin : all.size();
  const size_t end = last > first ? every[last - 1].end() : start;
  before = all.take_front(start);
  text = all.slice(start, end);
  for (size_t i = first; i < last; ++i)
    tokens.push_back({every[i].begin - start, every[i].text});
  at = std::min(found - first, tokens.size());
  named = tokens.size() > 1 && tokens[1].text == "=";
}

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

/// Gives what is said so far another place.
static void moveTo(Diagnostic &error, Location place) {
  Diagnostic there(place, error.getSeverity());
  there << error.str();
  std::swap(error, there);
}

/// Of numbers with nothing but space between them: says that they are one, that
/// they are several, or that there is to be one.
bool Hints::join(const Op &op, Diagnostic &error) const {
  if (op.split || !op.isNumber(op.at) || !op.isNumber(op.at - 1))
    return false;
  size_t first = op.at - 1, last = op.at + 1;
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
  const bool areSeveral = reads(op, op.with(first, last, several));
  isOne = isOne && (!areSeveral || found.find(" 0") != std::string::npos) &&
          reads(op, op.with(first, last, one));
  // Of one comma others say that it is missing.
  if (areSeveral && !isOne && last == first + 2)
    return false;
  if (!areSeveral && !isOne &&
      !reads(op, op.with(first, last, op.tokens[first].text)))
    return false;
  moveTo(error, locationOf(op.begin(first)));
  if (isOne || areSeveral)
    error << "found '" << found << "'; write " << (isOne ? one : several);
  else
    error << "expected one number, found '" << found << "'";
  return true;
}

/// Says which token is missing, or too many, if the op is good with it. The
/// error has none of its sentence yet but what it is about.
bool Hints::repair(const Op &op, StringRef expected, Diagnostic &error,
                   bool thorough) const {
  const size_t at = op.at, size = op.tokens.size();
  auto inserted = [&](size_t token, StringRef word) {
    return reads(op, op.with(token, token, word));
  };
  auto dropped = [&](size_t first, size_t last) {
    return last <= size && reads(op, op.with(first, last, ""));
  };
  auto sayMissing = [&](size_t token, StringRef word) {
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
        error.attachNote(locationOf(op.begin(*opened))) << "this '(' is open";
    return true;
  };
  auto sayExtra = [&](size_t first, size_t last) {
    const std::string extra = op.textOf(first, last),
                      rest = op.textOf(last, size);
    // Without a clause the op would mean something else.
    if (op.tokens[first].isWord() && last < size &&
        reads(op, op.with(first, size, rest + " " + extra))) {
      error << "found '" << extra << "'; write it behind '" << rest << "'";
      return true;
    }
    if (first > 0 && op.tokens[first - 1].text == ")" &&
        reads(op, op.with(first - 1, last, ", " + extra + ")"))) {
      error << "found '" << extra << "'; write it within the parentheses, ', "
            << extra << ")'";
      return true;
    }
    error << "found '" << extra << "', which has no place here";
    // It was meant for another op.
    if (first != at || !belongs(op, error))
      error << "; drop it";
    return true;
  };

  if (!expected.empty() && inserted(at, expected))
    return sayMissing(at, expected);
  // A set is no function of others.
  if (at < size && op.tokens[at].text == "(") {
    size_t close = at + 1;
    while (close < size && op.tokens[close].text != ")")
      ++close;
    const std::string inside = op.textOf(at + 1, std::min(close, size));
    if (close < size && reads(op, op.with(at, close + 1, inside))) {
      error << "found '('; write "
            << (inside.empty() && at > 0 ? op.tokens[at - 1].text.str()
                                         : inside)
            << ", without parentheses";
      return true;
    }
  }
  if (at > 0 && at < size && op.tokens[at - 1].text == op.tokens[at].text &&
      dropped(at, at + 1)) {
    error << "'" << op.tokens[at].text << "' is written twice; drop one";
    return true;
  }
  auto place = [&](size_t token) {
    moveTo(error, locationOf(op.begin(token)));
  };
  // Of two words one says more of the other; without it the op would mean
  // something else.
  auto nested = [&](size_t first) {
    if (first + 2 > size || !op.tokens[first].isWord() ||
        !op.tokens[first + 1].isWord())
      return false;
    const std::string a = op.tokens[first].text.str(),
                      b = op.tokens[first + 1].text.str();
    for (const std::string &words : {a + "(" + b + ")", b + "(" + a + ")"})
      if (reads(op, op.with(first, first + 2, words))) {
        place(first);
        error << "found '" << a << " " << b << "'; write " << words;
        return true;
      }
    return false;
  };
  if (nested(at) || (at > 0 && nested(at - 1)))
    return true;
  if (join(op, error))
    return true;
  static constexpr StringLiteral brackets[] = {",", ")", "(", "="};
  for (StringRef word : brackets)
    if (inserted(at, word))
      return sayMissing(at, word);
  if (at < size && dropped(at, at + 1))
    return sayExtra(at, at + 1);
  if (at < size && op.tokens[at].text == ":" && dropped(at, size)) {
    error << "found '" << op.textOf(at, size)
          << "', and no type is written here; drop it";
    return true;
  }
  // A word between two numbers may mean anything but that both are meant.
  const bool ofNumbers = op.isNumber(at - 1) && op.isNumber(at + 1) &&
                         op.tokens[at].isWord() && op.tokens[at].text != "and";
  for (StringRef word : brackets)
    if (at < size && !ofNumbers && reads(op, op.with(at, at + 1, word))) {
      error << "expected '" << word << "', found " << op.found(at) << "; write "
            << word << " in its place";
      return true;
    }
  auto swapped = [&](size_t first) {
    if (first + 2 > size)
      return false;
    StringRef a = op.tokens[first].text, b = op.tokens[first + 1].text;
    if (!reads(op, op.with(first, first + 2, (b + " " + a).str())))
      return false;
    error << "expected '" << b << " " << a << "', found '" << a << " " << b
          << "'";
    return true;
  };
  if ((at > 0 && swapped(at - 1)) || swapped(at))
    return true;
  if (!thorough)
    return false;
  for (StringRef word : allWords())
    if (!beginsOp(context, word) && inserted(at, word))
      return sayMissing(at, word);
  // What was wrong before was seen late.
  for (size_t token = at; token-- > (op.named ? 2 : 0);) {
    for (StringRef word : brackets)
      if (inserted(token, word)) {
        place(token);
        return sayMissing(token, word);
      }
    if (at < size && dropped(token, token + 1)) {
      place(token);
      return sayExtra(token, token + 1);
    }
  }
  return false;
}

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
// Sentences
//===----------------------------------------------------------------------===//

Location Hints::locationOf(size_t at) const {
  return locationAt(context, text, name, at);
}

/// "a set of pairs", for '!heddle.pairs'.
static StringRef typeInWords(StringRef type) {
  type = type.trim("'!");
  type.consume_front("heddle.");
  return llvm::StringSwitch<StringRef>(type)
      .Case("pairs", "a set of pairs")
      .Case("positions", "a set of positions")
      .Case("cadence", "a cadence")
      .Default(type);
}

/// What MLIR expects, in words: "a value, such as %cols" for "SSA operand".
static std::string inWords(StringRef expected) {
  if (expected.consume_front("'")) {
    StringRef token = expected.take_until([](char c) { return c == '\''; });
    return ("'" + token + "'").str();
  }
  return llvm::StringSwitch<std::string>(expected)
      .StartsWith("SSA operand", "a value, such as %cols")
      .StartsWith("operation name", "an op")
      .StartsWith("valid keyword", "a word")
      .StartsWith("valid ssa identifier", "a value's name, such as %cols")
      .StartsWith("integer value", "an integer")
      .StartsWith("attribute value", "a number")
      .StartsWith("floating point", "a number")
      .Default(expected.str());
}

/// The token that is expected, if it is one: ")" of "')' in argument list".
static StringRef tokenIn(StringRef expected) {
  if (!expected.consume_front("'"))
    return "";
  return expected.take_until([](char c) { return c == '\''; });
}

static bool asksForValue(StringRef body) {
  return body.starts_with("expected a value, ") ||
         body.starts_with("expected SSA operand");
}

/// Whether it is the parser's own sentence, not one of schedules.
static bool isOfMlir(StringRef body) {
  static const llvm::Regex words(
      "^(unexpected character|invalid SSA name|expected ('[^']+'|SSA |valid "
      "|integer |attribute value|floating point|operation name|.*type|"
      "identifier|bare identifier|string|symbol))");
  return words.match(body) && !body.contains("found") && !body.contains(';') &&
         !body.contains(" or ");
}

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

/// Says which cadences the schedule has for the `on` that is missing.
void Hints::sayCadence(const Op &op, Diagnostic &error) const {
  SmallVector<std::string> made;
  const SmallVector<Token> all = tokensOf(op.before);
  for (size_t i = 0; i < all.size(); ++i)
    if (all[i].text == "heddle.schedule")
      made.clear();
    else if (all[i].text == "cadence" && i >= 2 && all[i - 2].isValue())
      made.push_back("on " + all[i - 2].text.str());
  if (made.empty())
    error << "; write a cadence above, such as %often = cadence every(8), and "
             "on %often here";
  else
    error << "; write " << llvm::join(made, " or ");
}

/// Says of a word that is no op what it is; `isSaid`: what is meant is said.
void Hints::sayUnknown(const Op &op, StringRef word, bool isSaid,
                       Diagnostic &error) const {
  StringRef bare = word;
  bare.consume_front("heddle.");
  const bool asked = !isSaid && op.at < op.tokens.size();
  std::optional<std::string> made;
  if (openBraces(op.before).empty() && beginsOp(context, bare))
    error << bare
          << " stands outside of a schedule; write it between the "
             "braces of one";
  else if (asked && (made = asOp(op, op.at)))
    error << "expected an op, found '" << word << "'; write " << *made << " "
          << word;
  else if (asked && reads(op, op.with(op.at, op.at + 1, "")))
    error << "expected an op, found '" << word << "'; drop it";
  else
    error << "there is no op '" << word << "'";
}

Diagnostic Hints::reword(Diagnostic error, size_t at) const {
  const std::string whole = error.str();
  StringRef body = whole, owner;
  static const llvm::Regex ofOp("^custom op '([^']+)' ");
  SmallVector<StringRef, 4> parts;
  const bool unknown =
      body.starts_with("custom op '") && body.ends_with("' is unknown");
  if (ofOp.match(whole, &parts) && !unknown) {
    owner = parts[1];
    body = StringRef(whole).drop_front(parts[0].size());
    owner.consume_front("heddle.");
  }
  const Op op(context, text, at);
  // The parser may take it for two, or for the beginning of something.
  const SmallVector<Token> all = tokensOf(text);
  const size_t place =
      llvm::find_if(all, [&](const Token &each) { return each.begin >= at; }) -
      all.begin();
  for (size_t token : {place, place - 1, place + 1})
    if (token < all.size())
      if (std::string words = alienWords(text, all, token); !words.empty()) {
        Diagnostic said(locationOf(all[token].begin), error.getSeverity());
        said << words;
        return said;
      }
  if (std::optional<Diagnostic> word = asOneWord(op, error.getSeverity()))
    return std::move(*word);
  // What is behind the comma may be another argument, unless it begins with 0.
  const bool isNameMissing = body.contains(" takes named arguments: ");
  std::optional<Diagnostic> number = withoutCommas(op, at, error.getSeverity());
  if (number && (!isNameMissing || text.substr(at).starts_with("0")))
    return std::move(*number);
  // That is asked below.
  const bool atEnd = body.consume_front("expected the end of the op");
  const bool isSaid = !atEnd && saysWhatToWrite(error);
  Diagnostic said(error.getLocation(), error.getSeverity());
  // What is no longer written so is not an op of today.
  if (!owner.empty() && !body.starts_with("heddle.") &&
      !body.starts_with((owner + " ").str()))
    said << owner << ": ";
  static const llvm::Regex ofType("^use of value '([^']+)' expects different "
                                  "type than prior uses: ('[^']+') vs "
                                  "('[^']+')");
  static const llvm::Regex twice("^redefinition of SSA value '([^']+)'");
  const Token *token = op.at < op.tokens.size() ? &op.tokens[op.at] : nullptr;
  if (unknown) {
    sayUnknown(op, StringRef(whole).split('\'').second.split('\'').first,
               isSaid, said);
  } else if (body == undeclared) {
    StringRef value = token ? token->text : "";
    const auto *made =
        std::find_if(all.begin() + place, all.end(), [&](const Token &each) {
          return each.text == value && beginsLine(text, each.begin);
        });
    if (made == all.end())
      said << "no value " << value << " is made above";
    else
      sayMadeBelow(said, value, locationOf(made->begin));
  } else if (ofType.match(body, &parts)) {
    said << parts[1] << " is " << typeInWords(parts[3]) << ", and "
         << typeInWords(parts[2]) << " is expected here";
  } else if (twice.match(body, &parts)) {
    said << parts[1] << " is made twice; give one of them another name";
  } else if (body.starts_with("operation defines ")) {
    said << "an op makes one value; give it one name";
  } else if (body == "cannot name an operation with no results") {
    said << (op.tokens.size() > 2 ? op.tokens[2].text : "the op")
         << " makes no value; drop '" << op.textOf(0, 2) << "'";
  } else if (std::optional<std::string> made;
             !isSaid && asksForValue(body) && (made = asValue(op, op.at))) {
    StringRef word = token->text;
    said << "expected a value, found '" << word
         << "'; give it a line of its own, %" << word << " = " << *made
         << ", and write %" << word << " here";
  } else if (isOfMlir(body)) {
    StringRef expected = body;
    const bool isExpected = expected.consume_front("expected ");
    if (token && token->text.front() == '@' && openBraces(op.before).empty()) {
      said << "expected 'heddle.schedule', found '" << token->text
           << "'; write heddle.schedule " << token->text;
    } else if (token && owner == "schedule" &&
               (token->text == "[" || token->text == "<")) {
      const size_t end = op.tokens.size() - (op.tokens.back().text == "{");
      const bool closed = StringRef("]>").contains(op.tokens[end - 1].text);
      said << "found '" << token->text
           << "'; parameters stand in parentheses: write ("
           << op.textOf(op.at + 1, end - closed) << ")";
    } else if (token && token->text == "=" && op.at == 0) {
      said << "expected the name of a value, found '='; write one before it, "
              "such as %cols";
    } else if (isSaid || !repair(op, tokenIn(expected), said,
                                 /*thorough=*/true)) {
      if (isExpected)
        said << "expected " << inWords(expected) << ", ";
      said << "found " << op.found(op.at)
           << (isExpected ? "" : ", which has no place here");
      if (op.at == op.tokens.size() && tokenIn(expected) == "on")
        sayCadence(op, said);
      else
        (void)(isSaid || move(op, said));
    }
  } else if (atEnd && reads(op, op.with(op.at, op.at, "on"))) {
    said << "expected 'on', found " << op.found(op.at) << "; write on "
         << token->text;
  } else if (atEnd) {
    Diagnostic more(error.getLocation(), DiagnosticSeverity::Note);
    const bool isMended = repair(op, "", more, /*thorough=*/false);
    said << "expected the end of the op"
         << (isMended ? ", found " + op.found(op.at) : body.str());
    if (isMended)
      said.attachNote(more.getLocation()) << more.str();
  } else {
    said << body;
    if (body.starts_with("expected ") && !body.contains("found") &&
        !body.contains(';'))
      said << (body.contains(':') ? "; found " : ", found ") << op.found(op.at);
    if (body.starts_with("this operation has no end") &&
        op.at == op.tokens.size() && reads(op, op.with(op.at, op.at, ")")))
      said << "; write ')' here";
    // What is written too often, or is missing, besides.
    Diagnostic more(error.getLocation(), DiagnosticSeverity::Note);
    const bool refused = !isSaid && body.starts_with("takes no '");
    if (refused && (enclose(op, said) || move(op, said) || belongs(op, said)))
      ;
    else if (isNameMissing && token &&
             (giveName(op, body.split(": ").second, said) ||
              llvm::isDigit(token->first())))
      ; // without it the op would mean something else
    else if (!isSaid && !body.starts_with("unknown ") &&
             repair(op, "", more, /*thorough=*/false))
      said.attachNote(more.getLocation()) << more.str();
    else if (refused)
      (void)drop(op, said);
  }
  for (Diagnostic &note : error.getNotes()) {
    const std::string words = note.str();
    said.attachNote(note.getLocation())
        << (words == "prior use here" ? parts[1].str() + " is made here"
            : words == "previously defined here" ? "the first one is here"
                                                 : words);
  }
  if (number)
    said.attachNote(number->getLocation())
        << number->str() << " if it is one number";
  return said;
}
