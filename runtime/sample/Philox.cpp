//===- Philox.cpp - Counter-based random numbers --------------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/sample/Philox.h"

namespace heddle::rt {

std::array<uint32_t, 4> philox4x32(std::array<uint32_t, 4> counter,
                                   std::array<uint32_t, 2> key) {
  constexpr uint64_t multiplier0 = 0xD2511F53u, multiplier1 = 0xCD9E8D57u;
  constexpr uint32_t weyl0 = 0x9E3779B9u, weyl1 = 0xBB67AE85u;
  for (int round = 0; round < 10; ++round) {
    uint64_t product0 = multiplier0 * counter[0];
    uint64_t product1 = multiplier1 * counter[2];
    counter = {static_cast<uint32_t>(product1 >> 32) ^ counter[1] ^ key[0],
               static_cast<uint32_t>(product1),
               static_cast<uint32_t>(product0 >> 32) ^ counter[3] ^ key[1],
               static_cast<uint32_t>(product0)};
    key = {key[0] + weyl0, key[1] + weyl1};
  }
  return counter;
}

double uniform(uint64_t seed, RandomStream stream, int64_t step,
               int64_t position, int64_t index) {
  std::array<uint32_t, 4> words = philox4x32(
      {static_cast<uint32_t>(index >> 1), static_cast<uint32_t>(position),
       static_cast<uint32_t>(step), static_cast<uint32_t>(stream)},
      {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)});
  int64_t first = (index & 1) * 2;
  uint64_t bits = words[first] | static_cast<uint64_t>(words[first + 1]) << 32;
  // The upper 52 bits and a half.
  return (static_cast<double>(bits >> 12) + 0.5) * 0x1p-52;
}

} // namespace heddle::rt
