//===- Stream.h - Queues of device work, and marks --------------*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_DEVICE_CUDA_STREAM_H
#define HEDDLE_RUNTIME_DEVICE_CUDA_STREAM_H

#include "bundle/Result.h"
#include "runtime/device/cuda/Context.h"

#include <cstdint>
#include <utility>

namespace heddle::rt::cuda {

/// Owns a handle of the driver; moves, never copies.
template <typename Handle> class Owned {
public:
  Owned() = default;
  Owned(const Context &context, Handle handle)
      : owner(&context), value(handle) {}
  Owned(Owned &&other) noexcept
      : owner(other.owner), value(std::exchange(other.value, Handle())) {}
  Owned &operator=(Owned &&other) noexcept {
    std::swap(owner, other.owner);
    std::swap(value, other.value);
    return *this;
  }
  ~Owned() {
    if (value)
      destroy(*owner, value);
  }

  explicit operator bool() const { return value != Handle(); }
  Handle get() const { return value; }
  const Context &context() const { return *owner; }

private:
  static void destroy(const Context &context, Handle handle);

  const Context *owner = nullptr;
  Handle value = Handle();
};

/// A mark in a stream, to wait for and for times.
class Event {
public:
  /// `timed`: elapsed() may be asked.
  static Result<Event> create(const Context &context, bool timed = false);

  /// Waits until the work before the mark is done. At once when never recorded.
  Status synchronize() const;

  /// Milliseconds on the device between two recorded, completed marks.
  static Result<double> elapsed(const Event &start, const Event &end);

  api::CUevent handle() const { return event.get(); }

private:
  Owned<api::CUevent> event;
};

/// A queue of work: in order within, next to other streams. Does not wait for
/// the legacy default stream. Copies return at once when the host memory is
/// pinned (Pinned.h); it must then stay until they are done.
class Stream {
public:
  static Result<Stream> create(const Context &context);

  /// A stream of somebody else's, who keeps it alive. Null: the legacy default
  /// stream.
  static Stream borrow(const Context &context, api::CUstream handle) {
    Stream result;
    result.owned = Owned<api::CUstream>(context, nullptr);
    result.queue = handle;
    return result;
  }

  /// Waits for all work in the stream; reports the faults of its kernels.
  Status synchronize() const;

  Status record(const Event &event) const;

  Status copyToDevice(DevicePtr to, const void *from, int64_t bytes) const;
  Status copyToHost(void *to, DevicePtr from, int64_t bytes) const;
  Status copyOnDevice(DevicePtr to, DevicePtr from, int64_t bytes) const;
  Status fillBytes(DevicePtr to, uint8_t value, int64_t bytes) const;

  const Context &context() const { return owned.context(); }
  api::CUstream handle() const { return queue; }

private:
  Owned<api::CUstream> owned; ///< none: borrowed
  api::CUstream queue = nullptr;
};

} // namespace heddle::rt::cuda

#endif // HEDDLE_RUNTIME_DEVICE_CUDA_STREAM_H
