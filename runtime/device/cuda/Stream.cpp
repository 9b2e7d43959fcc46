//===- Stream.cpp - Queues of work on the device, and marks in them -------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/device/cuda/Stream.h"

#include <cassert>

namespace heddle::rt::cuda {

using namespace api;

template <>
void Owned<CUevent>::destroy(const Context &context, CUevent event) {
  context.release(context.api().eventDestroy, event);
}

template <>
void Owned<CUstream>::destroy(const Context &context, CUstream stream) {
  context.release(context.api().streamDestroy, stream);
}

Result<Event> Event::create(const Context &context, bool timed) {
  CUevent handle = nullptr;
  if (Status status =
          context.call(context.api().eventCreate, &handle,
                       timed ? CU_EVENT_DEFAULT : CU_EVENT_DISABLE_TIMING);
      !status)
    return status.takeError();
  Event result;
  result.event = Owned<CUevent>(context, handle);
  return result;
}

Status Event::synchronize() const {
  const Context &context = event.context();
  return context.call(context.api().eventSynchronize, event.get());
}

Result<double> Event::elapsed(const Event &start, const Event &end) {
  const Context &context = start.event.context();
  float milliseconds = 0;
  if (Status status = context.call(context.api().eventElapsedTime,
                                   &milliseconds, start.handle(), end.handle());
      !status)
    return status.takeError();
  return static_cast<double>(milliseconds);
}

Result<Stream> Stream::create(const Context &context) {
  CUstream handle = nullptr;
  if (Status status = context.call(context.api().streamCreate, &handle,
                                   CU_STREAM_NON_BLOCKING);
      !status)
    return status.takeError();
  Stream result;
  result.owned = Owned<CUstream>(context, handle);
  result.queue = handle;
  return result;
}

Status Stream::synchronize() const {
  return context().call(context().api().streamSynchronize, handle());
}

Status Stream::record(const Event &event) const {
  return context().call(context().api().eventRecord, event.handle(), handle());
}

// The driver refuses empty nodes in graphs, so that empty work is none here.

Status Stream::copyToDevice(DevicePtr to, const void *from,
                            int64_t bytes) const {
  assert(bytes >= 0 && "negative size");
  if (bytes == 0)
    return Status::success();
  return context().call(context().api().memcpyHtoDAsync, to, from,
                        static_cast<size_t>(bytes), handle());
}

Status Stream::copyToHost(void *to, DevicePtr from, int64_t bytes) const {
  assert(bytes >= 0 && "negative size");
  if (bytes == 0)
    return Status::success();
  return context().call(context().api().memcpyDtoHAsync, to, from,
                        static_cast<size_t>(bytes), handle());
}

Status Stream::copyOnDevice(DevicePtr to, DevicePtr from, int64_t bytes) const {
  assert(bytes >= 0 && "negative size");
  if (bytes == 0)
    return Status::success();
  return context().call(context().api().memcpyDtoDAsync, to, from,
                        static_cast<size_t>(bytes), handle());
}

Status Stream::fillBytes(DevicePtr to, uint8_t value, int64_t bytes) const {
  assert(bytes >= 0 && "negative size");
  if (bytes == 0)
    return Status::success();
  return context().call(context().api().memsetD8Async, to, value,
                        static_cast<size_t>(bytes), handle());
}

} // namespace heddle::rt::cuda
