//===- IndexLayout.cpp - How an index list lies in memory -----------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "bundle/abi/IndexLayout.h"

#include <bit>
#include <cassert>
#include <cstring>

using namespace heddle;
using namespace heddle::bundle;

static_assert(std::endian::native == std::endian::little,
              "keys are copied as they lie in memory");

static constexpr int64_t rowAlignment = 16;
static constexpr int64_t bitsPerWord = 32;

static int64_t alignUp(int64_t bytes) {
  return (bytes + rowAlignment - 1) / rowAlignment * rowAlignment;
}

bool heddle::bundle::holds(Encoding encoding, int64_t n) {
  // A bitmap has room for more keys, but a key is an int32 everywhere else.
  return n <= int64_t(1) << (encoding == Encoding::Uint16 ? 16 : 31);
}

int64_t heddle::bundle::listRowBytes(Encoding encoding, int64_t n,
                                     int64_t keep) {
  assert(1 <= keep && keep <= n && holds(encoding, n));
  switch (encoding) {
  case Encoding::Int32:
    return keep * static_cast<int64_t>(sizeof(int32_t));
  case Encoding::Uint16:
    return alignUp(keep * static_cast<int64_t>(sizeof(uint16_t)));
  case Encoding::Bitmap:
    return alignUp((n + bitsPerWord - 1) / bitsPerWord *
                   static_cast<int64_t>(sizeof(uint32_t)));
  }
  return 0;
}

void heddle::bundle::encodeList(Encoding encoding, int64_t n,
                                std::span<const int32_t> keys, void *row) {
  auto *bytes = static_cast<std::byte *>(row);
  std::memset(bytes, 0,
              static_cast<size_t>(listRowBytes(
                  encoding, n, static_cast<int64_t>(keys.size()))));
  switch (encoding) {
  case Encoding::Int32:
    std::memcpy(bytes, keys.data(), keys.size_bytes());
    return;
  case Encoding::Uint16:
    for (size_t i = 0; i < keys.size(); ++i) {
      auto key = static_cast<uint16_t>(keys[i]);
      std::memcpy(bytes + i * sizeof(key), &key, sizeof(key));
    }
    return;
  case Encoding::Bitmap:
    // Little-endian, so bit j % 32 of word j / 32 is bit j % 8 of byte j / 8.
    for (int32_t key : keys)
      bytes[key / 8] |= std::byte{1} << (key % 8);
    return;
  }
}

static bool decodeBitmap(int64_t n, const std::byte *bytes,
                         std::span<int32_t> keys) {
  size_t found = 0;
  int64_t words = listRowBytes(Encoding::Bitmap, n, 1) /
                  static_cast<int64_t>(sizeof(uint32_t));
  for (int64_t w = 0; w < words; ++w) {
    uint32_t word;
    std::memcpy(&word, bytes + w * sizeof(word), sizeof(word));
    for (; word != 0; word &= word - 1) {
      int64_t key = w * bitsPerWord + std::countr_zero(word);
      if (key >= n || found == keys.size())
        return false;
      keys[found++] = static_cast<int32_t>(key);
    }
  }
  return found == keys.size();
}

bool heddle::bundle::decodeList(Encoding encoding, int64_t n, const void *row,
                                std::span<int32_t> keys) {
  auto *bytes = static_cast<const std::byte *>(row);
  switch (encoding) {
  case Encoding::Int32:
    std::memcpy(keys.data(), bytes, keys.size_bytes());
    return true;
  case Encoding::Uint16:
    for (size_t i = 0; i < keys.size(); ++i) {
      uint16_t key;
      std::memcpy(&key, bytes + i * sizeof(key), sizeof(key));
      keys[i] = key;
    }
    return true;
  case Encoding::Bitmap:
    return decodeBitmap(n, bytes, keys);
  }
  return false;
}
