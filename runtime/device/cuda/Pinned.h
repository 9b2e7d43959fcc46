//===- Pinned.h - Host memory that the device copies from -------*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_DEVICE_CUDA_PINNED_H
#define HEDDLE_RUNTIME_DEVICE_CUDA_PINNED_H

#include "bundle/Result.h"
#include "runtime/device/cuda/Context.h"
#include "runtime/device/cuda/Stream.h"

#include <cstddef>
#include <cstdint>

namespace heddle::rt::cuda {

/// Page-locked host memory: copies from and to it run beside the host. Contents
/// start undefined.
class PinnedBuffer {
public:
  static Result<PinnedBuffer> allocate(const Context &context, int64_t bytes);

  PinnedBuffer() = default;
  PinnedBuffer(PinnedBuffer &&other) noexcept;
  PinnedBuffer &operator=(PinnedBuffer &&other) noexcept;
  ~PinnedBuffer();

  std::byte *data() { return memory; }
  const std::byte *data() const { return memory; }
  int64_t size() const { return bytes; }

  template <typename T> T *as() { return reinterpret_cast<T *>(memory); }
  template <typename T> const T *as() const {
    return reinterpret_cast<const T *>(memory);
  }

private:
  const Context *owner = nullptr;
  std::byte *memory = nullptr;
  int64_t bytes = 0;
};

/// Memory that a stream copies from or to, and the mark behind the latest copy.
struct CopyLane {
  PinnedBuffer buffer;
  Event copied;

  /// Makes room for `bytes` bytes; where there is too little, what is there is
  /// lost.
  Status reserve(const Context &context, int64_t bytes);
};

} // namespace heddle::rt::cuda

#endif // HEDDLE_RUNTIME_DEVICE_CUDA_PINNED_H
