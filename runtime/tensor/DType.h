//===- DType.h - Element types ----------------------------------*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_TENSOR_DTYPE_H
#define HEDDLE_RUNTIME_TENSOR_DTYPE_H

#include <bit>
#include <cstdint>
#include <string_view>

namespace heddle::rt {

/// Element types of weights and activations. Names follow bundle manifests
/// ("f32"); safetensors spells them "F32", "BF16", "F16".
enum class DType { F32, BF16, F16 };

inline int64_t byteSize(DType dtype) { return dtype == DType::F32 ? 4 : 2; }

inline std::string_view name(DType dtype) {
  switch (dtype) {
  case DType::F32:
    return "f32";
  case DType::BF16:
    return "bf16";
  case DType::F16:
    return "f16";
  }
  return "?";
}

/// bfloat16: the upper half of an IEEE binary32.
inline float fromBF16(uint16_t bits) {
  return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
}

/// Rounds to nearest, ties to even; NaN stays NaN.
inline uint16_t toBF16(float value) {
  uint32_t bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u)
    return static_cast<uint16_t>((bits >> 16) | 0x40);
  bits += 0x7fffu + ((bits >> 16) & 1);
  return static_cast<uint16_t>(bits >> 16);
}

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_TENSOR_DTYPE_H
