//===- Attributes.cpp - Ratios, cadences and layer ranges -----------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Assembly.h"
#include "bundle/program/ProgramChecks.h"
#include "heddle/Dialect/Heddle/IR/Program.h"

#include <numeric>

using namespace mlir;
using namespace mlir::heddle;

//===----------------------------------------------------------------------===//
// RatioAttr
//===----------------------------------------------------------------------===//

LogicalResult RatioAttr::verify(EmitError emitError, int64_t num, int64_t den) {
  if (den == 0)
    return emitError() << "a ratio's denominator must not be 0";
  if (den < 0 || num <= 0)
    return emitError() << "a ratio must be more than 0, found " << num << '/'
                       << den;
  if (std::gcd(num, den) != 1)
    return emitError() << "a ratio must be in lowest terms, found " << num
                       << '/' << den;
  return success();
}

Attribute RatioAttr::parse(AsmParser &parser, Type) {
  RatioAttr ratio;
  if (parser.parseLess() ||
      parseRatio(parser, "a ratio", ratio, ::heddle::bundle::maxFactor) ||
      parser.parseGreater())
    return {};
  return ratio;
}

void RatioAttr::print(AsmPrinter &printer) const {
  printer << '<';
  printRatio(printer, *this);
  printer << '>';
}

//===----------------------------------------------------------------------===//
// CadenceAttr
//===----------------------------------------------------------------------===//

Attribute CadenceAttr::parse(AsmParser &parser, Type) {
  CadenceAttr cadence;
  if (parser.parseLess() || parseCadence(parser, cadence) ||
      parser.parseGreater())
    return {};
  return cadence;
}

void CadenceAttr::print(AsmPrinter &printer) const {
  printer << '<';
  printCadence(printer, *this);
  printer << '>';
}

/// The numbers that each kind has; all others are zero.
LogicalResult CadenceAttr::verify(EmitError emitError, CadenceKind kind,
                                  RatioAttr fraction, int64_t count,
                                  int64_t period, int64_t step, int64_t seed,
                                  int64_t from, bool inBlock, bool afterEos) {
  bool hasCount = false, hasPeriod = false, hasStep = false, hasSeed = false;
  bool hasFraction = false;
  switch (kind) {
  case CadenceKind::Never:
    break;
  case CadenceKind::Every:
    hasPeriod = true;
    break;
  case CadenceKind::First:
    hasCount = true;
    break;
  case CadenceKind::At:
    (fraction ? hasFraction : hasStep) = true;
    break;
  case CadenceKind::Random:
    hasSeed = true;
    [[fallthrough]];
  case CadenceKind::Uniform:
  case CadenceKind::Power:
    hasFraction = hasCount = true;
    break;
  }
  StringRef name = stringifyCadenceKind(kind);
  auto check = [&](bool has, StringRef what, int64_t value) -> LogicalResult {
    if (has)
      return checkCount(emitError, ("the " + what + " of " + name).str(),
                        value);
    if (value != 0)
      return emitError() << name << " has no " << what << ", found " << value;
    return success();
  };
  // C1: counts, periods and absolute steps are from 1 to 2147483647.
  if (failed(check(hasCount, "count", count)) ||
      failed(check(hasPeriod, "period", period)) ||
      failed(check(hasStep, "step", step)))
    return failure();
  if (hasFraction != static_cast<bool>(fraction))
    return emitError() << name
                       << (hasFraction ? " needs a ratio" : " has no ratio");
  // P1: fractions are at most 1.
  if (fraction && failed(checkRatio(emitError, "a ratio", fraction)))
    return failure();
  bool hasFrom = hasPeriod || (kind == CadenceKind::At && fraction);
  if (hasFrom && failed(checkCount(emitError,
                                   hasPeriod ? "the first step of every"
                                             : "the step after a fraction",
                                   from)))
    return failure();
  if (!hasFrom && from != 1)
    return emitError() << "only every and a fraction of at begin later, found "
                       << from;
  // C3: there must be steps to count.
  if (inBlock && kind == CadenceKind::Never)
    return emitError() << "never has no steps to count in a block";
  if (afterEos && kind == CadenceKind::Never)
    return emitError() << "never has no steps, also after EOS";
  // C2: seeds are not negative.
  if (seed < 0 || (!hasSeed && seed != 0))
    return emitError() << (hasSeed ? "a seed must not be negative, found "
                                   : "only random has a seed, found ")
                       << seed;
  return success();
}

bool CadenceAttr::includesFirstStep() const {
  return ::heddle::bundle::includesFirst(toBundle(*this));
}

bool CadenceAttr::startsNoLaterThan(CadenceAttr other) const {
  return ::heddle::bundle::startsNoLater(toBundle(*this), toBundle(other));
}

bool CadenceAttr::includesAllOf(CadenceAttr other) const {
  return ::heddle::bundle::includesAll(toBundle(*this), toBundle(other));
}

//===----------------------------------------------------------------------===//
// LayerRangeAttr
//===----------------------------------------------------------------------===//

LogicalResult LayerRangeAttr::verify(EmitError emitError, int64_t first,
                                     int64_t last) {
  // L1: both ends count from the same end of the model, in order.
  if ((first < 0) != (last < 0))
    return emitError() << "both ends of a layer range must count from the same "
                          "end of the model, found "
                       << first << " to " << last
                       << "; write two ranges instead";
  constexpr int64_t most = ::heddle::bundle::maxCount;
  if (first < -most || last > most)
    return emitError() << "layers are numbered from " << -most << " to " << most
                       << ", found " << first << " to " << last;
  if (first > last)
    return emitError() << "a layer range must not be empty, found " << first
                       << " to " << last;
  return success();
}

bool LayerRangeAttr::overlaps(LayerRangeAttr other) const {
  return (getFirst() < 0) == (other.getFirst() < 0) &&
         getFirst() <= other.getLast() && other.getFirst() <= getLast();
}

//===----------------------------------------------------------------------===//
// Terms
//===----------------------------------------------------------------------===//

FlatSymbolRefAttr mlir::heddle::selectionOf(Attribute term) {
  if (auto columns = dyn_cast<ColumnsTermAttr>(term))
    return columns.getSelection();
  if (auto blocks = dyn_cast<BlocksTermAttr>(term))
    return blocks.getSelection();
  return {};
}
