//===- ByteLevel.h - The byte alphabet of byte-level BPE --------*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Byte-level BPE writes each byte as one printable character, so that a token
// of any bytes can stand in JSON: the 188 printable Latin-1 characters stand
// for themselves, the other 68 bytes for U+0100 and up, in order.
// Source: Radford et al. 2019, "Language Models are Unsupervised Multitask
// Learners", section 2.2.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_TEXT_BYTELEVEL_H
#define HEDDLE_RUNTIME_TEXT_BYTELEVEL_H

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace heddle::rt::text {

/// The character that stands for a byte, U+0021 to U+0143.
int32_t byteToChar(uint8_t byte);

/// The bytes written with their characters.
std::string bytesToChars(std::string_view bytes);

/// The bytes that the characters stand for; nothing if some character stands
/// for no byte or the text is not UTF-8.
std::optional<std::string> charsToBytes(std::string_view chars);

/// True for the 13 bytes that no UTF-8 text contains.
inline bool neverInUtf8(uint8_t byte) {
  return byte == 0xC0 || byte == 0xC1 || byte >= 0xF5;
}

} // namespace heddle::rt::text

#endif // HEDDLE_RUNTIME_TEXT_BYTELEVEL_H
