//===- Terms.cpp - Sets of pairs as they are stated -----------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Assembly.h"
#include "Parameters.h"

#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace mlir::heddle;
using ::heddle::bundle::SetNumber;
using ::heddle::bundle::Term;

static StringRef setName(const Term &term) {
  return ::heddle::bundle::setNames()[static_cast<size_t>(term.kind)];
}

/// "the size of window"
static std::string nameOf(const SetNumber &number, const Term &term) {
  return ("the " + Twine(number.name) + " of " + setName(term)).str();
}

LogicalResult mlir::heddle::checkTerm(EmitError emitError, const Term &term,
                                      StringRef word) {
  if (setName(term) != word)
    return emitError() << "states " << setName(term) << ", not " << word;
  if (!term.within.empty())
    return emitError() << "states what it is within; intersect is an op of its "
                          "own";
  for (const SetNumber &number : numbersOf(term.kind)) {
    const bool share = number.orShare && term.share.num > 0;
    if (share && (term.share.num > term.share.den ||
                  term.*number.number != Term().*number.number))
      return emitError() << nameOf(number, term)
                         << " is a number or a fraction of at most 1";
    if (!share &&
        failed(checkCount(emitError, nameOf(number, term), term.*number.number,
                          number.least, number.most)))
      return failure();
  }
  return success();
}

LogicalResult TermAttr::verify(EmitError emitError, Term set,
                               FlatSymbolRefAttr selection, int64_t group) {
  if (std::string why = whyNotWithin(set); !why.empty())
    return emitError() << why;
  if (readsList(set) == static_cast<bool>(selection) &&
      readsList(set) == (group > 0))
    return success();
  return emitError() << setName(set)
                     << (readsList(set)
                             ? " reads a selection with groups and names none"
                             : " reads no selection");
}

//===----------------------------------------------------------------------===//
// Text
//===----------------------------------------------------------------------===//

/// Of a schedule's op the verifier says what a number may be.
static ParseResult parseNumber(AsmParser &parser, const SetNumber &number,
                               Term &term, bool check) {
  if (number.orShare) {
    const std::string word(setName(term));
    return parseCountOrShare(parser, "the size of " + word,
                             "the fraction of " + word, term.*number.number,
                             term.share);
  }
  if (check)
    return parseCount(parser, nameOf(number, term), term.*number.number,
                      number.least, number.most);
  return NumberPlace(parser).parseInteger(term.*number.number);
}

/// `(256)`, `(0.1)`, `(64, dilation = 2)`: one that has no name is first.
static ParseResult parseNumbers(AsmParser &parser, Term &term, bool check) {
  if (numbersOf(term.kind).empty())
    return success();
  std::function<ParseResult()> lone;
  SmallVector<NamedArgument> named;
  for (const SetNumber &number : numbersOf(term.kind)) {
    auto parse = [&parser, &term, number, check] {
      return parseNumber(parser, number, term, check);
    };
    if (number.otherwise >= 0)
      term.*number.number = number.otherwise;
    if (number.named)
      named.push_back({number.name, parse, number.otherwise < 0});
    else
      lone = parse;
  }
  return parseArguments(parser, setName(term), lone, named);
}

ParseResult mlir::heddle::parseNumbers(OpAsmParser &parser, TermAttr &term,
                                       StringRef word) {
  SMLoc loc = parser.getCurrentLocation();
  Term set;
  set.kind = *::heddle::bundle::kindNamed({word.data(), word.size()});
  if (::parseNumbers(parser, set, /*check=*/false))
    return failure();
  term = parser.getChecked<TermAttr>(loc, parser.getContext(), set,
                                     FlatSymbolRefAttr(), int64_t(0));
  return success(term != nullptr);
}

void mlir::heddle::printNumbers(OpAsmPrinter &printer, Operation *,
                                TermAttr term, StringRef word) {
  printer << words(term.getSet()).substr(word.size());
}

/// "columns(...), blocks(...) or window(...)".
static std::string allWords() {
  constexpr auto names = ::heddle::bundle::setNames();
  std::string text;
  for (size_t i = 0; i < names.size(); ++i)
    text += std::string(i == 0                 ? ""
                        : i + 1 < names.size() ? ", "
                                               : " or ") +
            std::string(names[i]) +
            (::heddle::bundle::withSet(
                 {.kind = static_cast<Term::Kind>(i)},
                 [](auto set) {
                   return !::heddle::bundle::listed<decltype(set)> &&
                          decltype(set)::numbers.empty();
                 })
                 ? ""
                 : "(...)");
  return text;
}

/// A set, without what it is within.
static ParseResult parseSet(AsmParser &parser, Term &set,
                            FlatSymbolRefAttr &selection, int64_t &group) {
  SMLoc loc = parser.getCurrentLocation();
  StringRef word;
  (void)parser.parseOptionalKeyword(&word);
  auto kind = ::heddle::bundle::kindNamed({word.data(), word.size()});
  if (!kind)
    return parser.emitError(loc, "a term is " + allWords());
  set.kind = *kind;
  if (readsList(set)) {
    StringAttr name;
    std::string_view groupName = ::heddle::bundle::groupName(*kind);
    if (parser.parseLParen() || parser.parseSymbolName(name) ||
        parser.parseComma() ||
        parser.parseKeyword(StringRef(groupName.data(), groupName.size())) ||
        parser.parseEqual())
      return failure();
    const bool blocks = set.kind != ::heddle::bundle::Term::Kind::Columns;
    if (!blocks && succeeded(parser.parseOptionalKeyword("all")))
      group = ::heddle::bundle::groupOfAll;
    else if (parser.parseInteger(group))
      return failure();
    if (parser.parseRParen())
      return failure();
    selection = FlatSymbolRefAttr::get(name);
    return success();
  }
  return ::parseNumbers(parser, set, /*check=*/true);
}

static ParseResult parseTerm(AsmParser &parser, TermAttr &term) {
  SMLoc loc = parser.getCurrentLocation();
  Term set;
  FlatSymbolRefAttr selection;
  int64_t group = 0;
  if (parseSet(parser, set, selection, group))
    return failure();
  while (succeeded(parser.parseOptionalKeyword("within"))) {
    FlatSymbolRefAttr none;
    int64_t rows = 0;
    if (parseSet(parser, set.within.emplace_back(), none, rows))
      return failure();
  }
  term = parser.getChecked<TermAttr>(loc, parser.getContext(), set, selection,
                                     group);
  return success(term != nullptr);
}

static void printTerm(AsmPrinter &printer, TermAttr term) {
  const Term set = term.getSet();
  if (!readsList(set)) {
    printer << words(set);
    return;
  }
  printer << setName(set) << '(';
  printer.printSymbolName(term.getSelection().getValue());
  printer << ", " << StringRef(::heddle::bundle::groupName(set.kind)) << " = "
          << groupText(term.getGroup()) << ')';
  for (const Term &each : set.within)
    printer << " within " << words(each);
}

Attribute TermAttr::parse(AsmParser &parser, Type) {
  TermAttr term;
  if (parser.parseLess() || parseTerm(parser, term) || parser.parseGreater())
    return {};
  return term;
}

void TermAttr::print(AsmPrinter &printer) const {
  printer << '<';
  printTerm(printer, *this);
  printer << '>';
}

ParseResult mlir::heddle::parseTerms(AsmParser &parser, ArrayAttr &terms) {
  SmallVector<Attribute> parsed;
  if (failed(parser.parseOptionalKeyword("dense"))) {
    auto parseOne = [&]() -> ParseResult {
      TermAttr term;
      if (parseTerm(parser, term))
        return failure();
      parsed.push_back(term);
      return success();
    };
    if (parser.parseCommaSeparatedList(AsmParser::Delimiter::OptionalSquare,
                                       parseOne))
      return failure();
  }
  terms = parser.getBuilder().getArrayAttr(parsed);
  return success();
}

void mlir::heddle::printTerms(AsmPrinter &printer, ArrayAttr terms) {
  if (terms.empty()) {
    printer << "dense";
    return;
  }
  printer << '[';
  llvm::interleaveComma(terms.getAsRange<TermAttr>(), printer.getStream(),
                        [&](TermAttr term) { printTerm(printer, term); });
  printer << ']';
}
