//===- Attributes.cpp - Ratios, cadences and layer ranges -----------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Assembly.h"
#include "bundle/format/ManifestFields.h"
#include "heddle/Dialect/Heddle/IR/Program.h"

#include <numeric>

using namespace mlir;
using namespace mlir::heddle;
namespace bundle = ::heddle::bundle;

//===----------------------------------------------------------------------===//
// RatioAttr
//===----------------------------------------------------------------------===//

LogicalResult RatioAttr::verify(EmitError emitError, int64_t num, int64_t den) {
  if (den == 0)
    return emitError() << "a ratio's denominator must not be 0";
  if (den < 0 || num < 0)
    return emitError() << "a ratio must not be negative, found " << num << '/'
                       << den;
  if (std::gcd(num, den) != 1)
    return emitError() << "a ratio must be in lowest terms, found " << num
                       << '/' << den;
  return success();
}

Attribute RatioAttr::parse(AsmParser &parser, Type) {
  RatioAttr ratio;
  if (parser.parseLess() ||
      parseRatio(parser, "a ratio", ratio, ::heddle::bundle::maxFactor,
                 /*orNone=*/true) ||
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
// Structs
//===----------------------------------------------------------------------===//

namespace {
/// Hears the fields of a struct that its text has.
class Hasher {
public:
  static constexpr bool writes = true;
  llvm::hash_code code = 0;

  template <typename T, typename R = bundle::detail::Any>
  void operator()(const char *, const T &value, R = {}) {
    if constexpr (std::is_arithmetic_v<T> || std::is_enum_v<T>)
      code = llvm::hash_combine(code, value);
    else if constexpr (std::is_same_v<T, bundle::Ratio>)
      code = llvm::hash_combine(code, value.num, value.den);
  }
  bool has(const char *, bool needed, const char * = "") { return needed; }
};
} // namespace

template <typename T> static llvm::hash_code hashOf(const T &value) {
  Hasher hasher;
  bundle::detail::fields(hasher, value);
  return hasher.code;
}
llvm::hash_code bundle::hash_value(const Cadence &value) {
  return hashOf(value);
}
llvm::hash_code bundle::hash_value(const Selection &value) {
  return hashOf(value);
}
llvm::hash_code bundle::hash_value(const CommitRule &value) {
  return hashOf(value);
}
llvm::hash_code bundle::hash_value(const Term &value) {
  llvm::hash_code code =
      llvm::hash_combine(value.kind, value.share.num, value.share.den);
  for (const SetNumber &number : numbersOf(value.kind))
    code = llvm::hash_combine(code, value.*number.number);
  for (const Term &each : value.within)
    code = llvm::hash_combine(code, hash_value(each));
  return code;
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
