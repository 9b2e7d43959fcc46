//===- TargetInfo.h - Facts of a machine ------------------------*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What passes may ask of the machine that code is made for. Passes never look
// at a chip's name. Each kind of machine has facts of its own, so each has a
// class of its own.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_SUPPORT_TARGETINFO_H
#define HEDDLE_SUPPORT_TARGETINFO_H

#include <cstdint>

namespace heddle {

/// Facts of a CPU.
class HostTargetInfo {
public:
  virtual ~HostTargetInfo() = default;

  /// Bytes of a vector register.
  virtual int64_t vectorBytes() const = 0;
  /// Number of vector registers.
  virtual int64_t vectorRegisters() const = 0;
  /// Whether there are dot products of bf16 pairs with fp32 sums.
  virtual bool hasBf16Dot() const = 0;
  /// Whether there are bf16 matrix tiles of 16 x 32 with fp32 sums.
  virtual bool hasBf16Tiles() const = 0;
  /// Whether rows that lie scattered arrive late unless code fetches them ahead
  /// of their use.
  virtual bool fetchesLate() const = 0;
};

/// Facts of an NVIDIA GPU. Source: CUDA C++ Programming Guide, "Technical
/// Specifications per Compute Capability".
class CudaTargetInfo {
public:
  virtual ~CudaTargetInfo() = default;

  /// Bytes of shared memory that one block may ask for.
  virtual int64_t sharedBytesPerBlock() const = 0;
  /// Bytes of shared memory of a multiprocessor, which its blocks divide among
  /// them; each block takes `sharedBytesReserved` beside what it asks for.
  virtual int64_t sharedBytesPerMultiprocessor() const = 0;
  /// 32-bit registers of a multiprocessor, and the most of one thread.
  virtual int64_t registersPerMultiprocessor() const = 0;
  virtual int64_t registersPerThread() const = 0;
  /// Whether four warps multiply tiles out of shared memory, bulk copies fill
  /// it, and warps hand registers to each other.
  virtual bool hasWgmma() const = 0;

  static constexpr int64_t sharedBytesReserved = 1024;
};

} // namespace heddle

#endif // HEDDLE_SUPPORT_TARGETINFO_H
