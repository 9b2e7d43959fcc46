//===- Utf8.h - UTF-8 by Unicode's table of well-formed sequences ---------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_TEXT_UTF8_H
#define HEDDLE_RUNTIME_TEXT_UTF8_H

#include "bundle/Utf8.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace heddle::rt::text {

/// The offset of the first byte that is not UTF-8, or nothing.
std::optional<size_t> findInvalidUtf8(std::string_view text);

/// The text with one U+FFFD for each maximal subpart that is not UTF-8.
std::string utf8Lossy(std::string_view bytes);

/// Appends a scalar value (not a surrogate, at most U+10FFFF).
void appendUtf8(std::string &text, int32_t codepoint);

/// Unicode's White_Space property.
bool isWhiteSpace(int32_t codepoint);

} // namespace heddle::rt::text

#endif // HEDDLE_RUNTIME_TEXT_UTF8_H
