//===- Utf8.cpp - Steps through UTF-8 -------------------------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "bundle/Utf8.h"

heddle::Utf8Step heddle::utf8Step(std::string_view text, size_t at) {
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
