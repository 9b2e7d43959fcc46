//===- Buffer.cpp - Aligned memory ----------------------------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/base/Buffer.h"

#include "runtime/base/Machine.h"

#include <cassert>
#include <cstdlib>
#include <utility>

#include <sys/mman.h>

namespace heddle::rt {

Result<Buffer> Buffer::allocate(int64_t bytes) {
  assert(bytes >= 0 && "negative size");
  constexpr int64_t hugePage = int64_t(2) << 20;
  bool large = bytes >= 2 * hugePage;
  Buffer buffer;
  if (bytes == 0)
    return buffer;
  void *memory = nullptr;
  if (posix_memalign(&memory, large ? hugePage : 64,
                     static_cast<size_t>(bytes)) != 0)
    return Error("the system has no " + formatBytes(bytes) +
                 " of memory to give");
  // A hint: the address translation of weights that are read once per pass
  // costs less with huge pages.
  if (large)
    (void)madvise(memory, static_cast<size_t>(bytes), MADV_HUGEPAGE);
  buffer.memory = static_cast<std::byte *>(memory);
  buffer.bytes = bytes;
  return buffer;
}

Buffer::Buffer(Buffer &&other) noexcept
    : memory(std::exchange(other.memory, nullptr)),
      bytes(std::exchange(other.bytes, 0)) {}

Buffer &Buffer::operator=(Buffer &&other) noexcept {
  std::swap(memory, other.memory);
  std::swap(bytes, other.bytes);
  return *this;
}

Buffer::~Buffer() { std::free(memory); }

} // namespace heddle::rt
