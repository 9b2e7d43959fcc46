//===- Convert.cpp - Arrays from one element type to another --------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/tensor/Convert.h"

#include <cstring>

namespace heddle::rt {

float fromF16(uint16_t bits) {
  uint32_t sign = static_cast<uint32_t>(bits & 0x8000) << 16;
  uint32_t rest = bits & 0x7fff;
  if (rest >= 0x7c00) // infinity and NaN keep all fraction bits
    return std::bit_cast<float>(sign | 0x7f800000u | (rest & 0x3ff) << 13);
  // Moving exponent and fraction into place leaves an exponent that is too
  // small by 127 - 15; scaling by 2^112 mends it and normalises subnormals.
  float magnitude = std::bit_cast<float>(rest << 13) * 0x1p112f;
  return std::bit_cast<float>(std::bit_cast<uint32_t>(magnitude) | sign);
}

uint16_t toF16(float value) {
  uint32_t bits = std::bit_cast<uint32_t>(value);
  uint32_t sign = bits >> 16 & 0x8000u;
  uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u)
    return static_cast<uint16_t>(sign | 0x7e00u);
  if (magnitude >= 0x477ff000u) // 65520, half a unit above the largest
    return static_cast<uint16_t>(sign | 0x7c00u);
  // Below the least normal number a unit is 2^-24, which is also that of a
  // binary32 in [0.5, 1): the sum rounds there.
  if (magnitude < 0x38800000u) // 2^-14
    return static_cast<uint16_t>(
        sign |
        (std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude) + 0.5f) -
         std::bit_cast<uint32_t>(0.5f)));
  uint32_t odd = magnitude >> 13 & 1;
  return static_cast<uint16_t>(
      sign | ((magnitude - 0x38000000u + 0xfffu + odd) >> 13));
}

namespace {

template <typename Source, typename Target, typename Function>
void convertEach(const void *source, void *target, int64_t count,
                 Function function) {
  const char *from = static_cast<const char *>(source);
  Target *to = static_cast<Target *>(target);
  for (int64_t i = 0; i < count; ++i) {
    Source value;
    std::memcpy(&value, from + i * sizeof(Source), sizeof(Source));
    to[i] = function(value);
  }
}

} // namespace

void convert(DType sourceType, const void *source, DType targetType,
             void *target, int64_t count) {
  if (count == 0)
    return; // there may be no memory
  if (sourceType == targetType) {
    std::memcpy(target, source,
                static_cast<size_t>(count * byteSize(sourceType)));
    return;
  }
  if (targetType == DType::F32) {
    if (sourceType == DType::BF16)
      convertEach<uint16_t, float>(source, target, count, fromBF16);
    else
      convertEach<uint16_t, float>(source, target, count, fromF16);
    return;
  }
  // Through binary32, which holds both others exactly.
  uint16_t (*narrow)(float) = targetType == DType::BF16 ? toBF16 : toF16;
  if (sourceType == DType::F32)
    convertEach<float, uint16_t>(source, target, count, narrow);
  else
    convertEach<uint16_t, uint16_t>(source, target, count, [&](uint16_t bits) {
      return narrow(sourceType == DType::BF16 ? fromBF16(bits) : fromF16(bits));
    });
}

} // namespace heddle::rt
