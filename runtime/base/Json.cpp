//===- Json.cpp - Parsing JSON with located errors ------------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/base/Json.h"

#include <algorithm>
#include <set>
#include <vector>

#include <nlohmann/json.hpp>

namespace heddle::rt {

using nlohmann::json;

namespace {

constexpr int maxDepth = 64;

/// "line 3, column 17" of a byte offset.
std::string locate(std::string_view text, size_t offset) {
  std::string_view before = text.substr(0, std::min(offset, text.size()));
  size_t line = 1 + std::count(before.begin(), before.end(), '\n');
  size_t start = before.find_last_of('\n');
  size_t column =
      before.size() - (start == std::string_view::npos ? 0 : start + 1);
  return "line " + std::to_string(line) + ", column " +
         std::to_string(std::max<size_t>(column, 1));
}

} // namespace

Result<json> parseJsonObject(std::string_view text) {
  std::vector<std::set<std::string>> keys; // of the objects being read
  std::string problem;
  // Returning false only drops a value, so that a problem is kept for the end
  // and everything after it dropped.
  auto watch = [&](int depth, json::parse_event_t event, json &value) {
    if (!problem.empty())
      return false;
    switch (event) {
    case json::parse_event_t::object_start:
      keys.emplace_back();
      [[fallthrough]];
    case json::parse_event_t::array_start:
      if (depth >= maxDepth)
        problem = "values are nested deeper than " + std::to_string(maxDepth);
      break;
    case json::parse_event_t::object_end:
      keys.pop_back();
      break;
    case json::parse_event_t::key:
      if (!keys.back().insert(value.get<std::string>()).second)
        problem =
            "an object has the key '" + value.get<std::string>() + "' twice";
      break;
    default:
      break;
    }
    return problem.empty();
  };
  json result;
  try {
    result = json::parse(text.begin(), text.end(), watch);
  } catch (const json::parse_error &error) {
    // "[json.exception.parse_error.101] parse error at line 1, column 2:
    // syntax error while parsing ..." - the place is ours, the reason theirs.
    std::string reason = error.what();
    size_t colon = reason.find(": ");
    if (colon != std::string::npos)
      reason = reason.substr(colon + 2);
    return Error("not valid JSON at " + locate(text, error.byte) + ": " +
                 reason);
  } catch (const json::exception &error) {
    return Error(std::string("not valid JSON: ") + error.what());
  }
  if (!problem.empty())
    return Error(problem);
  if (!result.is_object())
    return Error(std::string("expected a JSON object ({...}), found ") +
                 result.type_name());
  return result;
}

} // namespace heddle::rt
