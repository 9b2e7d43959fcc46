//===- TargetInfo.h - Facts of a machine ------------------------*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_TARGET_TARGETINFO_H
#define HEDDLE_TARGET_TARGETINFO_H

#include <cstdint>

namespace heddle {

/// What passes may ask of the machine that code is made for. Passes never look
/// at a chip's name.
class TargetInfo {
public:
  virtual ~TargetInfo() = default;

  /// Bytes of a vector register.
  virtual int64_t vectorBytes() const = 0;
  /// Number of vector registers.
  virtual int64_t vectorRegisters() const = 0;
  /// Whether there are dot products of bf16 pairs with fp32 sums.
  virtual bool hasBf16Dot() const = 0;
  /// Whether there are bf16 matrix tiles of 16 x 32 with fp32 sums.
  virtual bool hasBf16Tiles() const = 0;
};

} // namespace heddle

#endif // HEDDLE_TARGET_TARGETINFO_H
