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
  bundle::Ratio ratio;
  if (parser.parseLess() ||
      parseRatio(parser, "a ratio", ratio, bundle::maxFactor,
                 /*orNone=*/true) ||
      parser.parseGreater())
    return {};
  return get(parser.getContext(), ratio.num, ratio.den);
}

void RatioAttr::print(AsmPrinter &printer) const {
  printer << '<' << bundle::detail::spell(getValue()) << '>';
}

//===----------------------------------------------------------------------===//
// Structs
//===----------------------------------------------------------------------===//

namespace {
/// Hears the numbers of a struct that its text has, those of cadences in it and
/// of lists, too: where hashes leave out what differs, many attributes have
/// one.
class Numbers {
public:
  static constexpr bool writes = true;
  SmallVector<int64_t, 16> all;

  template <typename T, typename R = bundle::detail::Any>
  void operator()(const char *, const T &value, R = {}) {
    add(value);
  }
  bool has(const char *, bool needed, const char * = "") {
    all.push_back(needed);
    return needed;
  }
  template <typename F> void object(const char *, F body) { body(*this); }

private:
  template <typename T> void add(const T &value) {
    if constexpr (std::is_arithmetic_v<T> || std::is_enum_v<T>)
      all.push_back(static_cast<int64_t>(value));
    else if constexpr (std::is_same_v<T, bundle::Ratio>)
      all.append({value.num, value.den});
    else if constexpr (std::is_same_v<T, bundle::Cadence> ||
                       std::is_same_v<T, bundle::When>)
      bundle::detail::fields(*this, value);
  }
  template <typename T> void add(const std::vector<T> &values) {
    all.push_back(static_cast<int64_t>(values.size()));
    for (const T &each : values)
      add(each);
  }
};
} // namespace

template <typename T>
static SmallVector<int64_t, 16> numbersOf(const T &value) {
  Numbers numbers;
  bundle::detail::fields(numbers, value);
  return std::move(numbers.all);
}

template <bundle::HeldByAttribute T>
llvm::hash_code bundle::hash_value(const T &value) {
  return llvm::hash_combine_range(::numbersOf(value));
}
template llvm::hash_code bundle::hash_value(const Cadence &);
template llvm::hash_code bundle::hash_value(const Selection &);
template llvm::hash_code bundle::hash_value(const CommitRule &);
template llvm::hash_code bundle::hash_value(const Positions &);
template llvm::hash_code bundle::hash_value(const Pass &);
template llvm::hash_code bundle::hash_value(const Reuse &);
template llvm::hash_code bundle::hash_value(const Kernel &);
template llvm::hash_code bundle::hash_value(const When &);
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
