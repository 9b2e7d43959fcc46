//===- Utf8.h - Steps through UTF-8 -----------------------------*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_BUNDLE_UTF8_H
#define HEDDLE_BUNDLE_UTF8_H

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace heddle {

/// One step through UTF-8.
struct Utf8Step {
  /// The code point, or -1 where the bytes are not UTF-8.
  int32_t codepoint;
  /// Bytes to step over: the sequence, or the maximal subpart of an ill-formed
  /// one (at least 1). Source: Unicode 15, section 3.9, U+FFFD Substitution of
  /// Maximal Subparts.
  uint32_t length;
};

/// The step at `text[at]`, at < text.size().
Utf8Step utf8Step(std::string_view text, size_t at);

} // namespace heddle

#endif // HEDDLE_BUNDLE_UTF8_H
