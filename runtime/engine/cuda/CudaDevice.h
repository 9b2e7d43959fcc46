//===- CudaDevice.h - An NVIDIA GPU as a device -----------------*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_ENGINE_CUDA_CUDADEVICE_H
#define HEDDLE_RUNTIME_ENGINE_CUDA_CUDADEVICE_H

#include "runtime/device/cuda/Context.h"
#include "runtime/engine/Device.h"

namespace heddle::rt::cuda {

/// GPU `ordinal` of this machine, with weights in any type. Refused as by
/// Context::open, and when there is no cuBLASLt.
Result<std::unique_ptr<Device>> openDevice(const DeviceOptions &options,
                                           int ordinal,
                                           const ModelConfig &config);

/// The same for a GPU that is open.
Result<std::unique_ptr<Device>> makeDevice(const DeviceOptions &options,
                                           std::unique_ptr<Context> context,
                                           const ModelConfig &config);

} // namespace heddle::rt::cuda

#endif // HEDDLE_RUNTIME_ENGINE_CUDA_CUDADEVICE_H
