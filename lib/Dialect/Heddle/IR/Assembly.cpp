//===- Assembly.cpp - Parts of the textual form ---------------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Assembly.h"
#include "Parameters.h"
#include "bundle/program/Manifest.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

#include <charconv>
#include <numeric>

using namespace mlir;
using namespace mlir::heddle;

//===----------------------------------------------------------------------===//
// Numbers
//===----------------------------------------------------------------------===//

LogicalResult mlir::heddle::checkGroup(EmitError emitError, int64_t group,
                                       bool blocks) {
  int64_t most = blocks ? ::heddle::bundle::maxBlock : maxGroup;
  if (group >= minGroup && group <= most && llvm::isPowerOf2_64(group))
    return success();
  return emitError() << (blocks ? "a block" : "a group")
                     << " must be a power of two from " << minGroup << " to "
                     << most << (blocks ? " keys" : " rows") << ", found "
                     << group;
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

ParseResult mlir::heddle::parseCount(AsmParser &parser, StringRef what,
                                     int64_t &value) {
  NumberPlace place(parser);
  if (place.parseInteger(value))
    return failure();
  return checkCount([&] { return place.error(); }, what, value);
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

LogicalResult mlir::heddle::checkRatio(EmitError emitError, StringRef what,
                                       RatioAttr ratio, int64_t most) {
  if ((ratio.getNum() - 1) / most < ratio.getDen())
    return success();
  return emitError() << what << " must be more than 0 and at most " << most
                     << ", found " << ratio.getNum() << '/' << ratio.getDen();
}

static constexpr StringLiteral aRatio =
    "a ratio, such as 1/5, 0.2 or 20 percent";

/// `1/5`, `0.2`, `20 percent`; a bare integer, too, which `bare` takes
/// instead of `ratio` unless it is null. Or a parameter that is one of these.
static ParseResult parseRatioOrInteger(AsmParser &parser, NumberPlace &place,
                                       StringRef what, RatioAttr &ratio,
                                       int64_t most,
                                       std::optional<int64_t> *bare) {
  if (place.checkPercent())
    return failure();
  Attribute named;
  OptionalParseResult found = place.parseParameter(named, aRatio);
  if (found.has_value() && failed(*found))
    return failure();
  if (!named && *place.text() == '-')
    return place.error() << what << " must be more than 0 and at most " << most
                         << ", found a minus sign";
  if (!named && !llvm::isDigit(*place.text()))
    return place.error("expected " + aRatio);

  int64_t num = 0, den = 1;
  bool whole = false;
  OptionalParseResult integer;
  if (auto share = dyn_cast_or_null<RatioAttr>(named)) {
    num = share.getNum();
    den = share.getDen();
  } else if (named) {
    num = cast<IntegerAttr>(named).getInt();
    whole = true;
  } else if (integer = parser.parseOptionalInteger(num); integer.has_value()) {
    if (failed(*integer))
      return failure();
    whole = failed(parser.parseOptionalSlash());
    if (!whole && parser.parseInteger(den))
      return failure();
  } else {
    double value;
    if (parser.parseFloat(value))
      return failure();
    auto fraction = decimalFraction(value);
    if (!fraction)
      return place.error() << "a decimal ratio has at most " << maxDecimalDigits
                           << " digits and lies in (0, " << most
                           << "]; write a fraction, such as 1/3";
    std::tie(num, den) = *fraction;
  }
  const bool percent =
      !named && succeeded(parser.parseOptionalKeyword("percent"));
  if (whole && !percent && bare) {
    *bare = num;
    return success();
  }
  if (percent && llvm::MulOverflow(den, int64_t(100), den))
    return place.error("this percentage is too fine to be held");

  if (int64_t divisor = std::gcd(num, den); divisor > 1) {
    num /= divisor;
    den /= divisor;
  }
  if (num <= 0 && den != 0)
    return place.error() << what << " must be more than 0 and at most " << most
                         << ", found " << num << '/' << den;
  if (whole && !percent && most == 1 && num > 1 && num <= 100 && den == 1)
    return place.error() << what << " must be more than 0 and at most 1, found "
                         << num << "; write " << num << " percent";
  auto error = [&] { return place.error(); };
  ratio = RatioAttr::getChecked(error, parser.getContext(), num, den);
  return success(ratio && succeeded(checkRatio(error, what, ratio, most)));
}

ParseResult mlir::heddle::parseNumber(AsmParser &parser, Attribute &value) {
  std::optional<int64_t> integer;
  RatioAttr ratio;
  if (*parser.getCurrentLocation().getPointer() == '-') {
    if (parser.parseInteger(integer.emplace()))
      return failure();
  } else if (NumberPlace place(parser);
             parseRatioOrInteger(parser, place, "a parameter", ratio,
                                 ::heddle::bundle::maxFactor, &integer)) {
    return failure();
  }
  value = integer ? Attribute(parser.getBuilder().getI64IntegerAttr(*integer))
                  : ratio;
  return success();
}

ParseResult mlir::heddle::parseRatio(AsmParser &parser, StringRef what,
                                     RatioAttr &ratio, int64_t most) {
  NumberPlace place(parser);
  return parseRatioOrInteger(parser, place, what, ratio, most, nullptr);
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
  std::string decimals = std::to_string(num % den * (power / den));
  printer << num / den << '.' << std::string(digits - decimals.size(), '0')
          << decimals;
}

/// `what` names the count in messages: "the size of sinks".
static ParseResult parseCountOrShare(AsmParser &parser, StringRef what,
                                     int64_t &count, RatioAttr &share) {
  NumberPlace place(parser);
  // Of a negative number the count's message says most.
  if (*place.text() == '-')
    return parseCount(parser, what, count);
  std::optional<int64_t> bare;
  if (parseRatioOrInteger(parser, place, "the fraction of sinks", share, 1, &bare))
    return failure();
  if (!bare)
    return success();
  count = *bare;
  return checkCount([&] { return place.error(); }, what, count);
}

ParseResult mlir::heddle::parseCount(AsmParser &parser, IntegerAttr &count) {
  int64_t value = 0;
  if (NumberPlace(parser).parseInteger(value))
    return failure();
  count = parser.getBuilder().getI64IntegerAttr(value);
  return success();
}

void mlir::heddle::printCount(AsmPrinter &printer, Operation *,
                              IntegerAttr count) {
  printer << count.getInt();
}

ParseResult mlir::heddle::parseCountOrShare(AsmParser &parser,
                                            IntegerAttr &count,
                                            RatioAttr &share) {
  int64_t value = 0;
  if (::parseCountOrShare(parser, "the size of sinks", value, share))
    return failure();
  if (!share)
    count = parser.getBuilder().getI64IntegerAttr(value);
  return success();
}

/// Never a bare integer: that would be a count.
static void printShare(AsmPrinter &printer, RatioAttr share) {
  if (share.getDen() == 1)
    printer << share.getNum() << "/1";
  else
    printRatio(printer, share);
}

void mlir::heddle::printCountOrShare(AsmPrinter &printer, Operation *,
                                     IntegerAttr count, RatioAttr share) {
  if (share)
    printShare(printer, share);
  else if (count)
    printer << count.getInt();
}

//===----------------------------------------------------------------------===//
// Named arguments
//===----------------------------------------------------------------------===//

ParseResult
mlir::heddle::parseNamedArguments(AsmParser &parser, StringRef owner,
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
      return suggesting(
          parser.emitError(loc) << owner << " has no argument '" << name
                                << "'; it takes " << names(),
          name, llvm::map_to_vector(wanted, [](const auto &argument) {
            return argument.name;
          }));
    if (argument->seen)
      return parser.emitError(loc)
             << "argument '" << name << "' is given twice";
    argument->seen = true;
    if (!argument->parse)
      return success();
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

/// What stands in `at(...)` in place of a step: a fraction of the run.
static ParseResult parsePlaceInRun(AsmParser &parser, RatioAttr &fraction) {
  NumberPlace place(parser);
  std::optional<int64_t> bare;
  if (parseRatioOrInteger(parser, place, "the fraction of at", fraction, 1, &bare))
    return failure();
  if (!bare)
    return success();
  if (*bare == 1) {
    fraction = RatioAttr::get(parser.getContext(), 1, 1);
    return success();
  }
  InFlightDiagnostic error = place.error("at takes a fraction of the run, found ");
  error << *bare << "; write at(step = " << *bare << ')';
  if (*bare > 1 && *bare < 100)
    error << ", or at(" << *bare << " percent)";
  return error;
}

ParseResult mlir::heddle::parseCadence(AsmParser &parser,
                                       CadenceAttr &cadence) {
  SMLoc loc = parser.getCurrentLocation();
  StringRef word;
  (void)parser.parseOptionalKeyword(&word);
  std::optional<CadenceKind> kind = symbolizeCadenceKind(word);
  if (!kind)
    return unknownWord(
        parser, loc, "cadence", word,
        {"never", "every", "first", "at", "uniform", "random", "power"});

  RatioAttr fraction;
  int64_t count = 0, period = 0, step = 0, seed = 0, from = 1;
  switch (*kind) {
  case CadenceKind::Never:
    break;
  case CadenceKind::Every:
    if (parser.parseLParen() ||
        parseCount(parser, "the period of every", period))
      return failure();
    if (succeeded(parser.parseOptionalComma()) &&
        (parser.parseKeyword("from") || parser.parseEqual() ||
         parseCount(parser, "the first step of every", from)))
      return failure();
    if (parser.parseRParen())
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
    if (SMLoc place = parser.getCurrentLocation();
        succeeded(parser.parseOptionalKeyword("step"))) {
      if (llvm::isAlnum(*parser.getCurrentLocation().getPointer()))
        return wasWritten(parser, place, "at(step s)", "at(step = s)",
                          "step =");
      if (parser.parseEqual())
        return failure();
      if (parseCount(parser, "a step", step))
        return failure();
    } else if (parsePlaceInRun(parser, fraction)) {
      return failure();
    } else if (succeeded(parser.parseOptionalComma())) {
      int64_t plus;
      if (parser.parseKeyword("plus") || parser.parseEqual() ||
          parseCount(parser, "the steps after a fraction", plus))
        return failure();
      from = 1 + plus;
    }
    if (parser.parseRParen())
      return failure();
    break;
  case CadenceKind::Uniform:
  case CadenceKind::Random:
  case CadenceKind::Power: {
    auto window = [&] {
      return parseRatio(parser, ("the window of " + word).str(), fraction);
    };
    auto number = [&] {
      return parseCount(parser, ("the count of " + word).str(), count);
    };
    auto seedNumber = [&]() -> ParseResult {
      return NumberPlace(parser).parseInteger(seed);
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
  bool inBlock = succeeded(parser.parseOptionalKeyword("in"));
  if (inBlock && parser.parseKeyword("block"))
    return failure();
  bool afterEos = succeeded(parser.parseOptionalKeyword("or"));
  if (afterEos && (parser.parseKeyword("after") || parser.parseKeyword("eos")))
    return failure();
  cadence = parser.getChecked<CadenceAttr>(loc, parser.getContext(), *kind,
                                           fraction, count, period, step, seed,
                                           from, inBlock, afterEos);
  return success(cadence != nullptr);
}

static void printCadenceForm(AsmPrinter &printer, CadenceAttr cadence) {
  printer << stringifyCadenceKind(cadence.getKind());
  switch (cadence.getKind()) {
  case CadenceKind::Never:
    return;
  case CadenceKind::Every:
    printer << '(' << cadence.getPeriod();
    if (cadence.getFrom() != 1)
      printer << ", from = " << cadence.getFrom();
    printer << ')';
    return;
  case CadenceKind::First:
    printer << '(' << cadence.getCount() << ')';
    return;
  case CadenceKind::At:
    printer << '(';
    if (RatioAttr fraction = cadence.getFraction())
      printRatio(printer, fraction);
    else
      printer << "step = " << cadence.getStep();
    if (cadence.getFrom() != 1)
      printer << ", plus = " << cadence.getFrom() - 1;
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

void mlir::heddle::printCadence(AsmPrinter &printer, CadenceAttr cadence) {
  printCadenceForm(printer, cadence);
  if (cadence.getInBlock())
    printer << " in block";
  if (cadence.getAfterEos())
    printer << " or after eos";
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

/// `5` or `0 to 3`.
static ParseResult parseRange(AsmParser &parser, LayerRangeAttr &layers) {
  SMLoc loc = parser.getCurrentLocation();
  int64_t first, last;
  if (NumberPlace(parser).parseInteger(first))
    return failure();
  last = first;
  if (succeeded(parser.parseOptionalKeyword("to")) &&
      NumberPlace(parser).parseInteger(last))
    return failure();
  layers =
      parser.getChecked<LayerRangeAttr>(loc, parser.getContext(), first, last);
  return success(layers != nullptr);
}

static void printRange(AsmPrinter &printer, LayerRangeAttr layers) {
  printer << layers.getFirst();
  if (layers.getLast() != layers.getFirst())
    printer << " to " << layers.getLast();
}

ParseResult mlir::heddle::parseLayerRanges(AsmParser &parser,
                                           ArrayAttr &layers) {
  SmallVector<Attribute> ranges;
  auto parseOne = [&]() -> ParseResult {
    LayerRangeAttr range;
    if (parseRange(parser, range))
      return failure();
    ranges.push_back(range);
    return success();
  };
  if (parser.parseKeyword("layers") || parser.parseLParen() ||
      parser.parseCommaSeparatedList(parseOne) || parser.parseRParen())
    return failure();
  layers = parser.getBuilder().getArrayAttr(ranges);
  return success();
}

void mlir::heddle::printLayerRanges(AsmPrinter &printer, Operation *,
                                    ArrayAttr layers) {
  printer << "layers(";
  llvm::interleaveComma(
      layers.getAsRange<LayerRangeAttr>(), printer.getStream(),
      [&](LayerRangeAttr range) { printRange(printer, range); });
  printer << ')';
}

ParseResult mlir::heddle::parseRuleLayers(AsmParser &parser,
                                          LayerRangeAttr &layers) {
  if (succeeded(parser.parseOptionalKeyword("default")))
    return success();
  return failure(parser.parseKeyword("layers") || parser.parseLParen() ||
                 parseRange(parser, layers) || parser.parseRParen());
}

void mlir::heddle::printRuleLayers(AsmPrinter &printer, Operation *,
                                   LayerRangeAttr layers) {
  if (!layers) {
    printer << "default";
    return;
  }
  printer << "layers(";
  printRange(printer, layers);
  printer << ')';
}

//===----------------------------------------------------------------------===//
// Patterns
//===----------------------------------------------------------------------===//

/// A word that stands for a value of an enumeration; `expected` says which
/// `words` there are.
template <typename E>
static ParseResult
parseWord(AsmParser &parser, StringRef expected, ArrayRef<StringRef> words,
          llvm::function_ref<std::optional<E>(StringRef)> symbolize, E &value) {
  SMLoc loc = parser.getCurrentLocation();
  StringRef word;
  (void)parser.parseOptionalKeyword(&word);
  std::optional<E> found = symbolize(word);
  if (!found)
    return suggesting(parser.emitError(loc, expected), word, words);
  value = *found;
  return success();
}

ParseResult mlir::heddle::parseSelected(AsmParser &parser,
                                        SelectionKindAttr &kind,
                                        RatioAttr &keep, IntegerAttr &group,
                                        KeepRuleAttr &rounding,
                                        UnitAttr &perKvHead) {
  SelectionKind value;
  if (parseWord<SelectionKind>(
          parser, "expected columns(...) or blocks(...)", {"columns", "blocks"},
          [](StringRef word) { return symbolizeSelectionKind(word); }, value))
    return failure();
  kind = SelectionKindAttr::get(parser.getContext(), value);
  bool blocks = value == SelectionKind::Blocks;
  auto keepRatio = [&] { return parseRatio(parser, "keep", keep); };
  auto groupSize = [&]() -> ParseResult {
    NumberPlace place(parser);
    int64_t size;
    if (place.parseInteger(size) ||
        failed(checkGroup([&] { return place.error(); }, size, blocks)))
      return failure();
    group = parser.getBuilder().getI64IntegerAttr(size);
    return success();
  };
  auto keepRule = [&]() -> ParseResult {
    KeepRule rule;
    if (parseWord<KeepRule>(
            parser, "rounding is floor, ceil, round or floor_plus_one",
            {"floor", "ceil", "round", "floor_plus_one"},
            [](StringRef word) { return symbolizeKeepRule(word); }, rule))
      return failure();
    rounding = KeepRuleAttr::get(parser.getContext(), rule);
    return success();
  };
  SmallVector<NamedArgument, 4> wanted = {
      {"keep", keepRatio},
      {blocks ? "size" : "group", groupSize},
      {"rounding", keepRule, /*required=*/false}};
  if (!blocks)
    wanted.push_back({"per_kv_head", nullptr, /*required=*/false});
  if (parseNamedArguments(parser, blocks ? "blocks" : "columns", wanted))
    return failure();
  if (wanted.back().name == "per_kv_head" && wanted.back().seen)
    perKvHead = parser.getBuilder().getUnitAttr();
  return success();
}

void mlir::heddle::printSelected(AsmPrinter &printer, Operation *,
                                 SelectionKindAttr kind, RatioAttr keep,
                                 IntegerAttr group, KeepRuleAttr rounding,
                                 UnitAttr perKvHead) {
  bool blocks = kind && kind.getValue() == SelectionKind::Blocks;
  printer << (blocks ? "blocks" : "columns") << "(keep = ";
  printRatio(printer, keep);
  printer << (blocks ? ", size = " : ", group = ") << group.getInt();
  if (rounding && rounding.getValue() != KeepRule::Floor)
    printer << ", rounding = " << stringifyKeepRule(rounding.getValue());
  if (perKvHead)
    printer << ", per_kv_head";
  printer << ')';
}

ParseResult mlir::heddle::parseScorer(AsmParser &parser, ScorerAttr &scorer) {
  SMLoc loc = parser.getCurrentLocation();
  StringRef word;
  (void)parser.parseOptionalKeyword(&word);
  std::optional<Scorer> value = symbolizeScorer(word);
  if (!value)
    return unknownWord(parser, loc, "scorer", word, {"mean_probability"});
  scorer = ScorerAttr::get(parser.getContext(), *value);
  return success();
}

ParseResult mlir::heddle::parseNoAttributes(OpAsmParser &parser,
                                            NamedAttrList &) {
  SMLoc loc = parser.getCurrentLocation();
  if (StringRef word(parser.getNameLoc().getPointer());
      ParameterScope::isOpen() && word.consume_front("heddle.")) {
    word = word.take_while([](char c) { return llvm::isAlnum(c) || c == '_'; });
    return wasWritten(parser, parser.getNameLoc(), "heddle." + word, word,
                      word);
  }
  if (succeeded(parser.parseOptionalLBrace()))
    return parser.emitError(loc, "has no attributes in braces; "
                                 "write what it needs in its own words, such "
                                 "as window(64)");
  // MLIR would take what follows for another op, and say that there is none.
  static constexpr StringRef clauses[] = {
      "after",  "alone", "and",    "at_once",     "by",
      "eos",    "from",  "in",     "isolating",   "of",
      "on",     "or",    "passes", "per_kv_head", "scaled_by",
      "scores", "stop",  "then",   "until",       "within"};
  StringRef word;
  if (succeeded(parser.parseOptionalKeyword(&word, clauses)))
    return parser.emitError(loc) << "takes no '" << word
                                 << "' here: clauses have one order, and not "
                                    "every op has each";
  if (succeeded(parser.parseOptionalLParen()))
    return parser.emitError(loc, "takes nothing in parentheses here");
  if (succeeded(parser.parseOptionalComma()))
    return parser.emitError(loc, "takes no list here");
  // A value that is not the next op's result, in the same line.
  const char *next = loc.getPointer();
  if (*next != '%' || beginsLine(next))
    return success();
  const char *end = next + 1;
  while (llvm::isAlnum(*end) || StringRef("_$.-").contains(*end))
    ++end;
  StringRef name(next, end - next);
  while (*end == ' ')
    ++end;
  if (*end == '=' || *end == ',' || *end == ':')
    return success();
  return parser.emitError(loc)
         << "expected the end of the op, found " << name << "; write `on "
         << name << "` if it is a cadence";
}

ParseResult mlir::heddle::parseScored(AsmParser &parser, ScorerAttr &scorer,
                                      IsolationAttr &isolation,
                                      ScaleAttr &scale) {
  if (parseScorer(parser, scorer))
    return failure();
  if (succeeded(parser.parseOptionalKeyword("isolating"))) {
    Isolation value;
    if (parser.parseLParen() ||
        parseWord<Isolation>(
            parser, "spans are isolated as spans, aligned or filtered",
            {"spans", "aligned", "filtered"},
            [](StringRef word) -> std::optional<Isolation> {
              std::optional<Isolation> found = symbolizeIsolation(word);
              return found == Isolation::None ? std::nullopt : found;
            },
            value) ||
        parser.parseRParen())
      return failure();
    isolation = IsolationAttr::get(parser.getContext(), value);
  }
  if (succeeded(parser.parseOptionalKeyword("scaled_by"))) {
    Scale value;
    if (parser.parseLParen() ||
        parseWord<Scale>(
            parser, "scores are scaled by head_dim or heads",
            {"head_dim", "heads"},
            [](StringRef word) { return symbolizeScale(word); }, value) ||
        parser.parseRParen())
      return failure();
    scale = ScaleAttr::get(parser.getContext(), value);
  }
  return success();
}

void mlir::heddle::printScored(AsmPrinter &printer, Operation *,
                               ScorerAttr scorer, IsolationAttr isolation,
                               ScaleAttr scale) {
  printer << stringifyScorer(scorer.getValue());
  if (isolation && isolation.getValue() != Isolation::None)
    printer << " isolating(" << stringifyIsolation(isolation.getValue()) << ')';
  if (scale && scale.getValue() != Scale::HeadDim)
    printer << " scaled_by(" << stringifyScale(scale.getValue()) << ')';
}

static ParseResult parseTerm(AsmParser &parser, Attribute &term) {
  SMLoc loc = parser.getCurrentLocation();
  StringRef word;
  (void)parser.parseOptionalKeyword(&word);
  int64_t size;
  if (word == "columns" || word == "blocks") {
    bool blocks = word == "blocks";
    StringAttr selection;
    if (parser.parseLParen() || parser.parseSymbolName(selection) ||
        parser.parseComma() || parser.parseKeyword(blocks ? "size" : "group") ||
        parser.parseEqual() || parser.parseInteger(size) ||
        parser.parseRParen())
      return failure();
    auto name = FlatSymbolRefAttr::get(selection);
    if (blocks)
      term = BlocksTermAttr::get(parser.getContext(), name, size);
    else
      term = ColumnsTermAttr::get(parser.getContext(), name, size);
    return success();
  }
  if (word != "window" && word != "sinks")
    return parser.emitError(loc, "a term is columns(...), blocks(...), "
                                 "window(...) or sinks(...)");
  const bool window = word == "window";
  RatioAttr share;
  if (parser.parseLParen() ||
      (window
           ? parseCount(parser, "the size of window", size)
           : ::parseCountOrShare(parser, "the size of sinks", size, share)) ||
      parser.parseRParen())
    return failure();
  if (window)
    term = WindowTermAttr::get(parser.getContext(), size);
  else if (share)
    term = SinksShareTermAttr::get(parser.getContext(), share);
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
    } else if (auto blocks = dyn_cast<BlocksTermAttr>(term)) {
      printer << "blocks(";
      printer.printSymbolName(blocks.getSelection().getValue());
      printer << ", size = " << blocks.getSize() << ')';
    } else if (auto window = dyn_cast<WindowTermAttr>(term)) {
      printer << "window(" << window.getSize() << ')';
    } else if (auto share = dyn_cast<SinksShareTermAttr>(term)) {
      printer << "sinks(";
      printShare(printer, share.getShare());
      printer << ')';
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
                   parseValue(parser, operand.emplace()) ||
                   parser.parseRParen());
  };
  if (succeeded(parser.parseOptionalKeyword("dense"))) {
    if (failed(parser.parseOptionalKeyword("until")))
      return success();
    if (parenthesised(until) || parser.parseKeyword("then"))
      return failure();
  }
  SMLoc loc = parser.getCurrentLocation();
  if (succeeded(parser.parseOptionalKeyword("pairs")))
    return parenthesised(pairs);
  InFlightDiagnostic error =
      parser.emitError(loc, until ? "expected pairs(%value)"
                                  : "expected dense, pairs(%value) or "
                                    "dense until(%cadence) then pairs(%value)");
  OpAsmParser::UnresolvedOperand value;
  StringRef word;
  if (OptionalParseResult bare = parser.parseOptionalOperand(value);
      bare.has_value() && succeeded(*bare))
    return error << "; write pairs(" << value.name << ')';
  if (failed(parser.parseOptionalKeyword(&word)))
    return error;
  if (isValueOp(parser, word))
    return error << "; give " << word << " a line of its own, %" << word
                 << " = " << word << " ..., and write pairs(%" << word << ')';
  return suggesting(std::move(error), word, {"dense", "pairs"});
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

ParseResult mlir::heddle::parseScores(OpAsmParser &parser, Region &region) {
  if (failed(parser.parseOptionalKeyword("scores")))
    return success();
  return parseScoreRegion(parser, region);
}

void mlir::heddle::printScores(OpAsmPrinter &printer, Operation *,
                               Region &region) {
  if (region.empty())
    return;
  printer << " scores";
  printScoreRegion(printer, region);
}
