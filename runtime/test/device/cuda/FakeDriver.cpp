//===- FakeDriver.cpp - A driver in host memory: devices and memory -------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/test/device/cuda/FakeState.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

using namespace heddle::rt::cuda;
using namespace heddle::rt::cuda::api;
using namespace heddle::rt::cuda::test;

namespace {

FakeDriver state;
CUctx_st primary;
thread_local CUcontext current = nullptr;
std::map<void *, size_t> blocks;

} // namespace

HEDDLE_FAKE_ENTRY FakeDriver *heddleFakeDriver() { return &state; }

CUresult heddle::rt::cuda::test::enter(const char *call, bool needsContext) {
  int earlier = state.calls[call]++;
  auto failure = state.failures.find(call);
  if (failure != state.failures.end() && earlier >= failure->second.after)
    return failure->second.code;
  if (needsContext && !current)
    return CUDA_ERROR_INVALID_CONTEXT;
  return needsContext ? state.sticky : CUDA_SUCCESS;
}

HEDDLE_FAKE_ENTRY CUresult cuInit(unsigned flags) {
  if (CUresult code = enter("cuInit", false))
    return code;
  return state.devices > 0 ? CUDA_SUCCESS : CUDA_ERROR_NO_DEVICE;
}

HEDDLE_FAKE_ENTRY CUresult cuDriverGetVersion(int *version) {
  *version = state.version;
  return enter("cuDriverGetVersion", false);
}

HEDDLE_FAKE_ENTRY CUresult cuGetErrorName(CUresult error, const char **text) {
  static const std::map<CUresult, const char *> names = {
      {CUDA_ERROR_OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY"},
      {CUDA_ERROR_NO_DEVICE, "CUDA_ERROR_NO_DEVICE"},
      {CUDA_ERROR_ILLEGAL_ADDRESS, "CUDA_ERROR_ILLEGAL_ADDRESS"},
      {CUDA_ERROR_ECC_UNCORRECTABLE, "CUDA_ERROR_ECC_UNCORRECTABLE"},
      {CUDA_ERROR_INVALID_PTX, "CUDA_ERROR_INVALID_PTX"}};
  auto found = names.find(error);
  *text = found == names.end() ? nullptr : found->second;
  return *text ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

HEDDLE_FAKE_ENTRY CUresult cuGetErrorString(CUresult error, const char **text) {
  *text = error == CUDA_ERROR_OUT_OF_MEMORY ? "out of memory" : nullptr;
  return *text ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

HEDDLE_FAKE_ENTRY CUresult cuDeviceGetCount(int *count) {
  *count = state.devices;
  return enter("cuDeviceGetCount", false);
}

HEDDLE_FAKE_ENTRY CUresult cuDeviceGet(CUdevice *device, int ordinal) {
  *device = ordinal;
  return enter("cuDeviceGet", false);
}

HEDDLE_FAKE_ENTRY CUresult cuDeviceGetName(char *name, int length,
                                           CUdevice device) {
  std::strncpy(name, "Fake GPU", length);
  return enter("cuDeviceGetName", false);
}

HEDDLE_FAKE_ENTRY CUresult cuDeviceGetAttribute(int *value,
                                                CUdevice_attribute attribute,
                                                CUdevice device) {
  switch (attribute) {
  case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR:
    *value = state.major;
    break;
  case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR:
    *value = state.minor;
    break;
  case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT:
    *value = state.multiprocessors;
    break;
  case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
    *value = 1024;
    break;
  case CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE:
    *value = 60 << 20;
    break;
  case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN:
    *value = state.sharedPerBlock;
    break;
  case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR:
    *value = state.sharedPerBlock + 1024;
    break;
  default:
    return CUDA_ERROR_INVALID_VALUE;
  }
  return enter("cuDeviceGetAttribute", false);
}

HEDDLE_FAKE_ENTRY CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice device) {
  *bytes = state.totalBytes;
  return enter("cuDeviceTotalMem_v2", false);
}

HEDDLE_FAKE_ENTRY CUresult cuDevicePrimaryCtxRetain(CUcontext *context,
                                                    CUdevice device) {
  if (CUresult code = enter("cuDevicePrimaryCtxRetain", false))
    return code;
  ++state.contexts;
  *context = &primary;
  return CUDA_SUCCESS;
}

HEDDLE_FAKE_ENTRY CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device) {
  --state.contexts;
  current = nullptr;
  return CUDA_SUCCESS;
}

HEDDLE_FAKE_ENTRY CUresult cuCtxSetCurrent(CUcontext context) {
  if (CUresult code = enter("cuCtxSetCurrent", false))
    return code;
  current = context;
  return CUDA_SUCCESS;
}

HEDDLE_FAKE_ENTRY CUresult cuCtxGetCurrent(CUcontext *context) {
  *context = current;
  return enter("cuCtxGetCurrent", false);
}

HEDDLE_FAKE_ENTRY CUresult cuCtxSynchronize() {
  if (CUresult code = enter("cuCtxSynchronize"))
    return code;
  runAll();
  return state.sticky;
}

HEDDLE_FAKE_ENTRY CUresult cuMemGetInfo_v2(size_t *freeBytes,
                                           size_t *totalBytes) {
  *freeBytes = state.freeBytes - state.allocated;
  *totalBytes = state.totalBytes;
  return enter("cuMemGetInfo_v2");
}

HEDDLE_FAKE_ENTRY CUresult cuMemAlloc_v2(CUdeviceptr *address, size_t bytes) {
  if (CUresult code = enter("cuMemAlloc_v2"))
    return code;
  if (disturbsCapture())
    return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  if (static_cast<int64_t>(bytes) > state.freeBytes - state.allocated)
    return CUDA_ERROR_OUT_OF_MEMORY;
  void *memory = nullptr;
  if (bytes == 0 || posix_memalign(&memory, 512, bytes) != 0)
    return CUDA_ERROR_INVALID_VALUE;
  blocks[memory] = bytes;
  ++state.blocks;
  state.allocated += static_cast<int64_t>(bytes);
  state.peak = std::max(state.peak, state.allocated);
  *address = reinterpret_cast<CUdeviceptr>(memory);
  return CUDA_SUCCESS;
}

HEDDLE_FAKE_ENTRY CUresult cuMemFree_v2(CUdeviceptr address) {
  if (CUresult code = enter("cuMemFree_v2"))
    return code;
  runAll(); // the driver waits too
  void *memory = reinterpret_cast<void *>(address);
  auto block = blocks.find(memory);
  if (block == blocks.end())
    return CUDA_ERROR_INVALID_VALUE;
  state.allocated -= static_cast<int64_t>(block->second);
  --state.blocks;
  blocks.erase(block);
  std::free(memory);
  return CUDA_SUCCESS;
}

HEDDLE_FAKE_ENTRY CUresult cuMemHostAlloc(void **address, size_t bytes,
                                          unsigned flags) {
  if (CUresult code = enter("cuMemHostAlloc"))
    return code;
  ++state.pinned;
  *address = std::malloc(bytes);
  return CUDA_SUCCESS;
}

HEDDLE_FAKE_ENTRY CUresult cuMemFreeHost(void *address) {
  if (CUresult code = enter("cuMemFreeHost"))
    return code;
  runAll();
  --state.pinned;
  std::free(address);
  return CUDA_SUCCESS;
}

HEDDLE_FAKE_ENTRY CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to,
                                                const void *from, size_t bytes,
                                                CUstream stream) {
  if (CUresult code = enter("cuMemcpyHtoDAsync_v2"))
    return code;
  return enqueue(stream, "copy", [=] {
    std::memcpy(reinterpret_cast<void *>(to), from, bytes);
  });
}

HEDDLE_FAKE_ENTRY CUresult cuMemcpyDtoHAsync_v2(void *to, CUdeviceptr from,
                                                size_t bytes, CUstream stream) {
  if (CUresult code = enter("cuMemcpyDtoHAsync_v2"))
    return code;
  return enqueue(stream, "copy", [=] {
    std::memcpy(to, reinterpret_cast<const void *>(from), bytes);
  });
}

HEDDLE_FAKE_ENTRY CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr to,
                                                CUdeviceptr from, size_t bytes,
                                                CUstream stream) {
  if (CUresult code = enter("cuMemcpyDtoDAsync_v2"))
    return code;
  return enqueue(stream, "copy", [=] {
    std::memcpy(reinterpret_cast<void *>(to),
                reinterpret_cast<const void *>(from), bytes);
  });
}

HEDDLE_FAKE_ENTRY CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char value,
                                           size_t count, CUstream stream) {
  if (CUresult code = enter("cuMemsetD8Async"))
    return code;
  return enqueue(stream, "fill", [=] {
    std::memset(reinterpret_cast<void *>(to), value, count);
  });
}
