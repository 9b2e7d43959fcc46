//===- Context.h - One GPU in use by this process ---------------*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_DEVICE_CUDA_CONTEXT_H
#define HEDDLE_RUNTIME_DEVICE_CUDA_CONTEXT_H

#include "bundle/Result.h"
#include "runtime/device/cuda/Driver.h"

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

namespace heddle::rt::cuda {

/// What a GPU is. Sizes in bytes.
struct DeviceInfo {
  int ordinal = 0;
  std::string name; ///< "NVIDIA H200"
  int major = 0;    ///< compute capability, 9.0
  int minor = 0;
  int multiprocessors = 0;
  int maxThreadsPerBlock = 0;
  int64_t totalMemory = 0;
  int64_t l2Bytes = 0;
  int64_t sharedPerBlock = 0; ///< the most that a block may ask for
  int64_t sharedPerMultiprocessor = 0;
  int driverVersion = 0; ///< 12040 for 12.4

  /// 90 for compute capability 9.0.
  int capability() const { return 10 * major + minor; }
  /// "NVIDIA H200 (device 0, compute capability 9.0)".
  std::string describe() const;
};

struct MemoryInfo {
  int64_t free = 0;
  int64_t total = 0;
};

/// The primary context of a device, shared with other libraries in the process
/// (cuBLASLt uses it too). All other classes of this component hold a reference
/// to one and must go before it. Calls may come from any thread.
///
/// After a kernel fault (or an uncorrectable memory error) nothing on the
/// device can be trusted or even freed: the context is then `broken`, and every
/// later call returns the first fault's error again.
class Context {
public:
  /// Opens device `ordinal` of the machine's driver. Refused as by
  /// Driver::open, and when there is no such device.
  static Result<std::unique_ptr<Context>> open(int ordinal = 0);
  static Result<std::unique_ptr<Context>>
  open(std::shared_ptr<const Driver> driver, int ordinal = 0);

  ~Context();
  Context(const Context &) = delete;
  Context &operator=(const Context &) = delete;

  const DeviceInfo &device() const { return info; }
  const Driver &driver() const { return *library; }
  const api::EntryPoints &api() const { return library->entryPoints(); }

  /// Memory of the device that is free now; other processes use it too.
  Result<MemoryInfo> memory() const;

  /// Waits for all work on the device.
  Status synchronize() const;

  bool broken() const { return isBroken; }

  /// Makes this the calling thread's context, calls an entry point and turns
  /// its result into a Status.
  template <typename... P, typename... A>
  Status call(const api::EntryPoint<api::CUresult(P...)> &entry,
              A... arguments) const {
    if (Status status = enter(); !status)
      return status;
    return check(entry.function(arguments...), entry.name);
  }

  /// The same where nobody can be told (destructors): does nothing when the
  /// context is broken.
  template <typename... P, typename... A>
  void release(const api::EntryPoint<api::CUresult(P...)> &entry,
               A... arguments) const {
    if (enter())
      (void)check(entry.function(arguments...), entry.name);
  }

  /// Makes this the calling thread's context; an error when it is broken.
  Status enter() const;

  /// A result of the driver as a Status; a fault breaks the context.
  Status check(api::CUresult code, const char *call) const;

private:
  Context(std::shared_ptr<const Driver> driver) : library(std::move(driver)) {}
  Status start(int ordinal);

  std::shared_ptr<const Driver> library;
  api::CUdevice handle = 0;
  api::CUcontext primary = nullptr;
  DeviceInfo info;
  mutable std::atomic<bool> isBroken = false;
  mutable std::string fault; ///< constant once isBroken
};

} // namespace heddle::rt::cuda

#endif // HEDDLE_RUNTIME_DEVICE_CUDA_CONTEXT_H
