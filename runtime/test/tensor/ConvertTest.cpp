//===- ConvertTest.cpp - Element types against their definitions ----------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/tensor/Convert.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include <gtest/gtest.h>

using namespace heddle::rt;

namespace {

/// binary16 from its definition.
double definitionF16(uint16_t bits) {
  double sign = bits & 0x8000 ? -1 : 1;
  int exponent = bits >> 10 & 0x1f;
  double fraction = bits & 0x3ff;
  if (exponent == 0x1f)
    return fraction ? std::numeric_limits<double>::quiet_NaN()
                    : sign * std::numeric_limits<double>::infinity();
  if (exponent == 0)
    return sign * std::ldexp(fraction, -24);
  return sign * std::ldexp(1024 + fraction, exponent - 25);
}

TEST(Convert, EveryF16Value) {
  for (uint32_t bits = 0; bits <= 0xffff; ++bits) {
    double expected = definitionF16(bits);
    float value = fromF16(bits);
    if (std::isnan(expected))
      EXPECT_TRUE(std::isnan(value)) << bits;
    else
      EXPECT_EQ(value, expected) << bits;
    EXPECT_EQ(std::signbit(value), (bits & 0x8000) != 0) << bits;
  }
}

TEST(Convert, BF16RoundTripsEveryValue) {
  for (uint32_t bits = 0; bits <= 0xffff; ++bits) {
    float value = fromBF16(bits);
    if (std::isnan(value))
      EXPECT_TRUE(std::isnan(fromBF16(toBF16(value))));
    else
      EXPECT_EQ(toBF16(value), bits);
  }
}

TEST(Convert, F16RoundTripsEveryValue) {
  for (uint32_t bits = 0; bits <= 0xffff; ++bits) {
    float value = fromF16(bits);
    if (std::isnan(value))
      EXPECT_TRUE(std::isnan(fromF16(toF16(value))));
    else
      EXPECT_EQ(toF16(value), bits);
  }
}

TEST(Convert, F16RoundsToTheNearest) {
  // Between every two neighbours: their mean goes to the even one, what is
  // next to it to the nearer one.
  for (uint32_t bits = 0; bits < 0x7c00; ++bits) {
    uint16_t even = bits & 1 ? bits + 1 : bits;
    // Above the largest finite value the next one would be 65536.
    double above = bits == 0x7bff ? 65536 : definitionF16(bits + 1);
    float mean = static_cast<float>((definitionF16(bits) + above) / 2);
    EXPECT_EQ(toF16(mean), even) << bits;
    EXPECT_EQ(toF16(-mean), even | 0x8000) << bits;
    EXPECT_EQ(toF16(std::nextafter(mean, 0.0f)), bits);
    EXPECT_EQ(toF16(std::nextafter(mean, 1e9f)), bits + 1);
  }
  EXPECT_EQ(toF16(std::numeric_limits<float>::infinity()), 0x7c00);
  EXPECT_EQ(toF16(1e30f), 0x7c00);
}

TEST(Convert, ArraysAtAnyAlignment) {
  std::vector<uint16_t> halves = {0x3c00, 0xc000, 0x3555}; // 1, -2, 0.33325
  std::vector<char> shifted(7);
  std::memcpy(shifted.data() + 1, halves.data(), 6);
  std::vector<float> wide(3);
  convert(DType::F16, shifted.data() + 1, DType::F32, wide.data(), 3);
  EXPECT_EQ(wide, (std::vector<float>{1, -2, 0.333251953125f}));
  std::vector<uint16_t> brain(3);
  convert(DType::F16, shifted.data() + 1, DType::BF16, brain.data(), 3);
  EXPECT_EQ(fromBF16(brain[2]), 0.333984375f);
  convert(DType::F32, wide.data(), DType::BF16, brain.data(), 3);
  EXPECT_EQ(fromBF16(brain[1]), -2);
  convert(DType::BF16, brain.data(), DType::F32, wide.data(), 3);
  EXPECT_EQ(wide[2], 0.333984375f);
  convert(DType::F32, wide.data(), DType::F32, wide.data(), 0);
  convert(DType::BF16, brain.data(), DType::F16, halves.data(), 3);
  EXPECT_EQ(fromF16(halves[2]), 0.333984375f);
  wide[0] = 1.0f / 3;
  convert(DType::F32, wide.data(), DType::F16, halves.data(), 3);
  EXPECT_EQ(halves[0], 0x3555);
}

} // namespace
