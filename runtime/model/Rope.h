//===- Rope.h - Tables of rotary position embeddings ------------*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_MODEL_ROPE_H
#define HEDDLE_RUNTIME_MODEL_ROPE_H

#include "runtime/tensor/DType.h"

#include <cstdint>
#include <vector>

namespace heddle::rt {

/// cos and sin of pos * theta^(-2i / headDim), i < headDim / 2, computed as the
/// released code does: frequencies and angles are rounded to fp32, so the
/// angle of a late position differs from the exact one. Entries are rounded to
/// `dtype`, that of the rotation's arithmetic.
class RopeTable {
public:
  RopeTable() = default;
  RopeTable(double theta, int64_t headDim, DType dtype = DType::F32);

  /// Makes entries for positions [0, count).
  void grow(int64_t count);

  /// [headDim / 2], valid until the next grow(). position < count.
  const float *cos(int64_t position) const {
    return cosines.data() + position * half();
  }
  const float *sin(int64_t position) const {
    return sines.data() + position * half();
  }

private:
  float round(float value) const;
  int64_t half() const { return static_cast<int64_t>(frequencies.size()); }

  DType dtype = DType::F32;
  std::vector<float> frequencies; ///< [headDim / 2]
  std::vector<float> cosines;     ///< [positions x headDim / 2]
  std::vector<float> sines;       ///< [positions x headDim / 2]
};

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_MODEL_ROPE_H
