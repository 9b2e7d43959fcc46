//===- ByteLevel.cpp - The byte alphabet of byte-level BPE ----------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/text/ByteLevel.h"
#include "runtime/text/Utf8.h"

#include <array>

using namespace heddle::rt;

namespace {
/// Both directions of the alphabet; every character lies below U+0144.
struct Alphabet {
  std::array<int16_t, 256> toChar;
  std::array<int16_t, 0x144> toByte;

  constexpr Alphabet() : toChar(), toByte() {
    toByte.fill(-1);
    int16_t next = 0x100;
    for (int b = 0; b < 256; ++b) {
      bool printable = (b >= 0x21 && b <= 0x7E) || (b >= 0xA1 && b != 0xAD);
      toChar[b] = printable ? static_cast<int16_t>(b) : next++;
      toByte[toChar[b]] = static_cast<int16_t>(b);
    }
  }
};
constexpr Alphabet alphabet;
} // namespace

int32_t text::byteToChar(uint8_t byte) { return alphabet.toChar[byte]; }

std::string text::bytesToChars(std::string_view bytes) {
  std::string chars;
  chars.reserve(bytes.size() * 2);
  for (char byte : bytes)
    appendUtf8(chars, byteToChar(static_cast<uint8_t>(byte)));
  return chars;
}

std::optional<std::string> text::charsToBytes(std::string_view chars) {
  std::string bytes;
  bytes.reserve(chars.size());
  for (size_t at = 0; at < chars.size();) {
    Utf8Step step = utf8Step(chars, at);
    if (step.codepoint < 0 ||
        step.codepoint >= static_cast<int32_t>(alphabet.toByte.size()) ||
        alphabet.toByte[step.codepoint] < 0)
      return std::nullopt;
    bytes += static_cast<char>(alphabet.toByte[step.codepoint]);
    at += step.length;
  }
  return bytes;
}
