//===- Driver.h - NVIDIA's driver, opened at run time -----------*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_DEVICE_CUDA_DRIVER_H
#define HEDDLE_RUNTIME_DEVICE_CUDA_DRIVER_H

#include "bundle/Result.h"
#include "runtime/device/cuda/DriverApi.h"

#include <memory>
#include <string>

namespace heddle::rt::cuda {

/// The oldest driver that is served, as the driver counts: 1000 * major + 10 *
/// minor. 12.0 (R525) is the first whose graphs can be updated in place and the
/// first that cuBLASLt 12 runs on.
inline constexpr int minimumDriverVersion = 12000;

/// "12.4" for 12040.
std::string formatVersion(int version);

/// The CUDA version whose driver first understood a PTX ISA version (80 for
/// 8.0), as the driver counts. Source: PTX ISA, release notes.
int driverVersionForPtx(int ptxVersion);

/// libcuda.so.1 in this process, initialised. Closed with the last owner.
class Driver {
public:
  /// Opens the machine's driver. Refused, each with what to do: there is no
  /// driver, it lacks an entry point, it is older than minimumDriverVersion,
  /// it finds no GPU, it does not match its kernel module.
  static Result<std::shared_ptr<const Driver>> open();

  /// The same for a library at `path`, for tests.
  static Result<std::shared_ptr<const Driver>> open(const std::string &path);

  ~Driver();
  Driver(const Driver &) = delete;
  Driver &operator=(const Driver &) = delete;

  const api::EntryPoints &entryPoints() const { return entries; }
  int version() const { return driverVersion; }
  int devices() const { return deviceCount; }

  /// "cuMemAlloc_v2 failed: CUDA_ERROR_OUT_OF_MEMORY (out of memory)".
  Error describe(const char *call, api::CUresult code) const;

  /// Calls an entry point and turns its result into a Status.
  template <typename... P, typename... A>
  Status call(const api::EntryPoint<api::CUresult(P...)> &entry,
              A... arguments) const {
    api::CUresult code = entry.function(arguments...);
    if (code == api::CUDA_SUCCESS)
      return Status::success();
    return describe(entry.name, code);
  }

private:
  Driver() = default;
  Status load(const std::string &path);
  Status start();

  void *handle = nullptr;
  int driverVersion = 0;
  int deviceCount = 0;
  api::EntryPoints entries;
};

} // namespace heddle::rt::cuda

#endif // HEDDLE_RUNTIME_DEVICE_CUDA_DRIVER_H
