//===- ManifestWriter.cpp - The manifest written as JSON ------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "bundle/format/ManifestFields.h"
#include "bundle/format/ManifestJson.h"
#include "bundle/format/ManifestScores.h"
#include "bundle/program/ManifestNames.h"

#include "nlohmann/json.hpp"

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
    json[name] = written(value, valueRule(rule));
  }
  bool has(const char *, bool needed, const char * = "") { return needed; }
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

std::string heddle::bundle::toJson(const Manifest &manifest) {
  Writer writer;
  fields(writer, manifest);
  // Names that are not UTF-8 must not throw here; they lose the bad bytes.
  return writer.json.dump(2, ' ', false,
                          ordered_json::error_handler_t::replace) +
         "\n";
}
