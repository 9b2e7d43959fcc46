//===- Assembly.cpp - Parts of the textual form ---------------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Forms.h"
#include "Parameters.h"
#include "bundle/format/ManifestFields.h"
#include "heddle/Dialect/Heddle/IR/Reference.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

#include <charconv>
#include <cstring>
#include <numeric>

using namespace mlir;
using namespace mlir::heddle;
namespace bundle = ::heddle::bundle;

//===----------------------------------------------------------------------===//
// Numbers
//===----------------------------------------------------------------------===//

LogicalResult mlir::heddle::checkGroup(EmitError emitError, int64_t group,
                                       bool blocks) {
  if (!blocks && group == ::heddle::bundle::groupOfAll)
    return success();
  int64_t most = blocks ? ::heddle::bundle::maxBlock : maxGroup;
  if (group >= minGroup && group <= most && llvm::isPowerOf2_64(group))
    return success();
  return emitError() << (blocks ? "a block" : "a group")
                     << " must be a power of two from " << minGroup << " to "
                     << most << (blocks ? " keys" : " rows, or all")
                     << ", found " << group;
}

ParseResult mlir::heddle::parseGroup(AsmParser &parser, int64_t &group,
                                     bool blocks) {
  if (!blocks && succeeded(parser.parseOptionalKeyword("all"))) {
    group = ::heddle::bundle::groupOfAll;
    return success();
  }
  NumberPlace place(parser);
  return failure(
      place.parseInteger(group) ||
      failed(checkGroup([&] { return place.error(); }, group, blocks)));
}

std::string mlir::heddle::groupText(int64_t group) {
  return group == ::heddle::bundle::groupOfAll ? "all" : std::to_string(group);
}

LogicalResult mlir::heddle::checkPooled(EmitError emitError, int64_t pooled) {
  if (pooled >= ::heddle::bundle::minPooled &&
      pooled <= ::heddle::bundle::maxPooled && pooled % 2 == 1)
    return success();
  return emitError() << "scores are pooled over an odd number of keys from "
                     << ::heddle::bundle::minPooled << " to "
                     << ::heddle::bundle::maxPooled << ", found " << pooled;
}

LogicalResult mlir::heddle::checkCount(EmitError emitError, StringRef what,
                                       int64_t value, int64_t least,
                                       int64_t most) {
  if (value < least)
    return emitError() << what << " must be at least " << least << ", found "
                       << value;
  if (value > most)
    return emitError() << what << " must be at most " << most << ", found "
                       << value;
  return success();
}

ParseResult mlir::heddle::parseCount(AsmParser &parser, StringRef what,
                                     int64_t &value, int64_t least,
                                     int64_t most) {
  NumberPlace place(parser);
  if (place.parseInteger(value))
    return failure();
  return checkCount([&] { return place.error(); }, what, value, least, most);
}

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
  if (digits.size() > bundle::maxDecimals ||
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

/// "more than 0 and at most 1"
static std::string rangeOf(int64_t most, bool orNone) {
  return (orNone ? "from 0 to " : "more than 0 and at most ") +
         std::to_string(most);
}

LogicalResult mlir::heddle::checkRatio(EmitError emitError, StringRef what,
                                       RatioAttr ratio, int64_t most,
                                       bool orNone) {
  if ((ratio.getNum() - 1) / most < ratio.getDen() &&
      (ratio.getNum() > 0 || orNone))
    return success();
  return emitError() << what << " must be " << rangeOf(most, orNone)
                     << ", found " << ratio.getNum() << '/' << ratio.getDen();
}

static constexpr StringLiteral aRatio =
    "a ratio, such as 1/5, 0.2 or 20 percent";

/// `1/5`, `0.2`, `20 percent`; a bare integer, too, which `bare` takes
/// instead of `ratio` unless it is null. Or a parameter that is one of these.
static ParseResult parseRatioOrInteger(AsmParser &parser, NumberPlace &place,
                                       StringRef what, RatioAttr &ratio,
                                       int64_t most,
                                       std::optional<int64_t> *bare,
                                       bool orNone = false, bool share = true) {
  if (place.checkPercent())
    return failure();
  Attribute named;
  OptionalParseResult found = place.parseParameter(named, aRatio);
  if (found.has_value() && failed(*found))
    return failure();
  if (!named && *place.text() == '-')
    return place.error() << what << " must be " << rangeOf(most, orNone)
                         << ", found a minus sign";
  if (!named && !llvm::isDigit(*place.text()))
    return place.error("expected " + aRatio);

  int64_t num = 0, den = 1;
  bool whole = false;
  OptionalParseResult integer;
  if (auto parameter = dyn_cast_or_null<RatioAttr>(named)) {
    num = parameter.getNum();
    den = parameter.getDen();
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
      return place.error() << "a decimal ratio has at most "
                           << bundle::maxDecimals << " digits and lies in (0, "
                           << most << "]; write a fraction, such as 1/3";
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
  if ((num < 0 || (num == 0 && !orNone)) && den != 0)
    return place.error() << what << " must be " << rangeOf(most, orNone)
                         << ", found " << num << '/' << den;
  if (whole && !percent && most == 1 && num > 1 && den == 1) {
    InFlightDiagnostic error = place.error();
    error << what << " must be " << rangeOf(most, orNone) << ", found " << num;
    if (share && num <= 100)
      error << "; write " << num << " percent";
    return error;
  }
  auto error = [&] { return place.error(); };
  ratio = RatioAttr::getChecked(error, parser.getContext(), num, den);
  return success(ratio &&
                 succeeded(checkRatio(error, what, ratio, most, orNone)));
}

ParseResult mlir::heddle::parseNumber(AsmParser &parser, Attribute &value) {
  std::optional<int64_t> integer;
  RatioAttr ratio;
  if (*parser.getCurrentLocation().getPointer() == '-') {
    if (parser.parseInteger(integer.emplace()))
      return failure();
  } else if (NumberPlace place(parser);
             parseRatioOrInteger(parser, place, "a parameter", ratio,
                                 ::heddle::bundle::maxFactor, &integer,
                                 /*orNone=*/true)) {
    return failure();
  }
  value = integer ? Attribute(parser.getBuilder().getI64IntegerAttr(*integer))
                  : ratio;
  return success();
}

ParseResult mlir::heddle::parseRatio(AsmParser &parser, StringRef what,
                                     RatioAttr &ratio, int64_t most,
                                     bool orNone, bool share) {
  NumberPlace place(parser);
  return parseRatioOrInteger(parser, place, what, ratio, most, nullptr, orNone,
                             share);
}

void mlir::heddle::printRatio(AsmPrinter &printer, RatioAttr ratio) {
  printer << bundle::detail::spell(ratio.getValue());
}

ParseResult mlir::heddle::parseCountOrShare(AsmParser &parser, StringRef what,
                                            StringRef ofWhole, int64_t &count,
                                            RatioAttr &share) {
  NumberPlace place(parser);
  // Of a negative number the count's message says most.
  if (*place.text() == '-')
    return parseCount(parser, what, count);
  std::optional<int64_t> bare;
  if (parseRatioOrInteger(parser, place, ofWhole, share, 1, &bare))
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

//===----------------------------------------------------------------------===//
// Named arguments
//===----------------------------------------------------------------------===//

/// Whether `name =` comes next; the parser sees one token ahead.
static bool isNamed(AsmParser &parser) {
  const char *start = parser.getCurrentLocation().getPointer(), *text = start;
  while (llvm::isAlnum(*text) || *text == '_')
    ++text;
  const bool word = text != start;
  while (llvm::isSpace(*text))
    ++text;
  return word && *text == '=';
}

ParseResult
mlir::heddle::parseArguments(AsmParser &parser, StringRef owner,
                             const std::function<ParseResult()> &lone,
                             MutableArrayRef<NamedArgument> wanted) {
  auto names = [&] {
    return llvm::join(llvm::map_range(wanted,
                                      [](const NamedArgument &argument) {
                                        return argument.name;
                                      }),
                      ", ");
  };
  const std::string takes = wanted.empty() ? "one number" : names();
  SMLoc open = parser.getCurrentLocation();
  if (*open.getPointer() != '(') {
    // Behind the word: what comes next may stand lines below.
    const char *end = open.getPointer();
    while (llvm::isSpace(end[-1]))
      --end;
    return parser.emitError(SMLoc::getFromPointer(end))
           << owner << " needs "
           << (lone ? "a number" : "its arguments, " + names())
           << " in parentheses";
  }
  bool first = true;
  auto parseOne = [&]() -> ParseResult {
    if (std::exchange(first, false) && lone && !isNamed(parser))
      return lone();
    SMLoc loc = parser.getCurrentLocation();
    StringRef name;
    if (failed(parser.parseOptionalKeyword(&name)))
      return parser.emitError(loc)
             << owner << " takes "
             << (wanted.empty() ? takes : "named arguments: " + takes);
    NamedArgument *argument = llvm::find_if(
        wanted, [&](const NamedArgument &a) { return a.name == name; });
    if (argument == wanted.end())
      return suggesting(
          parser.emitError(loc) << owner << " has no argument '" << name
                                << "'; it takes " << takes,
          name, llvm::map_to_vector(wanted, [](const auto &argument) {
            return argument.name;
          }));
    if (argument->seen)
      return parser.emitError(loc)
             << "argument '" << name << "' is given twice";
    argument->seen = true;
    if (!argument->parse) {
      if (argument->flag)
        *argument->flag = true;
      return success();
    }
    if (llvm::isAlnum(*parser.getCurrentLocation().getPointer()))
      return wasWritten(parser, loc, owner + "(" + name + " n)",
                        owner + "(" + name + " = n)", (name + " =").str());
    return failure(parser.parseEqual() || argument->parse());
  };
  if (parser.parseCommaSeparatedList(AsmParser::Delimiter::Paren, parseOne))
    return failure();
  if (first && lone)
    return parser.emitError(open) << owner << " needs a number";
  for (const NamedArgument &argument : wanted)
    if (argument.required && !argument.seen)
      return parser.emitError(open)
             << owner << " needs argument '" << argument.name << "'";
  return success();
}

//===----------------------------------------------------------------------===//
// Cadences
//===----------------------------------------------------------------------===//

ParseResult mlir::heddle::parsePlace(AsmParser &parser, StringRef owner,
                                     StringRef other, RatioAttr &ratio) {
  NumberPlace place(parser);
  std::optional<int64_t> bare;
  if (parseRatioOrInteger(parser, place, ("the fraction of " + owner).str(),
                          ratio, 1, &bare))
    return failure();
  if (!bare)
    return success();
  if (*bare == 1) {
    ratio = RatioAttr::get(parser.getContext(), 1, 1);
    return success();
  }
  InFlightDiagnostic error =
      place.error(owner + " takes a fraction of the run");
  error << ", found " << *bare << "; write " << owner << '(' << other << " = "
        << *bare << ')';
  if (*bare > 1 && *bare < 100)
    error << ", or " << owner << '(' << *bare << " percent)";
  return error;
}

ParseResult mlir::heddle::parseCadence(AsmParser &parser,
                                       CadenceAttr &cadence) {
  bundle::Cadence value;
  FormReader reader(parser, "cadence");
  bundle::detail::fields(reader, value);
  if (reader.finish())
    return failure();
  cadence = CadenceAttr::get(parser.getContext(), value);
  return success();
}

void mlir::heddle::printCadence(AsmPrinter &printer, CadenceAttr cadence) {
  printer << toString(cadence.getValue());
}

ParseResult mlir::heddle::parseWhen(AsmParser &parser, WhenKindAttr &when,
                                    CadenceAttr &cadence) {
  SMLoc loc = parser.getCurrentLocation();
  StringRef word;
  (void)parser.parseOptionalKeyword(&word);
  std::optional<WhenKind> kind = wordOf<WhenKind>(word);
  if (!kind)
    return parser.emitError(loc, "a phase is `on` a cadence, `before` a "
                                 "cadence, or `otherwise`");
  when = WhenKindAttr::get(parser.getContext(), *kind);
  return *kind == WhenKind::Otherwise ? success()
                                      : parseCadence(parser, cadence);
}

void mlir::heddle::printWhen(AsmPrinter &printer, Operation *,
                             WhenKindAttr when, CadenceAttr cadence) {
  printer << spelled(when.getValue());
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

/// A word of an enumeration; `expected` says which there are.
template <typename E>
static ParseResult parseOneOf(AsmParser &parser, StringRef expected, E &value) {
  SMLoc loc = parser.getCurrentLocation();
  StringRef word;
  (void)parser.parseOptionalKeyword(&word);
  if (std::optional<E> found = wordOf<E>(word)) {
    value = *found;
    return success();
  }
  auto words = llvm::map_to_vector(
      namesOf(E()), [](std::string_view name) { return StringRef(name); });
  return suggesting(parser.emitError(loc, expected), word, words);
}

ParseResult mlir::heddle::parseScorer(AsmParser &parser, ScorerAttr &scorer) {
  Scorer value;
  SMLoc loc = parser.getCurrentLocation();
  StringRef word;
  (void)parser.parseOptionalKeyword(&word);
  if (std::optional<Scorer> found = wordOf<Scorer>(word))
    value = *found;
  else
    return unknownWord(parser, loc, "scorer", word, {"mean_probability"});
  scorer = ScorerAttr::get(parser.getContext(), value);
  return success();
}

ParseResult mlir::heddle::parseSelected(AsmParser &parser,
                                        SelectionRuleAttr &rule) {
  bundle::Selection value;
  if (parseOneOf(parser, "expected columns(...) or blocks(...)", value.kind))
    return failure();
  const bool blocks = value.kind == SelectionKind::Blocks;
  SMLoc rounding;
  SmallVector<NamedArgument, 4> wanted = {
      {"keep",
       [&]() -> ParseResult {
         RatioAttr keep;
         if (parseCountOrShare(parser, "the number that is kept", "keep",
                               value.count, keep))
           return failure();
         if (keep)
           value.keep = keep.getValue();
         return success();
       }},
      {blocks ? "size" : "group",
       [&] { return parseGroup(parser, value.group, blocks); }},
      {"rounding",
       [&] {
         rounding = parser.getCurrentLocation();
         return parseOneOf(parser,
                           "rounding is floor, ceil, round or floor_plus_one",
                           value.rule);
       },
       /*required=*/false}};
  if (!blocks) {
    wanted.push_back({"per_kv_head", nullptr, /*required=*/false,
                      /*seen=*/false, &value.perKvHead});
    wanted.push_back({"per_layer", nullptr, /*required=*/false,
                      /*seen=*/false, &value.perLayer});
  }
  ScorerAttr scorer;
  SMLoc start = parser.getCurrentLocation();
  if (parseArguments(parser, spelled(value.kind), nullptr, wanted))
    return failure();
  if (value.perKvHead && value.perLayer)
    return parser.emitError(start, "has a list for each key/value head and one "
                                   "for the layer; drop per_kv_head or "
                                   "per_layer");
  if (value.count > 0 && rounding.isValid())
    return parser.emitError(rounding)
           << "rounds a fraction of the " << (blocks ? "blocks" : "keys")
           << ", and `keep = " << value.count
           << "` is a number of them; drop it, or write a fraction, such as "
              "20 percent";
  if (parser.parseKeyword("by") || parseScorer(parser, scorer))
    return failure();
  value.scorer = scorer.getValue();
  SMLoc loc = parser.getCurrentLocation();
  if (succeeded(parser.parseOptionalKeyword("isolating"))) {
    if (!blocks)
      return parser.emitError(loc, "isolates spans, which only blocks can");
    StringRef expected = "spans are isolated as spans, aligned or filtered";
    if (parser.parseLParen())
      return failure();
    loc = parser.getCurrentLocation();
    if (parseOneOf(parser, expected, value.isolation))
      return failure();
    if (value.isolation == Isolation::None)
      return parser.emitError(loc, expected);
    if (parser.parseRParen())
      return failure();
  }
  loc = parser.getCurrentLocation();
  if (succeeded(parser.parseOptionalKeyword("scaled_by"))) {
    if (parser.parseLParen() ||
        parseOneOf(parser, "scores are scaled by head_dim or heads",
                   value.scale) ||
        parser.parseRParen())
      return failure();
    if (!blocks && value.scale != Scale::HeadDim)
      return parser.emitError(loc,
                              "is scaled by the heads, which only blocks can "
                              "be");
  }
  loc = parser.getCurrentLocation();
  if (succeeded(parser.parseOptionalKeyword("pooled"))) {
    if (blocks)
      return parser.emitError(loc,
                              "pools the scores of neighboring keys, which "
                              "only columns can: a block's score is the "
                              "mean of its keys'");
    if (parser.parseLParen())
      return failure();
    NumberPlace number(parser);
    if (number.parseInteger(value.pooled) ||
        failed(checkPooled([&] { return number.error(); }, value.pooled)) ||
        parser.parseRParen())
      return failure();
  }
  // What follows for columns.
  loc = parser.getCurrentLocation();
  if (blocks && (succeeded(parser.parseOptionalKeyword("of")) ||
                 succeeded(parser.parseOptionalKeyword("always"))))
    return parser.emitError(loc,
                            "names a set of positions, which only columns can");
  if (blocks && succeeded(parser.parseOptionalKeyword("within")))
    return parser.emitError(loc, "chooses within another selection, which only "
                                 "columns can");
  rule = SelectionRuleAttr::get(parser.getContext(), std::move(value));
  return success();
}

void mlir::heddle::printSelected(AsmPrinter &printer, SelectionRuleAttr rule) {
  const bundle::Selection value = rule.getValue();
  printer << spelled(value.kind) << "(keep = ";
  if (value.count > 0)
    printer << value.count;
  else
    printer << bundle::detail::spellShare(value.keep);
  printer << (value.kind == SelectionKind::Blocks ? ", size = " : ", group = ")
          << groupText(value.group);
  if (value.rule != KeepRule::Floor)
    printer << ", rounding = " << spelled(value.rule);
  printer << (value.perKvHead  ? ", per_kv_head) by "
              : value.perLayer ? ", per_layer) by "
                               : ") by ")
          << spelled(value.scorer);
  if (value.isolation != Isolation::None)
    printer << " isolating(" << spelled(value.isolation) << ')';
  if (value.scale != Scale::HeadDim)
    printer << " scaled_by(" << spelled(value.scale) << ')';
  if (value.pooled)
    printer << " pooled(" << value.pooled << ')';
}

/// The word at the place, or "".
static StringRef wordAt(SMLoc loc) {
  // No StringRef of all that follows: measuring it would read the whole text.
  const char *begin = loc.getPointer(), *end = begin;
  while (llvm::isAlnum(*end) || *end == '_')
    ++end;
  const bool word = llvm::isAlpha(*begin) && *end != '.' && *end != '$';
  return word ? StringRef(begin, static_cast<size_t>(end - begin)) : "";
}

ParseResult mlir::heddle::parseNoAttributes(OpAsmParser &parser,
                                            NamedAttrList &) {
  SMLoc loc = parser.getCurrentLocation();
  if (const char *name = parser.getNameLoc().getPointer();
      ParameterScope::isOpen() && std::strncmp(name, "heddle.", 7) == 0) {
    StringRef word = wordAt(SMLoc::getFromPointer(name + 7));
    return wasWritten(parser, parser.getNameLoc(), "heddle." + word, word,
                      word);
  }
  if (succeeded(parser.parseOptionalLBrace()))
    return parser.emitError(loc, "has no attributes in braces; "
                                 "write what it needs in its own words, such "
                                 "as window(64)");
  // MLIR would take a word that follows for another op, and say that there is
  // none.
  const StringRef word = wordAt(loc);
  auto op = RegisteredOperationName::lookup(("heddle." + word).str(),
                                            parser.getContext());
  if (!word.empty() && word != "loc" && !(op && isOfSchedules(*op)) &&
      (!beginsLine(loc.getPointer()) || llvm::is_contained(allWords(), word)))
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
    OpAsmParser &parser, SmallVectorImpl<OpAsmParser::UnresolvedOperand> &until,
    SmallVectorImpl<OpAsmParser::UnresolvedOperand> &pairs) {
  auto parenthesised =
      [&](SmallVectorImpl<OpAsmParser::UnresolvedOperand> &operands)
      -> ParseResult {
    return failure(parser.parseLParen() ||
                   parseValue(parser, operands.emplace_back()) ||
                   parser.parseRParen());
  };
  auto parsePairs = [&]() -> ParseResult {
    SMLoc loc = parser.getCurrentLocation();
    if (succeeded(parser.parseOptionalKeyword("pairs")))
      return parenthesised(pairs);
    InFlightDiagnostic error = parser.emitError(
        loc, until.empty() ? "expected dense, pairs(%value) or "
                             "dense until(%cadence) then pairs(%value)"
                           : "expected pairs(%value)");
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
    SmallVector<StringRef> words = {"pairs"};
    if (until.empty())
      words.push_back("dense");
    return suggesting(std::move(error), word, words);
  };
  if (failed(parser.parseOptionalKeyword("dense")) && parsePairs())
    return failure();
  while (succeeded(parser.parseOptionalKeyword("until")))
    if (parenthesised(until) || parser.parseKeyword("then") || parsePairs())
      return failure();
  return success();
}

void mlir::heddle::printAttended(OpAsmPrinter &printer, Operation *op,
                                 OperandRange, OperandRange) {
  for (AttendOp::Stage stage : cast<AttendOp>(op).getStages()) {
    if (stage.pairs)
      printer << "pairs(" << stage.pairs << ')';
    else
      printer << "dense";
    if (stage.until)
      printer << " until(" << stage.until << ") then ";
  }
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
