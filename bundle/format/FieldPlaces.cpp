//===- FieldPlaces.cpp - Where a manifest has a field ---------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "bundle/format/FieldPlaces.h"

#include "bundle/format/ManifestFields.h"
#include "bundle/format/ManifestScores.h"
#include "bundle/program/ManifestNames.h"

#include <algorithm>
#include <type_traits>

using namespace heddle::bundle;
using namespace heddle::bundle::detail;

namespace {

/// Hears the fields of an object of the kind at one place of its enumeration,
/// with all optional ones or with none.
class PlaceFinder {
public:
  static constexpr bool writes = false;

  PlaceFinder(std::string_view wanted, size_t kind, bool optional,
              std::string path, std::vector<std::string> &found)
      : wanted(wanted), kind(kind), optional(optional), path(std::move(path)),
        found(found) {}

  template <typename T, typename R = Any>
  void operator()(const char *name, T &value, R = {}) {
    hear(name);
    if constexpr (std::is_enum_v<T>) {
      value = static_cast<T>(kind % namesOf(T()).size());
    } else if constexpr (isList<T>) {
      typename T::value_type element{};
      descend(std::string(name) + "[]", element);
    } else {
      descend(name, value);
    }
  }
  bool has(const char *, bool, const char * = "") { return optional; }
  bool word(const char *name, const char *, bool &is) {
    hear(name);
    return is = false;
  }
  template <typename F> void object(const char *name, F body) {
    hear(name);
    PlaceFinder inner(wanted, kind, optional, pathOf(name), found);
    body(inner);
  }

private:
  void hear(const char *name) {
    const std::string place = path.empty() ? "the manifest" : path;
    if (name == wanted &&
        std::find(found.begin(), found.end(), place) == found.end())
      found.push_back(place);
  }
  std::string pathOf(const std::string &name) const {
    return path.empty() ? name : path + "." + name;
  }
  template <typename T> void descend(const std::string &name, T &value) {
    if constexpr (std::is_class_v<T> && !std::is_same_v<T, std::string> &&
                  !std::is_same_v<T, Ratio> && !std::is_same_v<T, Scores> &&
                  !isList<T>) {
      if (path.ends_with("." + name)) // terms stand within terms
        return;
      PlaceFinder inner(wanted, kind, optional, pathOf(name), found);
      fields(inner, value);
    }
  }

  std::string_view wanted;
  size_t kind;
  bool optional;
  std::string path;
  std::vector<std::string> &found;
};

} // namespace

std::vector<std::string>
heddle::bundle::detail::placesOfField(std::string_view name) {
  constexpr size_t kinds = 64; // more than any enumeration has
  std::vector<std::string> found;
  for (size_t kind = 0; kind < kinds; ++kind)
    for (bool optional : {true, false}) {
      Manifest manifest;
      PlaceFinder finder(name, kind, optional, "", found);
      fields(finder, manifest);
    }
  return found;
}
