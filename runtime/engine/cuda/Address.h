//===- Address.h - Device addresses in argument blocks ----------*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_ENGINE_CUDA_ADDRESS_H
#define HEDDLE_RUNTIME_ENGINE_CUDA_ADDRESS_H

#include "runtime/device/cuda/DriverApi.h"

#include <cstdint>

namespace heddle::rt::cuda {

/// A device address as the pointer that argument blocks (bundle/abi/Abi.h,
/// bundle/abi/RowAbi.h) have; never to be read through on the host.
template <typename T> T *at(DevicePtr address) {
  return reinterpret_cast<T *>(static_cast<uintptr_t>(address));
}

/// The device address that such a pointer stands for.
inline DevicePtr addressOf(const void *pointer) {
  return static_cast<DevicePtr>(reinterpret_cast<uintptr_t>(pointer));
}

} // namespace heddle::rt::cuda

#endif // HEDDLE_RUNTIME_ENGINE_CUDA_ADDRESS_H
