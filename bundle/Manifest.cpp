//===- Manifest.cpp - The manifest written as JSON ------------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "bundle/Manifest.h"
#include "bundle/ManifestFields.h"
#include "bundle/ManifestNames.h"
#include "bundle/ManifestScores.h"

#include "nlohmann/json.hpp"

#include <algorithm>

using namespace heddle;
using namespace heddle::bundle;
using namespace heddle::bundle::detail;
using nlohmann::ordered_json;

namespace {

/// Takes the fields of a struct into an object.
class Writer {
public:
  static constexpr bool writes = true;
  ordered_json json;

  template <typename T, typename R = Any>
  void operator()(const char *name, const T &value, R rule = {}) {
    json[name] = written(value, rule);
  }
  bool has(const char *, bool needed) { return needed; }
  bool word(const char *name, const char *text, bool is) {
    if (is)
      json[name] = text;
    return is;
  }
  template <typename F> void object(const char *name, F body) {
    Writer inner;
    body(inner);
    json[name] = std::move(inner.json);
  }

private:
  template <typename T, typename R>
  static ordered_json written(const T &value, R rule) {
    if constexpr (std::is_same_v<R, Range>) {
      return static_cast<int64_t>(value) - rule.base;
    } else if constexpr (std::is_arithmetic_v<T> ||
                         std::is_same_v<T, std::string>) {
      return value;
    } else if constexpr (std::is_enum_v<T>) {
      return std::string(nameOf(value));
    } else if constexpr (std::is_same_v<T, Ratio>) {
      return detail::toString(value);
    } else if constexpr (std::is_same_v<T, Scores>) {
      return detail::toJson(value);
    } else if constexpr (isList<T>) {
      ordered_json list = ordered_json::array();
      for (const auto &item : value)
        list.push_back(written(item, rule));
      return list;
    } else {
      Writer inner;
      fields(inner, value);
      return std::move(inner.json);
    }
  }
};

} // namespace

std::string_view heddle::bundle::nameOf(Encoding encoding) {
  return namesOf(encoding)[static_cast<size_t>(encoding)];
}

std::optional<Encoding> heddle::bundle::encodingFor(const Target &target,
                                                    int64_t n) {
  for (Encoding encoding : target.encodings)
    if (holds(encoding, n))
      return encoding;
  return std::nullopt;
}

std::string heddle::bundle::toString(const Target &target) {
  return target.kind == Target::Kind::Host ? target.triple + ", " + target.cpu
                                           : target.cpu;
}

std::string heddle::bundle::toString(const std::vector<Target> &targets) {
  std::string text;
  for (const Target &target : targets)
    text += (text.empty() ? "" : "; ") + toString(target);
  return text;
}

int64_t heddle::bundle::hostTarget(const Manifest &manifest) {
  for (size_t i = 0; i < manifest.targets.size(); ++i)
    if (manifest.targets[i].kind == Target::Kind::Host)
      return static_cast<int64_t>(i);
  return -1;
}

bool Kernel::hasLists() const {
  return kind == Kind::Select ||
         std::any_of(terms.begin(), terms.end(), readsList);
}

bool Kernel::comparesPositions() const {
  return scores.usesPositions() ||
         std::any_of(terms.begin(), terms.end(),
                     [](const Term &term) { return !readsList(term); });
}

std::string heddle::bundle::variantSymbol(std::string_view kernel,
                                          std::string_view dtype,
                                          int64_t headDim, Encoding encoding) {
  const char *suffix = encoding == Encoding::Int32    ? "_i32"
                       : encoding == Encoding::Uint16 ? "_u16"
                                                      : "_bitmap";
  return variantSymbol(kernel, dtype, headDim) + suffix;
}

std::string heddle::bundle::expectedSymbol(const Kernel &kernel,
                                           const KernelVariant &variant,
                                           const Target &target) {
  const std::string symbol =
      target.kind == Target::Kind::Cuda && kernel.hasLists()
          ? variantSymbol(kernel.name, variant.dtype, variant.headDim,
                          variant.encoding)
          : variantSymbol(kernel.name, variant.dtype, variant.headDim);
  return variant.allRows         ? allRowsSymbol(symbol)
         : variant.leastKeys > 0 ? longSymbol(symbol)
                                 : symbol;
}

std::string heddle::bundle::toJson(const Manifest &manifest) {
  Writer writer;
  fields(writer, manifest);
  // Names that are not UTF-8 must not throw here; they lose the bad bytes.
  return writer.json.dump(2, ' ', false,
                          ordered_json::error_handler_t::replace) +
         "\n";
}
