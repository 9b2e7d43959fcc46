//===- Pinned.cpp - Host memory that the device copies from ---------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/device/cuda/Pinned.h"

#include "runtime/base/Machine.h"

#include <cassert>
#include <utility>

namespace heddle::rt::cuda {

Result<PinnedBuffer> PinnedBuffer::allocate(const Context &context,
                                            int64_t bytes) {
  assert(bytes >= 0 && "negative size");
  PinnedBuffer buffer;
  if (bytes == 0)
    return buffer;
  // Pinned memory cannot be swapped: asking for more than there is takes the
  // machine down instead of failing.
  if (Status status = checkMemory(bytes,
                                  "page-locked memory for copies to the "
                                  "GPU",
                                  "end other programs");
      !status)
    return status.takeError();
  void *memory = nullptr;
  if (Status status = context.call(context.api().memHostAlloc, &memory,
                                   static_cast<size_t>(bytes), 0u);
      !status)
    return status.takeError().withContext(
        "the system gives no " + formatBytes(bytes) +
        " of page-locked memory (see `ulimit -l`)");
  buffer.owner = &context;
  buffer.memory = static_cast<std::byte *>(memory);
  buffer.bytes = bytes;
  return buffer;
}

PinnedBuffer::PinnedBuffer(PinnedBuffer &&other) noexcept
    : owner(other.owner), memory(std::exchange(other.memory, nullptr)),
      bytes(std::exchange(other.bytes, 0)) {}

PinnedBuffer &PinnedBuffer::operator=(PinnedBuffer &&other) noexcept {
  std::swap(owner, other.owner);
  std::swap(memory, other.memory);
  std::swap(bytes, other.bytes);
  return *this;
}

PinnedBuffer::~PinnedBuffer() {
  if (memory)
    owner->release(owner->api().memFreeHost, static_cast<void *>(memory));
}

Status CopyLane::reserve(const Context &context, int64_t bytes) {
  if (buffer.size() < bytes) {
    buffer = PinnedBuffer();
    if (Status s = PinnedBuffer::allocate(context, bytes).moveTo(buffer); !s)
      return s;
  }
  return copied.handle() ? Status::success()
                         : Event::create(context).moveTo(copied);
}

} // namespace heddle::rt::cuda
