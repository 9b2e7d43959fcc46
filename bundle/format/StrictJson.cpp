//===- StrictJson.cpp - What a JSON text may not hold ---------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "bundle/format/StrictJson.h"

#include "bundle/program/ManifestNames.h"
#include "bundle/program/Printable.h"

#include <set>
#include <vector>

#include <nlohmann/json.hpp>

using heddle::printable;
using nlohmann::json;

namespace {

/// Ends the parsing at the first problem.
class Watch : public json::json_sax_t {
public:
  Watch(size_t maxDepth, size_t maxKeys)
      : maxDepth(maxDepth), maxKeys(maxKeys) {}

  bool null() override { return value(); }
  bool boolean(bool) override { return value(); }
  bool number_integer(int64_t) override { return value(); }
  bool number_unsigned(uint64_t) override { return value(); }
  bool number_float(double, const std::string &) override { return value(); }
  bool string(std::string &) override { return value(); }
  bool binary(json::binary_t &) override { return value(); }
  bool start_object(size_t) override { return open(/*array=*/false); }
  bool end_object() override { return close(); }
  bool start_array(size_t) override { return open(/*array=*/true); }
  bool end_array() override { return close(); }
  bool parse_error(size_t, const std::string &,
                   const json::exception &) override {
    return false;
  }

  bool key(std::string &name) override {
    Level &level = levels.back();
    if (!level.keys.insert(name).second)
      problem =
          where() + "an object has the key '" + printable(name) + "' twice";
    else if (level.keys.size() > maxKeys)
      problem = where() + "an object has more than " + std::to_string(maxKeys) +
                " keys";
    level.key = name;
    return problem.empty();
  }

  std::string problem;

private:
  /// An object or array that is being read, and what of it.
  struct Level {
    bool array;
    size_t read = 0;      ///< of an array: its values
    std::string key = {}; ///< of an object
    std::set<std::string> keys = {};
  };

  bool value() {
    if (!levels.empty())
      ++levels.back().read;
    return true;
  }

  bool open(bool array) {
    if (levels.size() >= maxDepth)
      problem = "values are nested deeper than " + std::to_string(maxDepth);
    value();
    levels.push_back({.array = array});
    return problem.empty();
  }

  bool close() {
    levels.pop_back();
    return true;
  }

  /// "kernels[2].variants: ", where what is being read stands; "" for the
  /// whole.
  std::string where() const {
    std::string path;
    for (size_t i = 0; i + 1 < levels.size(); ++i)
      path += levels[i].array
                  ? "[" + std::to_string(levels[i].read - 1) + "]"
                  : (path.empty() ? "" : ".") + printable(levels[i].key);
    return path.empty() ? path : path + ": ";
  }

  size_t maxDepth, maxKeys;
  std::vector<Level> levels;
};

} // namespace

std::string heddle::bundle::jsonProblem(std::string_view text, size_t maxDepth,
                                        size_t maxKeys) {
  // The library takes it for the end of the text.
  if (const size_t nul = text.find('\0'); nul != text.npos)
    return "byte " + std::to_string(nul) + " is 0, which no JSON has";
  Watch watch(maxDepth, maxKeys);
  json::sax_parse(text.begin(), text.end(), &watch);
  return std::move(watch.problem);
}
