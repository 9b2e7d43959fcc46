//===- Json.cpp - Parsing JSON with located errors ------------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/base/Json.h"

#include "bundle/format/StrictJson.h"
#include "bundle/program/Printable.h"

#include <algorithm>

#include <nlohmann/json.hpp>

namespace heddle::rt {

using nlohmann::json;

namespace {

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
  constexpr size_t maxDepth = 64;
  if (std::string problem = bundle::jsonProblem(text, maxDepth);
      !problem.empty())
    return Error(problem);
  json result;
  try {
    result = json::parse(text.begin(), text.end());
  } catch (const json::parse_error &error) {
    // "[json.exception.parse_error.101] parse error at line 1, column 2:
    // syntax error while parsing ..." - the place is ours, the reason theirs.
    std::string reason = error.what();
    size_t colon = reason.find(": ");
    if (colon != std::string::npos)
      reason = reason.substr(colon + 2);
    return Error("not valid JSON at " + locate(text, error.byte) + ": " +
                 printableLines(reason));
  } catch (const json::exception &error) {
    return Error(std::string("not valid JSON: ") + error.what());
  }
  if (!result.is_object())
    return Error(std::string("expected a JSON object ({...}), found ") +
                 result.type_name());
  return result;
}

} // namespace heddle::rt
