//===- Numbers.cpp - Numbers as schedules write them ----------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Ratios, counts and groups, each also by a parameter's name: what no format of
// TableGen's can say.
//
//===----------------------------------------------------------------------===//

#include "Assembly.h"
#include "Parameters.h"
#include "bundle/program/ManifestNames.h"

#include <charconv>
#include <numeric>

using namespace mlir;
using namespace mlir::heddle;
namespace bundle = ::heddle::bundle;

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

ParseResult mlir::heddle::parsePooled(AsmParser &parser, int64_t &pooled) {
  NumberPlace place(parser);
  return failure(place.parseInteger(pooled) ||
                 failed(checkPooled([&] { return place.error(); }, pooled)));
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
                                       bundle::Ratio ratio, int64_t most,
                                       bool orNone) {
  if ((ratio.num - 1) / most < ratio.den && (ratio.num > 0 || orNone))
    return success();
  return emitError() << what << " must be " << rangeOf(most, orNone)
                     << ", found " << ratio.num << '/' << ratio.den;
}

static constexpr StringLiteral aRatio =
    "a ratio, such as 1/5, 0.2 or 20 percent";

/// `1/5`, `0.2`, `20 percent`; a bare integer, too, which `bare` takes
/// instead of `ratio` unless it is null. Or a parameter that is one of these.
static ParseResult parseRatioOrInteger(AsmParser &parser, NumberPlace &place,
                                       StringRef what, bundle::Ratio &ratio,
                                       int64_t most,
                                       std::optional<int64_t> *bare,
                                       bool orNone = false, bool share = true) {
  if (place.checkPercent(100 * most))
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
                         << ", found " << num;
  if (whole && !percent && most == 1 && num > 1 && den == 1) {
    InFlightDiagnostic error = place.error();
    error << what << " must be " << rangeOf(most, orNone) << ", found " << num;
    if (share && num <= 100)
      error << "; write " << num << " percent";
    return error;
  }
  auto error = [&] { return place.error(); };
  ratio = {num, den};
  return success(succeeded(RatioAttr::verify(error, num, den)) &&
                 succeeded(checkRatio(error, what, ratio, most, orNone)));
}

ParseResult mlir::heddle::parseNumber(AsmParser &parser, Attribute &value) {
  std::optional<int64_t> integer;
  bundle::Ratio ratio;
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
                  : RatioAttr::get(parser.getContext(), ratio.num, ratio.den);
  return success();
}

ParseResult mlir::heddle::parseRatio(AsmParser &parser, StringRef what,
                                     bundle::Ratio &ratio, int64_t most,
                                     bool orNone, bool share) {
  NumberPlace place(parser);
  return parseRatioOrInteger(parser, place, what, ratio, most, nullptr, orNone,
                             share);
}

ParseResult mlir::heddle::parseShare(AsmParser &parser, RatioAttr &share) {
  bundle::Ratio ratio;
  if (parseRatio(parser, "the share", ratio))
    return failure();
  share = RatioAttr::get(parser.getContext(), ratio.num, ratio.den);
  return success();
}

void mlir::heddle::printShare(AsmPrinter &printer, Operation *,
                              RatioAttr share) {
  printer << bundle::detail::spell(share.getValue());
}

ParseResult mlir::heddle::parseCountOrShare(AsmParser &parser, StringRef what,
                                            StringRef ofWhole, int64_t &count,
                                            bundle::Ratio &share) {
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

ParseResult mlir::heddle::parsePlace(AsmParser &parser, StringRef owner,
                                     StringRef other, bundle::Ratio &ratio) {
  NumberPlace place(parser);
  std::optional<int64_t> bare;
  if (parseRatioOrInteger(parser, place, ("the fraction of " + owner).str(),
                          ratio, 1, &bare))
    return failure();
  if (!bare)
    return success();
  if (*bare == 1) {
    ratio = {1, 1};
    return success();
  }
  InFlightDiagnostic error =
      place.error(owner + " takes a fraction of the run");
  error << ", found " << *bare;
  // C1
  if (*bare < 1)
    return error << "; steps count from 1: write " << owner << '(' << other
                 << " = 1) for the first one";
  error << "; write " << owner << '(' << other << " = " << *bare << ')';
  if (*bare > 1 && *bare < 100)
    error << ", or " << owner << '(' << *bare << " percent)";
  return error;
}
