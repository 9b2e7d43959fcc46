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

  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(int64_t) override { return true; }
  bool number_unsigned(uint64_t) override { return true; }
  bool number_float(double, const std::string &) override { return true; }
  bool string(std::string &) override { return true; }
  bool binary(json::binary_t &) override { return true; }
  bool start_object(size_t) override { return open(); }
  bool end_object() override { return close(); }
  bool start_array(size_t) override { return open(); }
  bool end_array() override { return close(); }
  bool parse_error(size_t, const std::string &,
                   const json::exception &) override {
    return false;
  }

  bool key(std::string &name) override {
    if (!keys.back().insert(name).second)
      problem = "an object has the key '" + printable(name) + "' twice";
    else if (keys.back().size() > maxKeys)
      problem = "an object has more than " + std::to_string(maxKeys) + " keys";
    return problem.empty();
  }

  std::string problem;

private:
  bool open() {
    if (keys.size() >= maxDepth)
      problem = "values are nested deeper than " + std::to_string(maxDepth);
    keys.emplace_back();
    return problem.empty();
  }

  bool close() {
    keys.pop_back();
    return true;
  }

  size_t maxDepth, maxKeys;
  std::vector<std::set<std::string>>
      keys; // of what is being read; arrays: none
};

} // namespace

std::string heddle::bundle::jsonProblem(std::string_view text, size_t maxDepth,
                                        size_t maxKeys) {
  Watch watch(maxDepth, maxKeys);
  json::sax_parse(text.begin(), text.end(), &watch);
  return std::move(watch.problem);
}
