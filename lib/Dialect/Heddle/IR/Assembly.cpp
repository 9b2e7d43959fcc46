//===- Assembly.cpp - Parts of the textual form ---------------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Assembly.h"
#include "bundle/Manifest.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

#include <charconv>
#include <numeric>

using namespace mlir;
using namespace mlir::heddle;

//===----------------------------------------------------------------------===//
// Numbers
//===----------------------------------------------------------------------===//

LogicalResult mlir::heddle::checkGroup(EmitError emitError, int64_t group) {
  if (group >= minGroup && group <= maxGroup && llvm::isPowerOf2_64(group))
    return success();
  return emitError() << "a group must be a power of two from " << minGroup
                     << " to " << maxGroup << " rows, found " << group;
}

LogicalResult mlir::heddle::checkCount(EmitError emitError, StringRef what,
                                       int64_t value) {
  if (value < 1)
    return emitError() << what << " must be at least 1, found " << value;
  if (value > ::heddle::bundle::maxCount)
    return emitError() << what << " must be at most "
                       << ::heddle::bundle::maxCount << ", found " << value;
  return success();
}

/// Reads an integer and reports a value out of range at its place.
static ParseResult parseCount(AsmParser &parser, StringRef what,
                              int64_t &value) {
  SMLoc loc = parser.getCurrentLocation();
  if (parser.parseInteger(value))
    return failure();
  return checkCount([&] { return parser.emitError(loc); }, what, value);
}

/// A decimal literal has at most this many digits, so that the double that the
/// lexer makes of it tells it from every other such literal.
static constexpr int maxDecimalDigits = std::numeric_limits<double>::digits10;

/// The fraction that a decimal literal's digits say, from the double that the
/// lexer made of it: its shortest decimal form is what was written.
static std::optional<std::pair<int64_t, int64_t>>
decimalFraction(double value) {
  char text[32];
  auto [end, error] = std::to_chars(text, text + sizeof(text), value,
                                    std::chars_format::scientific);
  if (error != std::errc())
    return std::nullopt;
  auto [mantissa, exponentText] = StringRef(text, end - text).split('e');
  int exponent = 0;
  exponentText.consume_front("+");
  if (exponentText.getAsInteger(10, exponent))
    return std::nullopt;
  auto [whole, decimals] = mantissa.split('.');
  std::string digits = (whole + decimals).str();
  exponent -= decimals.size();
  int64_t num;
  if (static_cast<int>(digits.size()) > maxDecimalDigits ||
      StringRef(digits).getAsInteger(10, num))
    return std::nullopt;
  // Ratios are at most 1, so a large exponent is out of range anyway, and a
  // denominator has at most 18 digits.
  if (exponent > 3 || exponent < -18)
    return std::nullopt;
  int64_t den = 1;
  for (; exponent < 0; ++exponent)
    den *= 10;
  for (; exponent > 0; --exponent)
    num *= 10;
  return std::pair(num, den);
}

ParseResult mlir::heddle::parseRatio(AsmParser &parser, RatioAttr &ratio) {
  SMLoc loc = parser.getCurrentLocation();
  char next = *loc.getPointer();
  if (next == '-')
    return parser.emitError(
        loc, "a ratio must be more than 0 and at most 1, found a minus sign");
  if (!llvm::isDigit(next))
    return parser.emitError(loc, "expected a ratio, such as 1/5, 0.2 or 20 "
                                 "percent");

  int64_t num = 0, den = 1;
  OptionalParseResult integer = parser.parseOptionalInteger(num);
  if (integer.has_value()) {
    if (failed(*integer))
      return failure();
    if (succeeded(parser.parseOptionalSlash())) {
      if (parser.parseInteger(den))
        return failure();
    }
  } else {
    double value;
    if (parser.parseFloat(value))
      return failure();
    auto fraction = decimalFraction(value);
    if (!fraction)
      return parser.emitError(loc)
             << "a decimal ratio has at most " << maxDecimalDigits
             << " digits and lies in (0, 1]; write a fraction, such as 1/3";
    std::tie(num, den) = *fraction;
  }
  if (succeeded(parser.parseOptionalKeyword("percent")) &&
      llvm::MulOverflow(den, int64_t(100), den))
    return parser.emitError(loc, "this percentage is too fine to be held");

  if (int64_t divisor = std::gcd(num, den); divisor > 1) {
    num /= divisor;
    den /= divisor;
  }
  ratio = parser.getChecked<RatioAttr>(loc, parser.getContext(), num, den);
  return success(ratio != nullptr);
}

void mlir::heddle::printRatio(AsmPrinter &printer, RatioAttr ratio) {
  int64_t num = ratio.getNum(), den = ratio.getDen();
  if (den == 1) {
    printer << num;
    return;
  }
  // A decimal ends iff the denominator divides a power of ten.
  int64_t power = 1;
  int digits = 0;
  while (digits < maxDecimalDigits && power % den != 0) {
    power *= 10;
    ++digits;
  }
  if (power % den != 0) {
    printer << num << '/' << den;
    return;
  }
  std::string decimals = std::to_string(num * (power / den));
  printer << "0." << std::string(digits - decimals.size(), '0') << decimals;
}

//===----------------------------------------------------------------------===//
// Named arguments
//===----------------------------------------------------------------------===//

namespace {
/// One `name = value` of a parenthesised list.
struct NamedArgument {
  StringRef name;
  llvm::function_ref<ParseResult()> parse;
  bool required = true;
  bool seen = false;
};
} // namespace

/// `(name = value, ...)` in any order, each at most once.
static ParseResult parseNamedArguments(AsmParser &parser, StringRef owner,
                                       MutableArrayRef<NamedArgument> wanted) {
  auto names = [&] {
    return llvm::join(llvm::map_range(wanted,
                                      [](const NamedArgument &argument) {
                                        return argument.name;
                                      }),
                      ", ");
  };
  SMLoc open = parser.getCurrentLocation();
  auto parseOne = [&]() -> ParseResult {
    SMLoc loc = parser.getCurrentLocation();
    StringRef name;
    if (failed(parser.parseOptionalKeyword(&name)))
      return parser.emitError(loc)
             << owner << " takes named arguments: " << names();
    NamedArgument *argument = llvm::find_if(
        wanted, [&](const NamedArgument &a) { return a.name == name; });
    if (argument == wanted.end())
      return parser.emitError(loc) << owner << " has no argument '" << name
                                   << "'; it takes " << names();
    if (argument->seen)
      return parser.emitError(loc)
             << "argument '" << name << "' is given twice";
    argument->seen = true;
    return failure(parser.parseEqual() || argument->parse());
  };
  if (parser.parseCommaSeparatedList(AsmParser::Delimiter::Paren, parseOne))
    return failure();
  for (const NamedArgument &argument : wanted)
    if (argument.required && !argument.seen)
      return parser.emitError(open)
             << owner << " needs argument '" << argument.name << "'";
  return success();
}

//===----------------------------------------------------------------------===//
// Cadences
//===----------------------------------------------------------------------===//

ParseResult mlir::heddle::parseCadence(AsmParser &parser,
                                       CadenceAttr &cadence) {
  SMLoc loc = parser.getCurrentLocation();
  StringRef word;
  (void)parser.parseOptionalKeyword(&word);
  std::optional<CadenceKind> kind = symbolizeCadenceKind(word);
  if (!kind)
    return parser.emitError(loc)
           << (word.empty() ? "expected a cadence"
                            : "unknown cadence '" + word.str() + "'")
           << ": one of never, every, first, at, uniform, random, power";

  RatioAttr fraction;
  int64_t count = 0, period = 0, step = 0, seed = 0;
  switch (*kind) {
  case CadenceKind::Never:
    break;
  case CadenceKind::Every:
    if (parser.parseLParen() ||
        parseCount(parser, "the period of every", period) ||
        parser.parseRParen())
      return failure();
    break;
  case CadenceKind::First:
    if (parser.parseLParen() ||
        parseCount(parser, "the count of first", count) || parser.parseRParen())
      return failure();
    break;
  case CadenceKind::At:
    if (parser.parseLParen())
      return failure();
    if (succeeded(parser.parseOptionalKeyword("step"))) {
      if (parseCount(parser, "a step", step))
        return failure();
    } else if (parseRatio(parser, fraction)) {
      return failure();
    }
    if (parser.parseRParen())
      return failure();
    break;
  case CadenceKind::Uniform:
  case CadenceKind::Random:
  case CadenceKind::Power: {
    auto window = [&] { return parseRatio(parser, fraction); };
    auto number = [&] {
      return parseCount(parser, ("the count of " + word).str(), count);
    };
    auto seedNumber = [&]() -> ParseResult {
      return parser.parseInteger(seed);
    };
    SmallVector<NamedArgument, 3> wanted = {{"window", window},
                                            {"count", number}};
    if (*kind == CadenceKind::Random)
      wanted.push_back({"seed", seedNumber});
    if (parseNamedArguments(parser, word, wanted))
      return failure();
    break;
  }
  }
  cadence = parser.getChecked<CadenceAttr>(loc, parser.getContext(), *kind,
                                           fraction, count, period, step, seed);
  return success(cadence != nullptr);
}

void mlir::heddle::printCadence(AsmPrinter &printer, CadenceAttr cadence) {
  printer << stringifyCadenceKind(cadence.getKind());
  switch (cadence.getKind()) {
  case CadenceKind::Never:
    return;
  case CadenceKind::Every:
    printer << '(' << cadence.getPeriod() << ')';
    return;
  case CadenceKind::First:
    printer << '(' << cadence.getCount() << ')';
    return;
  case CadenceKind::At:
    printer << '(';
    if (RatioAttr fraction = cadence.getFraction())
      printRatio(printer, fraction);
    else
      printer << "step " << cadence.getStep();
    printer << ')';
    return;
  case CadenceKind::Uniform:
  case CadenceKind::Random:
  case CadenceKind::Power:
    printer << "(window = ";
    printRatio(printer, cadence.getFraction());
    printer << ", count = " << cadence.getCount();
    if (cadence.getKind() == CadenceKind::Random)
      printer << ", seed = " << cadence.getSeed();
    printer << ')';
    return;
  }
}

ParseResult mlir::heddle::parseWhen(AsmParser &parser, WhenKindAttr &when,
                                    CadenceAttr &cadence) {
  SMLoc loc = parser.getCurrentLocation();
  StringRef word;
  (void)parser.parseOptionalKeyword(&word);
  std::optional<WhenKind> kind = symbolizeWhenKind(word);
  if (!kind)
    return parser.emitError(loc, "a phase is `on` a cadence, `before` a "
                                 "cadence, or `otherwise`");
  when = WhenKindAttr::get(parser.getContext(), *kind);
  return *kind == WhenKind::Otherwise ? success()
                                      : parseCadence(parser, cadence);
}

void mlir::heddle::printWhen(AsmPrinter &printer, Operation *,
                             WhenKindAttr when, CadenceAttr cadence) {
  printer << stringifyWhenKind(when.getValue());
  if (cadence) {
    printer << ' ';
    printCadence(printer, cadence);
  }
}

//===----------------------------------------------------------------------===//
// Layers
//===----------------------------------------------------------------------===//

ParseResult mlir::heddle::parseLayers(AsmParser &parser,
                                      LayerRangeAttr &layers) {
  int64_t first, last;
  if (parser.parseKeyword("layers") || parser.parseLParen())
    return failure();
  SMLoc loc = parser.getCurrentLocation();
  if (parser.parseInteger(first) || parser.parseKeyword("to") ||
      parser.parseInteger(last) || parser.parseRParen())
    return failure();
  layers =
      parser.getChecked<LayerRangeAttr>(loc, parser.getContext(), first, last);
  return success(layers != nullptr);
}

void mlir::heddle::printLayers(AsmPrinter &printer, Operation *,
                               LayerRangeAttr layers) {
  printer << "layers(" << layers.getFirst() << " to " << layers.getLast()
          << ')';
}

ParseResult mlir::heddle::parseRuleLayers(AsmParser &parser,
                                          LayerRangeAttr &layers) {
  if (succeeded(parser.parseOptionalKeyword("default")))
    return success();
  return parseLayers(parser, layers);
}

void mlir::heddle::printRuleLayers(AsmPrinter &printer, Operation *op,
                                   LayerRangeAttr layers) {
  if (layers)
    printLayers(printer, op, layers);
  else
    printer << "default";
}

//===----------------------------------------------------------------------===//
// Patterns
//===----------------------------------------------------------------------===//

ParseResult mlir::heddle::parseColumns(AsmParser &parser, RatioAttr &keep,
                                       IntegerAttr &group,
                                       KeepRuleAttr &rounding) {
  auto keepRatio = [&] { return parseRatio(parser, keep); };
  auto groupSize = [&]() -> ParseResult {
    SMLoc loc = parser.getCurrentLocation();
    int64_t size;
    if (parser.parseInteger(size) ||
        failed(checkGroup([&] { return parser.emitError(loc); }, size)))
      return failure();
    group = parser.getBuilder().getI64IntegerAttr(size);
    return success();
  };
  auto keepRule = [&]() -> ParseResult {
    SMLoc loc = parser.getCurrentLocation();
    StringRef word;
    (void)parser.parseOptionalKeyword(&word);
    std::optional<KeepRule> rule = symbolizeKeepRule(word);
    if (!rule)
      return parser.emitError(loc, "rounding is floor, ceil or round");
    rounding = KeepRuleAttr::get(parser.getContext(), *rule);
    return success();
  };
  NamedArgument wanted[] = {{"keep", keepRatio},
                            {"group", groupSize},
                            {"rounding", keepRule, /*required=*/false}};
  return parseNamedArguments(parser, "columns", wanted);
}

void mlir::heddle::printColumns(AsmPrinter &printer, Operation *,
                                RatioAttr keep, IntegerAttr group,
                                KeepRuleAttr rounding) {
  printer << "(keep = ";
  printRatio(printer, keep);
  printer << ", group = " << group.getInt();
  if (rounding && rounding.getValue() != KeepRule::Floor)
    printer << ", rounding = " << stringifyKeepRule(rounding.getValue());
  printer << ')';
}

ParseResult mlir::heddle::parseScorer(AsmParser &parser, ScorerAttr &scorer) {
  SMLoc loc = parser.getCurrentLocation();
  StringRef word;
  (void)parser.parseOptionalKeyword(&word);
  std::optional<Scorer> value = symbolizeScorer(word);
  if (!value)
    return parser.emitError(loc)
           << (word.empty() ? "expected a scorer"
                            : "unknown scorer '" + word.str() + "'")
           << "; there is mean_probability";
  scorer = ScorerAttr::get(parser.getContext(), *value);
  return success();
}

void mlir::heddle::printScorer(AsmPrinter &printer, Operation *,
                               ScorerAttr scorer) {
  printer << stringifyScorer(scorer.getValue());
}

static ParseResult parseTerm(AsmParser &parser, Attribute &term) {
  SMLoc loc = parser.getCurrentLocation();
  StringRef word;
  (void)parser.parseOptionalKeyword(&word);
  int64_t size;
  if (word == "columns") {
    StringAttr selection;
    if (parser.parseLParen() || parser.parseSymbolName(selection) ||
        parser.parseComma() || parser.parseKeyword("group") ||
        parser.parseEqual() || parser.parseInteger(size) ||
        parser.parseRParen())
      return failure();
    term = ColumnsTermAttr::get(parser.getContext(),
                                FlatSymbolRefAttr::get(selection), size);
    return success();
  }
  if (word != "window" && word != "sinks")
    return parser.emitError(loc, "a term is columns(...), window(...) or "
                                 "sinks(...)");
  if (parser.parseLParen() ||
      parseCount(parser, ("the size of " + word).str(), size) ||
      parser.parseRParen())
    return failure();
  if (word == "window")
    term = WindowTermAttr::get(parser.getContext(), size);
  else
    term = SinksTermAttr::get(parser.getContext(), size);
  return success();
}

ParseResult mlir::heddle::parseTerms(AsmParser &parser, ArrayAttr &terms) {
  SmallVector<Attribute> parsed;
  if (failed(parser.parseOptionalKeyword("dense"))) {
    auto parseOne = [&] { return parseTerm(parser, parsed.emplace_back()); };
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
  llvm::interleaveComma(terms, printer.getStream(), [&](Attribute term) {
    if (auto columns = dyn_cast<ColumnsTermAttr>(term)) {
      printer << "columns(";
      printer.printSymbolName(columns.getSelection().getValue());
      printer << ", group = " << columns.getGroup() << ')';
    } else if (auto window = dyn_cast<WindowTermAttr>(term)) {
      printer << "window(" << window.getSize() << ')';
    } else {
      printer << "sinks(" << cast<SinksTermAttr>(term).getSize() << ')';
    }
  });
  printer << ']';
}

//===----------------------------------------------------------------------===//
// Schedules
//===----------------------------------------------------------------------===//

ParseResult mlir::heddle::parseResultName(OpAsmParser &parser,
                                          StringAttr &name) {
  if (parser.getNumResults() == 0)
    return success();
  StringRef written = parser.getResultName(0).first;
  if (!written.empty() && !llvm::isDigit(written.front()))
    name = parser.getBuilder().getStringAttr(written);
  return success();
}

ParseResult mlir::heddle::parseAttended(
    OpAsmParser &parser, std::optional<OpAsmParser::UnresolvedOperand> &until,
    std::optional<OpAsmParser::UnresolvedOperand> &pairs) {
  auto parenthesised =
      [&](std::optional<OpAsmParser::UnresolvedOperand> &operand)
      -> ParseResult {
    return failure(parser.parseLParen() ||
                   parser.parseOperand(operand.emplace()) ||
                   parser.parseRParen());
  };
  if (succeeded(parser.parseOptionalKeyword("dense"))) {
    if (failed(parser.parseOptionalKeyword("until")))
      return success();
    if (parenthesised(until) || parser.parseKeyword("then"))
      return failure();
  }
  SMLoc loc = parser.getCurrentLocation();
  if (failed(parser.parseOptionalKeyword("pairs")))
    return parser.emitError(loc, until ? "expected pairs(%value)"
                                       : "expected dense, pairs(%value) or "
                                         "dense until(%cadence) then "
                                         "pairs(%value)");
  return parenthesised(pairs);
}

void mlir::heddle::printAttended(OpAsmPrinter &printer, Operation *,
                                 Value until, Value pairs) {
  if (until)
    printer << "dense until(" << until << ") then ";
  if (pairs)
    printer << "pairs(" << pairs << ')';
  else
    printer << "dense";
}
