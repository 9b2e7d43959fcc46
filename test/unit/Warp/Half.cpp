//===- Half.cpp - Numbers of 16 bits --------------------------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "PtxMachine.h"

#include <algorithm>
#include <bit>
#include <cmath>

float heddle::test::fromHalf(bool bf16, uint16_t bits) {
  if (bf16)
    return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
  const int exponent = bits >> 10 & 31, fraction = bits & 1023;
  float value;
  if (exponent == 31)
    value = fraction ? NAN : INFINITY;
  else if (exponent == 0)
    value = std::ldexp(static_cast<float>(fraction), -24);
  else
    value = std::ldexp(static_cast<float>(fraction + 1024), exponent - 25);
  return bits >> 15 ? -value : value;
}

uint16_t heddle::test::toHalf(bool bf16, float value) {
  auto bits = std::bit_cast<uint32_t>(value);
  if (std::isnan(value))
    return bf16 ? 0x7fff : 0x7e00;
  if (bf16)
    return static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
  const uint16_t sign = static_cast<uint16_t>(bits >> 16 & 0x8000);
  float magnitude = std::fabs(value);
  if (magnitude >= 65520.0f)
    return sign | 0x7c00;
  if (magnitude == 0)
    return sign;
  int exponent;
  std::frexp(magnitude, &exponent);
  // 11 bits from the leading one on, fewer of what is denormal.
  const int unit = std::max(exponent - 11, -24);
  auto units =
      static_cast<uint32_t>(std::nearbyint(std::ldexp(magnitude, -unit)));
  if (unit == -24)
    return static_cast<uint16_t>(sign | units);
  return static_cast<uint16_t>(sign + ((unit + 24) << 10) + units);
}
