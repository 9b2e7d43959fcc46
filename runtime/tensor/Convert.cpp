//===- Convert.cpp - Arrays from one element type to another --------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/tensor/Convert.h"

#include <cassert>
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
  assert(targetType != DType::F16 && "nothing computes in F16");
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
  if (sourceType == DType::F32)
    convertEach<float, uint16_t>(source, target, count, toBF16);
  else
    convertEach<uint16_t, uint16_t>(source, target, count, [](uint16_t bits) {
      return toBF16(fromF16(bits));
    });
}

} // namespace heddle::rt
