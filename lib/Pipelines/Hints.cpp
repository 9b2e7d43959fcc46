//===- Hints.cpp - MLIR's errors in the words of schedules ----------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Hints.h"

#include "AlienWords.h"
#include "HintsOp.h"
#include "heddle/Dialect/Heddle/IR/Heddle.h"
#include "heddle/Pipelines/Reading.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Regex.h"

using namespace mlir;
using namespace mlir::heddle;

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

static bool missesName(StringRef body) {
  return body.contains(" takes named arguments: ");
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

/// What is said of a token that schedules don't have, at `place` or beside it:
/// the parser may take it for two, or for the beginning of something.
std::optional<Diagnostic> Hints::asOthersWrite(const Op &op,
                                               ArrayRef<Token> all,
                                               size_t place,
                                               DiagnosticSeverity kind) const {
  for (size_t token : {place, place - 1, place + 1})
    if (token < all.size())
      if (std::string words = alienWords(text, all, token); !words.empty()) {
        Diagnostic said(locationOf(all[token].begin), kind);
        said << words;
        return std::move(said);
      }
  return asOneWord(op, kind);
}

/// Says in words of schedules what MLIR's parser says in its own.
void Hints::sayOfMlir(const Op &op, StringRef owner, StringRef body,
                      bool isSaid, Diagnostic &said) const {
  const Token *token = op.at < op.tokens.size() ? &op.tokens[op.at] : nullptr;
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
}

/// Says what the op says, and what is written too often, or is missing,
/// besides.
void Hints::sayOfOp(const Op &op, StringRef body, bool isSaid,
                    Diagnostic &said) const {
  said << body;
  if (body.starts_with("expected ") && !body.contains("found") &&
      !body.contains(';'))
    said << (body.contains(':') ? "; found " : ", found ") << op.found(op.at);
  if (body.starts_with("this operation has no end") &&
      op.at == op.tokens.size() && reads(op, op.with(op.at, op.at, ")")))
    said << "; write ')' here";
  Diagnostic more(said.getLocation(), DiagnosticSeverity::Note);
  const bool refused = !isSaid && body.starts_with("takes no '");
  if (refused && (enclose(op, said) || move(op, said) || belongs(op, said)))
    ;
  else if (missesName(body) && op.at < op.tokens.size() &&
           (giveName(op, body.split(": ").second, said) ||
            llvm::isDigit(op.tokens[op.at].first())))
    ; // without it the op would mean something else
  else if (!isSaid && !body.starts_with("unknown ") &&
           repair(op, "", more, /*thorough=*/false))
    said.attachNote(more.getLocation()) << more.str();
  else if (refused)
    (void)drop(op, said);
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
  const SmallVector<Token> all = tokensOf(text);
  const size_t place =
      llvm::find_if(all, [&](const Token &each) { return each.begin >= at; }) -
      all.begin();
  if (auto words = asOthersWrite(op, all, place, error.getSeverity()))
    return std::move(*words);
  // What is behind the comma may be another argument, unless it begins with 0.
  std::optional<Diagnostic> number = withoutCommas(op, at, error.getSeverity());
  if (number && (!missesName(body) || text.substr(at).starts_with("0")))
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
    sayOfMlir(op, owner, body, isSaid, said);
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
    sayOfOp(op, body, isSaid, said);
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
