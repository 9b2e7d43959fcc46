//===- Utf8.cpp - UTF-8 by Unicode's table of well-formed sequences -------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/text/Utf8.h"

using namespace heddle::rt;

text::Utf8Step text::utf8Step(std::string_view text, size_t at) {
  auto byte = [&](size_t i) -> uint32_t {
    return at + i < text.size() ? static_cast<unsigned char>(text[at + i]) : 0;
  };
  uint32_t lead = byte(0);
  if (lead < 0x80)
    return {static_cast<int32_t>(lead), 1};
  // The second byte's range depends on the lead: no overlong form, no
  // surrogate, nothing above U+10FFFF.
  uint32_t trailing, low = 0x80, high = 0xBF;
  if (lead >= 0xC2 && lead <= 0xDF) {
    trailing = 1;
  } else if (lead >= 0xE0 && lead <= 0xEF) {
    trailing = 2;
    low = lead == 0xE0 ? 0xA0 : 0x80;
    high = lead == 0xED ? 0x9F : 0xBF;
  } else if (lead >= 0xF0 && lead <= 0xF4) {
    trailing = 3;
    low = lead == 0xF0 ? 0x90 : 0x80;
    high = lead == 0xF4 ? 0x8F : 0xBF;
  } else {
    return {-1, 1};
  }
  uint32_t value = lead & (0x3Fu >> trailing);
  for (uint32_t i = 1; i <= trailing; ++i) {
    uint32_t next = byte(i);
    if (next < low || next > high)
      return {-1, i};
    value = value << 6 | (next & 0x3F);
    low = 0x80;
    high = 0xBF;
  }
  return {static_cast<int32_t>(value), trailing + 1};
}

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
