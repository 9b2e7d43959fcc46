//===- Buffer.h - Aligned memory --------------------------------*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_BASE_BUFFER_H
#define HEDDLE_RUNTIME_BASE_BUFFER_H

#include "bundle/Result.h"

#include <cstddef>
#include <cstdint>

namespace heddle::rt {

/// Owns memory that starts on a 64-byte boundary (a cache line, the widest
/// vector); of 4 MiB and more, on a huge page's. Contents start undefined.
class Buffer {
public:
  Buffer() = default;

  /// Fails when the system has no such memory.
  static Result<Buffer> allocate(int64_t bytes);

  Buffer(Buffer &&other) noexcept;
  Buffer &operator=(Buffer &&other) noexcept;
  ~Buffer();

  int64_t size() const { return bytes; }
  std::byte *data() { return memory; }
  const std::byte *data() const { return memory; }

  template <typename T> T *as() { return reinterpret_cast<T *>(memory); }
  template <typename T> const T *as() const {
    return reinterpret_cast<const T *>(memory);
  }

private:
  std::byte *memory = nullptr;
  int64_t bytes = 0;
};

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_BASE_BUFFER_H
