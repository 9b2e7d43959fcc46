//===- Utf8.cpp - UTF-8 by Unicode's table of well-formed sequences -------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/text/Utf8.h"

using namespace heddle::rt;

std::optional<size_t> text::findInvalidUtf8(std::string_view text) {
  for (size_t at = 0; at < text.size();) {
    Utf8Step step = utf8Step(text, at);
    if (step.codepoint < 0)
      return at;
    at += step.length;
  }
  return std::nullopt;
}

std::string text::utf8Lossy(std::string_view bytes) {
  std::string out;
  out.reserve(bytes.size());
  for (size_t at = 0; at < bytes.size();) {
    Utf8Step step = utf8Step(bytes, at);
    if (step.codepoint < 0)
      out += "\xEF\xBF\xBD";
    else
      out.append(bytes, at, step.length);
    at += step.length;
  }
  return out;
}

void text::appendUtf8(std::string &text, int32_t codepoint) {
  auto put = [&](uint32_t byte) { text += static_cast<char>(byte); };
  uint32_t value = static_cast<uint32_t>(codepoint);
  if (value < 0x80) {
    put(value);
  } else if (value < 0x800) {
    put(0xC0 | value >> 6);
    put(0x80 | (value & 0x3F));
  } else if (value < 0x10000) {
    put(0xE0 | value >> 12);
    put(0x80 | (value >> 6 & 0x3F));
    put(0x80 | (value & 0x3F));
  } else {
    put(0xF0 | value >> 18);
    put(0x80 | (value >> 12 & 0x3F));
    put(0x80 | (value >> 6 & 0x3F));
    put(0x80 | (value & 0x3F));
  }
}

bool text::isWhiteSpace(int32_t c) {
  return (c >= 0x09 && c <= 0x0D) || c == 0x20 || c == 0x85 || c == 0xA0 ||
         c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 ||
         c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
}
