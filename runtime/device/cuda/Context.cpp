//===- Context.cpp - One GPU in use by this process -----------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/device/cuda/Context.h"

#include <mutex>

namespace heddle::rt::cuda {

using namespace api;

namespace {

/// What a sticky error means: everything in the context is lost. Null for other
/// errors. Source: CUDA Driver API, CUresult.
const char *explainFault(CUresult code) {
  switch (code) {
  case CUDA_ERROR_ILLEGAL_ADDRESS:
    return "a kernel read or wrote memory outside of its buffers";
  case CUDA_ERROR_MISALIGNED_ADDRESS:
    return "a kernel used a misaligned address";
  case CUDA_ERROR_INVALID_ADDRESS_SPACE:
    return "a kernel used an address of the wrong kind of memory";
  case CUDA_ERROR_ILLEGAL_INSTRUCTION:
    return "a kernel met an instruction that the GPU does not have";
  case CUDA_ERROR_INVALID_PC:
  case CUDA_ERROR_HARDWARE_STACK_ERROR:
  case CUDA_ERROR_LAUNCH_FAILED:
  case CUDA_ERROR_TENSOR_MEMORY_LEAK:
    return "a kernel failed while it ran";
  case CUDA_ERROR_ASSERT:
    return "a kernel found one of its own conditions violated";
  default:
    return nullptr;
  }
}

/// The same for faults that are the machine's and no kernel's.
const char *explainMachineFault(CUresult code) {
  switch (code) {
  case CUDA_ERROR_LAUNCH_TIMEOUT:
    return "a kernel ran longer than the display's watchdog allows; use a GPU "
           "that drives no display";
  case CUDA_ERROR_ECC_UNCORRECTABLE:
    return "the GPU's memory has an error that could not be corrected; see "
           "`nvidia-smi -q -d ECC`, and reset or replace the GPU if it comes "
           "back";
  case CUDA_ERROR_NVLINK_UNCORRECTABLE:
  case CUDA_ERROR_CONTAINED:
  case CUDA_ERROR_EXTERNAL_DEVICE:
    return "the GPU or its links report a hardware error; see the kernel's log "
           "(dmesg, Xid)";
  default:
    return nullptr;
  }
}

/// Guards Context::fault of all contexts until it is constant.
std::mutex faultMutex;

} // namespace

std::string DeviceInfo::describe() const {
  return name + " (device " + std::to_string(ordinal) +
         ", compute capability " + std::to_string(major) + "." +
         std::to_string(minor) + ")";
}

Result<std::unique_ptr<Context>> Context::open(int ordinal) {
  Result<std::shared_ptr<const Driver>> driver = Driver::open();
  if (!driver)
    return driver.takeError();
  return open(*driver, ordinal);
}

Result<std::unique_ptr<Context>>
Context::open(std::shared_ptr<const Driver> driver, int ordinal) {
  std::unique_ptr<Context> context(new Context(std::move(driver)));
  if (Status status = context->start(ordinal); !status)
    return status.takeError();
  return context;
}

Status Context::start(int ordinal) {
  int devices = library->devices();
  if (ordinal < 0 || ordinal >= devices)
    return Error("there is no GPU " + std::to_string(ordinal) +
                 ": this process sees " +
                 (devices == 1 ? std::string("one, number 0")
                               : std::to_string(devices) + ", numbers 0 to " +
                                     std::to_string(devices - 1)) +
                 " (see `nvidia-smi -L` and CUDA_VISIBLE_DEVICES)");
  const EntryPoints &entries = api();
  if (Status status = library->call(entries.deviceGet, &handle, ordinal);
      !status)
    return status;

  info.ordinal = ordinal;
  info.driverVersion = library->version();
  char name[256] = {};
  if (Status status = library->call(entries.deviceGetName, name,
                                    static_cast<int>(sizeof(name) - 1), handle);
      !status)
    return status;
  info.name = name;
  size_t total = 0;
  if (Status status = library->call(entries.deviceTotalMem, &total, handle);
      !status)
    return status;
  info.totalMemory = static_cast<int64_t>(total);

  int l2 = 0, block = 0, multiprocessor = 0;
  const std::pair<CUdevice_attribute, int *> facts[] = {
      {CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, &info.major},
      {CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, &info.minor},
      {CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, &info.multiprocessors},
      {CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK, &info.maxThreadsPerBlock},
      {CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE, &l2},
      {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, &block},
      {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR,
       &multiprocessor},
  };
  for (auto [attribute, value] : facts)
    if (Status status =
            library->call(entries.deviceGetAttribute, value, attribute, handle);
        !status)
      return status;
  info.l2Bytes = l2;
  info.sharedPerBlock = block;
  info.sharedPerMultiprocessor = multiprocessor;

  Status status = library->call(entries.primaryCtxRetain, &primary, handle);
  if (!status) {
    primary = nullptr;
    return status.takeError().withContext(
        info.describe() + " cannot be used (is it in exclusive use by another "
                          "process, or out of memory?)");
  }
  return enter();
}

Context::~Context() {
  // Also when broken: this process gives up its share, which is what clears a
  // fault once everyone has.
  if (primary)
    (void)api().primaryCtxRelease.function(handle);
}

Status Context::enter() const {
  if (isBroken)
    return Error(fault);
  // It mostly is already, and to ask takes a fraction of the time.
  CUcontext current = nullptr;
  auto get = api().ctxGetCurrent.function;
  if (get && get(&current) == CUDA_SUCCESS && current == primary)
    return Status::success();
  return check(api().ctxSetCurrent.function(primary), api().ctxSetCurrent.name);
}

Status Context::check(CUresult code, const char *call) const {
  if (code == CUDA_SUCCESS)
    return Status::success();
  Error plain = library->describe(call, code);
  const char *kernel = explainFault(code);
  const char *machine = explainMachineFault(code);
  if (!kernel && !machine)
    return plain;
  std::lock_guard<std::mutex> lock(faultMutex);
  if (!isBroken) {
    fault = "on " + info.describe() + " " + (kernel ? kernel : machine) +
            "; the run cannot go on, what the GPU held is lost (" +
            plain.text() + ")";
    if (kernel)
      fault += ". This is a mistake in Heddle or in the bundle: please report "
               "it with the command, the bundle and, if possible, the output "
               "of `compute-sanitizer` on the same command";
    isBroken = true;
  }
  return Error(fault);
}

Result<MemoryInfo> Context::memory() const {
  size_t free = 0, total = 0;
  if (Status status = call(api().memGetInfo, &free, &total); !status)
    return status.takeError();
  return MemoryInfo{static_cast<int64_t>(free), static_cast<int64_t>(total)};
}

Status Context::synchronize() const { return call(api().ctxSynchronize); }

} // namespace heddle::rt::cuda
