//===- FieldReader.h - Structs read from JSON, by their fields --*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Reading is strict: what a reader does not know it must not skip, because a
// schedule executed without one of its fields gives wrong tokens, not an error,
// and a table of tilings other kernels than it says.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_BUNDLE_FORMAT_FIELDREADER_H
#define HEDDLE_BUNDLE_FORMAT_FIELDREADER_H

#include "bundle/NearestWord.h"
#include "bundle/Result.h"
#include "bundle/format/ManifestFields.h"
#include "bundle/format/ManifestScores.h"
#include "bundle/program/ManifestNames.h"
#include "bundle/program/Printable.h"

#include "nlohmann/json.hpp"

#include <algorithm>
#include <bit>
#include <charconv>
#include <numeric>
#include <string>
#include <string_view>
#include <vector>

namespace heddle::bundle::detail {

using nlohmann::ordered_json;

/// Reads values and keeps the first error, with the path of its field. Once an
/// error is set every further read does nothing.
class FieldReader {
public:
  /// Indices are into what of `manifest` has been read so far. Errors begin
  /// with `head`; `missing` and `unknown` say what to do about a field,
  /// `places` which objects have one of a name.
  FieldReader(const Manifest &manifest, const char *head, const char *missing,
              const char *unknown,
              std::vector<std::string> (*places)(std::string_view) = nullptr)
      : manifest(manifest), head(head), missing(missing), unknown(unknown),
        places(places) {}

  bool failed() const { return !message.empty(); }
  Error takeError() { return Error(std::move(message)); }

  void fail(const std::string &path, const std::string &what) {
    if (message.empty())
      message = head + (path.empty() ? "" : ": " + path) + ": " + what;
  }

  void failMissing(const std::string &path, std::string_view name) {
    fail(path, "the field \"" + std::string(name) + "\" is missing" + missing);
  }
  /// `meant`: the field that is missing and that `name` is near to, or "";
  /// `perhaps`: the same of fields that may be missing.
  void failUnknown(const std::string &path, const std::string &name,
                   std::string_view meant, std::string_view perhaps) {
    if (!meant.empty())
      return fail(path, "the field \"" + printable(name) +
                            "\" is not known, and \"" + std::string(meant) +
                            "\" is missing; did you mean that?");
    const std::vector<std::string> all =
        places ? places(name) : std::vector<std::string>();
    if (all.empty())
      return fail(
          path, "the field \"" + printable(name) + "\" is not known" + unknown +
                    (perhaps.empty()
                         ? ""
                         : "; did you mean \"" + std::string(perhaps) + "\"?"));
    constexpr size_t mostNamed = 4;
    std::string others;
    for (size_t i = 0; i < std::min(all.size(), mostNamed); ++i)
      others += (i ? ", " : "") + all[i];
    if (all.size() > mostNamed)
      others += " and others";
    fail(path, "the field \"" + name + "\" is not known here: it belongs to " +
                   others + ", of the kinds that have it");
  }

  /// The fields that `body` says, of an object and no others.
  template <typename F>
  void object(const ordered_json &json, const std::string &path, F body);

  template <typename T, typename R = Any>
  void read(const ordered_json &json, const std::string &path, T &value,
            R rule = {}) {
    if (failed())
      return;
    if constexpr (std::is_same_v<T, bool>) {
      if (expect(json.is_boolean(), "true or false", json, path))
        value = json.get<bool>();
    } else if constexpr (std::is_same_v<R, Range>) {
      value =
          static_cast<T>(rule.base + integer(json, path, rule.low, rule.high));
    } else if constexpr (std::is_same_v<R, Group>) {
      value = json == groupOfAll ? groupOfAll
                                 : integer(json, path, minGroup, maxGroup);
      if (!failed() && !std::has_single_bit(static_cast<uint64_t>(value)))
        fail(path, std::to_string(value) + " is no power of two (P2)");
    } else if constexpr (isList<T>) {
      value.clear();
      if (expect(json.is_array(), "a list", json, path))
        for (const ordered_json &item : json) {
          typename T::value_type next = {};
          read(item, at(path, value.size()), next, rule);
          if (failed())
            return;
          value.push_back(std::move(next));
        }
    } else if constexpr (std::is_same_v<T, int64_t>) {
      value = index(json, path, (manifest.*rule.list).size(), rule.what,
                    rule.orNone);
    } else if constexpr (std::is_same_v<T, std::string>) {
      value = string(json, path);
      if constexpr (std::is_same_v<R, Text>)
        if (!failed() && !rule.holds(value))
          fail(path, "\"" + printable(value) + "\" " + rule.otherwise);
    } else if constexpr (std::is_enum_v<T>) {
      value = enumerator<T>(json, path);
    } else if constexpr (std::is_same_v<T, Ratio>) {
      value = ratio(json, path, rule);
    } else if constexpr (std::is_same_v<T, Scores>) {
      if (std::string problem = readScores(json, value); !problem.empty())
        fail(path, problem);
    } else {
      object(json, path, [&](auto &v) { fields(v, value); });
    }
  }

  bool expect(bool good, const char *what, const ordered_json &json,
              const std::string &path) {
    if (!good)
      fail(path,
           std::string("expected ") + what + ", found " + json.type_name());
    return good;
  }

private:
  std::string string(const ordered_json &json, const std::string &path) {
    if (!expect(json.is_string(), "a string", json, path))
      return "";
    const std::string &text = *json.get_ptr<const std::string *>();
    if (!isPlainText(text)) {
      fail(path, "\"" + printable(text) + "\" has control characters");
      return "";
    }
    return text;
  }

  int64_t integer(const ordered_json &json, const std::string &path,
                  int64_t low, int64_t high) {
    if (!expect(json.is_number_integer(), "an integer", json, path))
      return low;
    const bool fits =
        !json.is_number_unsigned() || json.get<uint64_t>() <= INT64_MAX;
    const int64_t value = json.get<int64_t>();
    if (!fits || value < low || value > high) {
      fail(path, json.dump() + " is out of range, expected " +
                     std::to_string(low) + " to " + std::to_string(high));
      return low;
    }
    return value;
  }

  /// An index into a list of `size` things called `what`.
  int64_t index(const ordered_json &json, const std::string &path, size_t size,
                const char *what, bool orNone) {
    if (orNone && json == -1)
      return -1;
    int64_t value = integer(json, path, 0, INT64_MAX);
    if (!failed() && static_cast<uint64_t>(value) >= size)
      fail(path,
           "index " + std::to_string(value) + " is out of range: there " +
               (size == 1 ? "is 1 " : "are " + std::to_string(size) + " ") +
               what + (size == 1 ? "" : "s"));
    return value;
  }

  template <typename E>
  E enumerator(const ordered_json &json, const std::string &path) {
    const std::string found = string(json, path);
    if (const std::optional<E> value = valueOf<E>(found))
      return *value;
    std::string expected;
    for (std::string_view name : namesOf(E()))
      expected += (expected.empty() ? "" : ", ") + std::string(name);
    fail(path, "\"" + printable(found) + "\" is " +
                   (std::is_same_v<E, RowOp>
                        ? "no row operation that this build knows"
                        : "unknown, expected one of " + expected));
    return E();
  }

  /// "num/den" in lowest terms.
  Ratio ratio(const ordered_json &json, const std::string &path, UpTo rule) {
    std::string found = string(json, path);
    const char *end = found.data() + found.size();
    Ratio value;
    auto [slash, error] = std::from_chars(found.data(), end, value.num);
    bool good = error == std::errc() && slash != end && *slash == '/';
    if (good) {
      auto [last, denError] = std::from_chars(slash + 1, end, value.den);
      good = denError == std::errc() && last == end;
    }
    good = good && value.num >= (rule.orNone ? 0 : 1) && value.den > 0 &&
           (value.num - 1) / rule.most < value.den &&
           std::gcd(value.num, value.den) == 1;
    if (good)
      return value;
    fail(path, "\"" + printable(found) + "\" is no fraction " +
                   (rule.orNone ? "from 0 to " : "above 0 and up to ") +
                   std::to_string(rule.most) +
                   " in lowest terms, such as \"3/10\"");
    return {1, 1};
  }

  const Manifest &manifest;
  std::string head, missing, unknown, message;
  std::vector<std::string> (*places)(std::string_view);
};

/// Hears the fields of an object twice: first their names, and of values the
/// kinds alone, so that an object with other fields is refused as that, then
/// the values.
class ObjectReader {
public:
  static constexpr bool writes = false;

  ObjectReader(FieldReader &in, const ordered_json &json,
               const std::string &path)
      : in(in), json(json), path(path) {}

  template <typename T, typename R = Any>
  void operator()(const char *name, T &value, R rule = {}) {
    constexpr bool isKind = std::is_same_v<R, Kind>;
    if (isKind && naming && !json.contains(name))
      return in.failMissing(path, name);
    if (isKind == naming && !in.failed())
      in.read(json[name], pathOf(name), value, valueRule(rule));
    if (naming)
      names.push_back(name);
  }
  bool has(const char *name, bool, const char * = "") {
    if (naming && !json.contains(name))
      absent.push_back(name);
    return json.contains(name);
  }
  bool word(const char *name, const char *text, bool &is) {
    is = json.contains(name) && json[name].is_string();
    if (naming && is)
      names.push_back(name);
    else if (is && json[name] != text)
      in.fail(pathOf(name), std::string("expected \"") + text +
                                "\" or {\"first\": ..., \"last\": ...}");
    return is;
  }
  template <typename F> void object(const char *name, F body) {
    if (naming)
      names.push_back(name);
    else
      in.object(json[name], pathOf(name), body);
  }

  /// Whether the object has the fields that were named and no others.
  bool endNames() {
    naming = false;
    std::vector<std::string_view> missing;
    for (std::string_view name : names)
      if (!json.contains(name))
        missing.push_back(name);
    std::vector<std::string> unknown;
    for (const auto &item : json.items())
      if (std::find(names.begin(), names.end(), item.key()) == names.end())
        unknown.push_back(item.key());
    // A slip is both. What has many fields or long names is none.
    auto nearest = [&](const std::string &name, const auto &words) {
      constexpr size_t mostCompared = 8, longest = 64;
      return unknown.size() <= mostCompared && name.size() <= longest
                 ? nearestOf(name, words)
                 : std::string_view();
    };
    for (const std::string &name : unknown)
      if (auto meant = nearest(name, missing); !meant.empty())
        in.failUnknown(path, name, meant, "");
    for (std::string_view name : missing)
      in.failMissing(path, name);
    for (const std::string &name : unknown)
      in.failUnknown(path, name, "", nearest(name, absent));
    return !in.failed();
  }

private:
  std::string pathOf(const char *name) const {
    return path.empty() ? name : path + "." + name;
  }

  FieldReader &in;
  const ordered_json &json;
  const std::string &path;
  bool naming = true;
  std::vector<std::string_view> names;
  std::vector<std::string_view> absent; ///< of those that may be left out
};

template <typename F>
void FieldReader::object(const ordered_json &json, const std::string &path,
                         F body) {
  if (failed() || !expect(json.is_object(), "an object", json, path))
    return;
  ObjectReader reader(*this, json, path);
  body(reader);
  if (!failed() && reader.endNames())
    body(reader);
}

} // namespace heddle::bundle::detail

#endif // HEDDLE_BUNDLE_FORMAT_FIELDREADER_H
