//===- GuardedBuffer.h - Memory that notices stray accesses -----*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_TEST_CONFORMANCE_GUARDEDBUFFER_H
#define HEDDLE_RUNTIME_TEST_CONFORMANCE_GUARDEDBUFFER_H

#include <cstddef>
#include <cstdint>
#include <string>

namespace heddle::conformance {

/// Bytes whose last one is directly in front of a page that cannot be touched,
/// with marked bytes before the first. All bytes are 0xff at first, which is
/// NaN in fp32 and bf16 and -1 in int32.
class GuardedBuffer {
public:
  /// `alignment` a power of two; where it leaves a gap behind the last byte,
  /// the gap is marked too. Ends the program when there is no memory.
  explicit GuardedBuffer(int64_t bytes, int64_t alignment = 1);
  ~GuardedBuffer();
  GuardedBuffer(const GuardedBuffer &) = delete;
  GuardedBuffer &operator=(const GuardedBuffer &) = delete;

  template <typename T> T *as() { return reinterpret_cast<T *>(start); }
  std::byte *data() { return start; }
  int64_t size() const { return bytes; }

  /// Sets all bytes to 0xff again.
  void poison();

  /// Makes writing fatal (see describeFaults) or possible again.
  void protect(bool readOnly);

  /// Whether the marked bytes around the buffer are as they were.
  bool intact() const;

private:
  std::byte *mapping = nullptr;
  std::byte *start = nullptr;
  std::byte *wall = nullptr; ///< first byte of the untouchable page
  int64_t bytes = 0;
};

/// From now on an access to an untouchable page ends the program with a
/// sentence that ends in the text given to nowTesting, and status 1.
void describeFaults();

/// What is being tested, for describeFaults.
void nowTesting(const std::string &what);

} // namespace heddle::conformance

#endif // HEDDLE_RUNTIME_TEST_CONFORMANCE_GUARDEDBUFFER_H
