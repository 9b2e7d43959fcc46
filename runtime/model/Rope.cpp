//===- Rope.cpp - Tables of rotary position embeddings --------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/model/Rope.h"

#include "runtime/tensor/Convert.h"

#include <cmath>

namespace heddle::rt {

RopeTable::RopeTable(double theta, int64_t headDim, DType dtype)
    : dtype(dtype) {
  for (int64_t i = 0; i < headDim; i += 2) {
    float exponent = static_cast<float>(i) / static_cast<float>(headDim);
    frequencies.push_back(1.0f / std::pow(static_cast<float>(theta), exponent));
  }
}

float RopeTable::round(float value) const {
  float rounded = value;
  convert(DType::F32, &value, dtype, &rounded, 1);
  float widened = value;
  convert(dtype, &rounded, DType::F32, &widened, 1);
  return widened;
}

void RopeTable::grow(int64_t count) {
  int64_t known = static_cast<int64_t>(cosines.size()) / half();
  for (int64_t position = known; position < count; ++position)
    for (float frequency : frequencies) {
      float angle = static_cast<float>(position) * frequency;
      cosines.push_back(round(std::cos(angle)));
      sines.push_back(round(std::sin(angle)));
    }
}

} // namespace heddle::rt
