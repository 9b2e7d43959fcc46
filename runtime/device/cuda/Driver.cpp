//===- Driver.cpp - NVIDIA's driver, opened at run time -------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/device/cuda/Driver.h"

#include <iterator>

#include <dlfcn.h>

namespace heddle::rt::cuda {

using namespace api;

std::string formatVersion(int version) {
  return std::to_string(version / 1000) + "." +
         std::to_string(version % 1000 / 10);
}

int driverVersionForPtx(int ptxVersion) {
  // PTX 7.0 to 8.5 came with CUDA 11.0 to 12.5, one minor version each; 12.6
  // brought none.
  if (ptxVersion < 70)
    return 0;
  if (ptxVersion < 79)
    return 11000 + 10 * (ptxVersion - 70);
  if (ptxVersion <= 85)
    return 12000 + 10 * (ptxVersion - 80);
  if (ptxVersion < 90)
    return 12000 + 10 * (ptxVersion - 79);
  return 13000 + 10 * (ptxVersion - 90);
}

namespace {

/// What a failed cuInit means for someone who wants to run a model.
std::string explainStart(CUresult code) {
  switch (code) {
  case CUDA_ERROR_NO_DEVICE:
    return "the NVIDIA driver finds no GPU on this machine; if there is one, "
           "look at what `nvidia-smi` says, at CUDA_VISIBLE_DEVICES, and in a "
           "container at whether the GPU was passed into it";
  case CUDA_ERROR_SYSTEM_DRIVER_MISMATCH:
    return "libcuda.so.1 and the kernel's NVIDIA module are of different "
           "versions; restart the machine after an update of the driver";
  case CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE:
    return "the CUDA compatibility package does not support this GPU; use the "
           "driver's own libcuda.so.1";
  case CUDA_ERROR_STUB_LIBRARY:
    return "the libcuda.so.1 that was found is the stub of a CUDA toolkit, no "
           "driver; take its folder out of LD_LIBRARY_PATH";
  case CUDA_ERROR_SYSTEM_NOT_READY:
    return "the GPUs are not ready yet; on machines with NVSwitch the fabric "
           "manager service must run";
  default:
    return "the NVIDIA driver could not be started; see whether `nvidia-smi` "
           "works";
  }
}

} // namespace

Status Driver::load(const std::string &path) {
  // Never unloaded: the driver has threads and exit handlers.
  handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (!handle) {
    const char *reason = dlerror();
    return Error(reason ? reason : path + " cannot be opened");
  }
  const char *missing = nullptr;
  auto find = [&](auto &entry, bool required) {
    using Function = decltype(entry.function);
    entry.function = reinterpret_cast<Function>(dlsym(handle, entry.name));
    if (!entry.function && required && !missing)
      missing = entry.name;
  };
#define HEDDLE_FIND(member, symbol, parameters) find(entries.member, true);
  HEDDLE_CUDA_ENTRY_POINTS(HEDDLE_FIND)
#undef HEDDLE_FIND
#define HEDDLE_FIND(member, symbol, parameters) find(entries.member, false);
  HEDDLE_CUDA_OPTIONAL_ENTRY_POINTS(HEDDLE_FIND)
#undef HEDDLE_FIND
  // The version first, if it can be had: it explains what is missing.
  if (entries.driverGetVersion.function &&
      entries.driverGetVersion.function(&driverVersion) == CUDA_SUCCESS &&
      driverVersion < minimumDriverVersion)
    return Error("the NVIDIA driver of this machine supports CUDA " +
                 formatVersion(driverVersion) + ", Heddle needs " +
                 formatVersion(minimumDriverVersion) +
                 " or newer; update the driver to R525 or newer");
  if (missing)
    return Error("the NVIDIA driver (" + path + ") has no entry point " +
                 missing + "; update the driver");
  return Status::success();
}

Status Driver::start() {
  if (CUresult code = entries.init.function(0); code != CUDA_SUCCESS)
    return describe(entries.init.name, code).withContext(explainStart(code));
  if (Status status = call(entries.deviceGetCount, &deviceCount); !status)
    return status;
  if (deviceCount < 1)
    return Error(explainStart(CUDA_ERROR_NO_DEVICE));
  return Status::success();
}

Result<std::shared_ptr<const Driver>> Driver::open() {
  // The loader's search first, then where containers and WSL keep it.
  const char *paths[] = {"libcuda.so.1", "/usr/local/nvidia/lib64/libcuda.so.1",
                         "/usr/lib/wsl/lib/libcuda.so.1"};
  std::string reason;
  for (const char *path : paths) {
    if (void *there = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE)) {
      dlclose(there);
      return open(path);
    }
    if (path == paths[0])
      if (const char *text = dlerror())
        reason = text;
  }
  // The loader's words only where they say more.
  if (reason.find("No such file") != std::string::npos)
    reason.clear();
  return Error("this machine has no NVIDIA driver (libcuda.so.1 was not found" +
               (reason.empty() ? "" : ": " + reason) +
               "); install NVIDIA's driver from your distribution or "
               "nvidia.com, or run on the host with --device=cpu");
}

Result<std::shared_ptr<const Driver>> Driver::open(const std::string &path) {
  std::shared_ptr<Driver> driver(new Driver());
  if (Status status = driver->load(path); !status)
    return status.takeError();
  if (Status status = driver->start(); !status)
    return status.takeError();
  return std::shared_ptr<const Driver>(std::move(driver));
}

Driver::~Driver() {
  if (handle)
    dlclose(handle);
}

Error Driver::describe(const char *call, CUresult code) const {
  const char *name = nullptr, *text = nullptr;
  if (entries.getErrorName.function(code, &name) != CUDA_SUCCESS || !name)
    name = "an error without a name";
  if (entries.getErrorString.function(code, &text) != CUDA_SUCCESS || !text)
    text = "no description";
  return Error(std::string(call) + " failed: " + name + " (" +
               std::to_string(code) + ", " + text + ")");
}

} // namespace heddle::rt::cuda
