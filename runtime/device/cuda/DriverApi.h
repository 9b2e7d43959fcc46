//===- DriverApi.h - What is used of the driver API -------------*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Declared here so that the runtime builds where no CUDA toolkit is. Names are
// the driver's; types and numbers follow the CUDA Driver API reference, whose
// ABI is stable: a symbol's signature never changes, new ones get a suffix. A
// test compares all of this with cuda.h where that is installed.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_DEVICE_CUDA_DRIVERAPI_H
#define HEDDLE_RUNTIME_DEVICE_CUDA_DRIVERAPI_H

#include <cstddef>
#include <cstdint>

namespace heddle::rt::cuda {

/// An address in the device's memory.
using DevicePtr = uint64_t;

namespace api {

using CUresult = int;
using CUdevice = int;
using CUdeviceptr = DevicePtr;
using CUcontext = struct CUctx_st *;
using CUmodule = struct CUmod_st *;
using CUfunction = struct CUfunc_st *;
using CUstream = struct CUstream_st *;
using CUevent = struct CUevent_st *;
using CUgraph = struct CUgraph_st *;
using CUgraphNode = struct CUgraphNode_st *;
using CUgraphExec = struct CUgraphExec_st *;

enum : CUresult {
  CUDA_SUCCESS = 0,
  CUDA_ERROR_INVALID_VALUE = 1,
  CUDA_ERROR_OUT_OF_MEMORY = 2,
  CUDA_ERROR_NOT_INITIALIZED = 3,
  CUDA_ERROR_DEINITIALIZED = 4,
  CUDA_ERROR_STUB_LIBRARY = 34,
  CUDA_ERROR_DEVICE_UNAVAILABLE = 46,
  CUDA_ERROR_NO_DEVICE = 100,
  CUDA_ERROR_INVALID_DEVICE = 101,
  CUDA_ERROR_INVALID_IMAGE = 200,
  CUDA_ERROR_INVALID_CONTEXT = 201,
  CUDA_ERROR_NO_BINARY_FOR_GPU = 209,
  CUDA_ERROR_ECC_UNCORRECTABLE = 214,
  CUDA_ERROR_INVALID_PTX = 218,
  CUDA_ERROR_NVLINK_UNCORRECTABLE = 220,
  CUDA_ERROR_JIT_COMPILER_NOT_FOUND = 221,
  CUDA_ERROR_UNSUPPORTED_PTX_VERSION = 222,
  CUDA_ERROR_JIT_COMPILATION_DISABLED = 223,
  CUDA_ERROR_CONTAINED = 226,
  CUDA_ERROR_NOT_FOUND = 500,
  CUDA_ERROR_NOT_READY = 600,
  CUDA_ERROR_ILLEGAL_ADDRESS = 700,
  CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES = 701,
  CUDA_ERROR_LAUNCH_TIMEOUT = 702,
  CUDA_ERROR_ASSERT = 710,
  CUDA_ERROR_HARDWARE_STACK_ERROR = 714,
  CUDA_ERROR_ILLEGAL_INSTRUCTION = 715,
  CUDA_ERROR_MISALIGNED_ADDRESS = 716,
  CUDA_ERROR_INVALID_ADDRESS_SPACE = 717,
  CUDA_ERROR_INVALID_PC = 718,
  CUDA_ERROR_LAUNCH_FAILED = 719,
  CUDA_ERROR_TENSOR_MEMORY_LEAK = 721,
  CUDA_ERROR_SYSTEM_NOT_READY = 802,
  CUDA_ERROR_SYSTEM_DRIVER_MISMATCH = 803,
  CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE = 804,
  CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED = 900,
  CUDA_ERROR_STREAM_CAPTURE_INVALIDATED = 901,
  CUDA_ERROR_EXTERNAL_DEVICE = 911,
  CUDA_ERROR_UNKNOWN = 999,
};

enum CUdevice_attribute : int {
  CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK = 1,
  CU_DEVICE_ATTRIBUTE_CLOCK_RATE = 13,
  CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT = 16,
  CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE = 36,
  CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH = 37,
  CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE = 38,
  CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR = 75,
  CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR = 76,
  CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR = 81,
  CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN = 97,
};

enum CUfunction_attribute : int {
  CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK = 0,
  CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES = 1,
  CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES = 3,
  CU_FUNC_ATTRIBUTE_NUM_REGS = 4,
  CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES = 8,
  CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED = 14,
};

enum CUjit_option : int {
  CU_JIT_INFO_LOG_BUFFER = 3,
  CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES = 4,
  CU_JIT_ERROR_LOG_BUFFER = 5,
  CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES = 6,
};

enum CUstream_flags : unsigned { CU_STREAM_NON_BLOCKING = 1 };
enum CUevent_flags : unsigned {
  CU_EVENT_DEFAULT = 0,
  CU_EVENT_DISABLE_TIMING = 2,
};
enum CUlaunchAttributeID : int {
  CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION = 6,
};
enum CUtensorMapDataType : unsigned {
  CU_TENSOR_MAP_DATA_TYPE_FLOAT16 = 6,
  CU_TENSOR_MAP_DATA_TYPE_BFLOAT16 = 9,
};
enum CUtensorMapInterleave : unsigned { CU_TENSOR_MAP_INTERLEAVE_NONE = 0 };
enum CUtensorMapSwizzle : unsigned { CU_TENSOR_MAP_SWIZZLE_128B = 3 };
enum CUtensorMapL2promotion : unsigned {
  CU_TENSOR_MAP_L2_PROMOTION_L2_256B = 3,
};
enum CUtensorMapFloatOOBfill : unsigned {
  CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE = 0,
};
enum CUstreamCaptureMode : int {
  CU_STREAM_CAPTURE_MODE_THREAD_LOCAL = 1,
  CU_STREAM_CAPTURE_MODE_RELAXED = 2
};

/// The value's type depends on the attribute.
struct CUlaunchAttribute {
  CUlaunchAttributeID id;
  alignas(8) union {
    char pad[64];
    int programmaticStreamSerializationAllowed;
  } value;
};

struct CUlaunchConfig {
  unsigned gridDimX, gridDimY, gridDimZ;
  unsigned blockDimX, blockDimY, blockDimZ;
  unsigned sharedMemBytes;
  CUstream hStream;
  CUlaunchAttribute *attrs;
  unsigned numAttrs;
};

} // namespace api

/// X(member, "symbol", parameters): every entry point that must be there.
#define HEDDLE_CUDA_ENTRY_POINTS(X)                                            \
  X(init, "cuInit", (unsigned flags))                                          \
  X(driverGetVersion, "cuDriverGetVersion", (int *version))                    \
  X(getErrorName, "cuGetErrorName", (CUresult error, const char **text))       \
  X(getErrorString, "cuGetErrorString", (CUresult error, const char **text))   \
  X(deviceGetCount, "cuDeviceGetCount", (int *count))                          \
  X(deviceGet, "cuDeviceGet", (CUdevice * device, int ordinal))                \
  X(deviceGetName, "cuDeviceGetName",                                          \
    (char *name, int length, CUdevice device))                                 \
  X(deviceGetAttribute, "cuDeviceGetAttribute",                                \
    (int *value, CUdevice_attribute attribute, CUdevice device))               \
  X(deviceTotalMem, "cuDeviceTotalMem_v2", (size_t *bytes, CUdevice device))   \
  X(primaryCtxRetain, "cuDevicePrimaryCtxRetain",                              \
    (CUcontext * context, CUdevice device))                                    \
  X(primaryCtxRelease, "cuDevicePrimaryCtxRelease_v2", (CUdevice device))      \
  X(ctxSetCurrent, "cuCtxSetCurrent", (CUcontext context))                     \
  X(ctxSynchronize, "cuCtxSynchronize", ())                                    \
  X(memGetInfo, "cuMemGetInfo_v2", (size_t *freeBytes, size_t *totalBytes))    \
  X(memAlloc, "cuMemAlloc_v2", (CUdeviceptr * address, size_t bytes))          \
  X(memFree, "cuMemFree_v2", (CUdeviceptr address))                            \
  X(memHostAlloc, "cuMemHostAlloc",                                            \
    (void **address, size_t bytes, unsigned flags))                            \
  X(memFreeHost, "cuMemFreeHost", (void *address))                             \
  X(memcpyHtoDAsync, "cuMemcpyHtoDAsync_v2",                                   \
    (CUdeviceptr to, const void *from, size_t bytes, CUstream stream))         \
  X(memcpyDtoHAsync, "cuMemcpyDtoHAsync_v2",                                   \
    (void *to, CUdeviceptr from, size_t bytes, CUstream stream))               \
  X(memcpyDtoDAsync, "cuMemcpyDtoDAsync_v2",                                   \
    (CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream))         \
  X(memsetD8Async, "cuMemsetD8Async",                                          \
    (CUdeviceptr to, unsigned char value, size_t count, CUstream stream))      \
  X(moduleLoadDataEx, "cuModuleLoadDataEx",                                    \
    (CUmodule * module, const void *image, unsigned count,                     \
     CUjit_option *options, void **values))                                    \
  X(moduleUnload, "cuModuleUnload", (CUmodule module))                         \
  X(moduleGetFunction, "cuModuleGetFunction",                                  \
    (CUfunction * function, CUmodule module, const char *name))                \
  X(moduleGetGlobal, "cuModuleGetGlobal_v2",                                   \
    (CUdeviceptr * address, size_t *bytes, CUmodule module, const char *name)) \
  X(funcGetAttribute, "cuFuncGetAttribute",                                    \
    (int *value, CUfunction_attribute attribute, CUfunction function))         \
  X(funcSetAttribute, "cuFuncSetAttribute",                                    \
    (CUfunction function, CUfunction_attribute attribute, int value))          \
  X(occupancy, "cuOccupancyMaxActiveBlocksPerMultiprocessor",                  \
    (int *blocks, CUfunction function, int threads, size_t sharedBytes))       \
  X(launchKernel, "cuLaunchKernel",                                            \
    (CUfunction function, unsigned gridX, unsigned gridY, unsigned gridZ,      \
     unsigned blockX, unsigned blockY, unsigned blockZ, unsigned sharedBytes,  \
     CUstream stream, void **parameters, void **extra))                        \
  X(tensorMapEncodeTiled, "cuTensorMapEncodeTiled",                            \
    (void *map, CUtensorMapDataType type, unsigned rank, void *address,        \
     const uint64_t *sizes, const uint64_t *strides, const unsigned *box,      \
     const unsigned *steps, CUtensorMapInterleave interleave,                  \
     CUtensorMapSwizzle swizzle, CUtensorMapL2promotion promotion,             \
     CUtensorMapFloatOOBfill fill))                                            \
  X(streamCreate, "cuStreamCreate", (CUstream * stream, unsigned flags))       \
  X(streamDestroy, "cuStreamDestroy_v2", (CUstream stream))                    \
  X(streamSynchronize, "cuStreamSynchronize", (CUstream stream))               \
  X(streamBeginCapture, "cuStreamBeginCapture_v2",                             \
    (CUstream stream, CUstreamCaptureMode mode))                               \
  X(streamEndCapture, "cuStreamEndCapture",                                    \
    (CUstream stream, CUgraph * graph))                                        \
  X(streamIsCapturing, "cuStreamIsCapturing", (CUstream stream, int *status))  \
  X(eventCreate, "cuEventCreate", (CUevent * event, unsigned flags))           \
  X(eventDestroy, "cuEventDestroy_v2", (CUevent event))                        \
  X(eventRecord, "cuEventRecord", (CUevent event, CUstream stream))            \
  X(eventQuery, "cuEventQuery", (CUevent event))                               \
  X(eventSynchronize, "cuEventSynchronize", (CUevent event))                   \
  X(eventElapsedTime, "cuEventElapsedTime",                                    \
    (float *milliseconds, CUevent start, CUevent end))                         \
  X(graphInstantiate, "cuGraphInstantiateWithFlags",                           \
    (CUgraphExec * exec, CUgraph graph, unsigned long long flags))             \
  X(graphGetNodes, "cuGraphGetNodes",                                          \
    (CUgraph graph, CUgraphNode * nodes, size_t *count))                       \
  X(graphLaunch, "cuGraphLaunch", (CUgraphExec exec, CUstream stream))         \
  X(graphExecDestroy, "cuGraphExecDestroy", (CUgraphExec exec))                \
  X(graphDestroy, "cuGraphDestroy", (CUgraph graph))

/// Entry points that newer drivers have and that can be done without.
#define HEDDLE_CUDA_OPTIONAL_ENTRY_POINTS(X)                                   \
  X(ctxGetCurrent, "cuCtxGetCurrent", (CUcontext * context))                   \
  X(exchangeCaptureMode, "cuThreadExchangeStreamCaptureMode",                  \
    (CUstreamCaptureMode * mode))                                              \
  X(streamGetId, "cuStreamGetId", /* since 12.0 */                             \
    (CUstream stream, unsigned long long *id))                                 \
  X(launchKernelEx, "cuLaunchKernelEx", /* since 11.8 */                       \
    (const CUlaunchConfig *config, CUfunction function, void **parameters,     \
     void **extra))                                                            \
  X(activeClusters, "cuOccupancyMaxActiveClusters", /* since 11.8 */           \
    (int *clusters, CUfunction function, const CUlaunchConfig *config))        \
  X(funcGetParamInfo, "cuFuncGetParamInfo", /* since 12.4 */                   \
    (CUfunction function, size_t index, size_t *offset, size_t *bytes))

namespace api {

/// An entry point and the name that its errors carry.
template <typename Signature> struct EntryPoint {
  const char *name;
  Signature *function = nullptr;
};

/// All entry points by their short names.
struct EntryPoints {
#define HEDDLE_DECLARE(member, symbol, parameters)                             \
  EntryPoint<CUresult parameters> member{symbol};
  HEDDLE_CUDA_ENTRY_POINTS(HEDDLE_DECLARE)
  HEDDLE_CUDA_OPTIONAL_ENTRY_POINTS(HEDDLE_DECLARE)
#undef HEDDLE_DECLARE
};

} // namespace api
} // namespace heddle::rt::cuda

#endif // HEDDLE_RUNTIME_DEVICE_CUDA_DRIVERAPI_H
