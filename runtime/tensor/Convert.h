//===- Convert.h - Arrays from one element type to another ------*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_TENSOR_CONVERT_H
#define HEDDLE_RUNTIME_TENSOR_CONVERT_H

#include "runtime/tensor/DType.h"

#include <cstdint>

namespace heddle::rt {

/// IEEE binary16 to binary32, exact.
float fromF16(uint16_t bits);

/// binary32 to binary16: to nearest, ties to even; beyond 65504 and its half
/// unit to infinity; NaN stays NaN.
uint16_t toF16(float value);

/// Converts `count` elements at `source` (any alignment) to those at `target`
/// (aligned). Exact when it can be; else to nearest, ties to even.
void convert(DType sourceType, const void *source, DType targetType,
             void *target, int64_t count);

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_TENSOR_CONVERT_H
