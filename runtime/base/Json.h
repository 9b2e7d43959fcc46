//===- Json.h - Parsing JSON with located errors ----------------*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_BASE_JSON_H
#define HEDDLE_RUNTIME_BASE_JSON_H

#include "bundle/Result.h"

#include <string>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

namespace heddle::rt {

/// Parses a JSON text whose outermost value is an object. Refused, with line
/// and column where it helps: broken syntax, invalid UTF-8, anything but an
/// object, nesting deeper than 64, and a key that an object has twice
/// (parsers disagree on which one counts).
Result<nlohmann::json> parseJsonObject(std::string_view text);

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_BASE_JSON_H
