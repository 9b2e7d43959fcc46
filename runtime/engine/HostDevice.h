//===- HostDevice.h - This machine as a device ------------------*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_ENGINE_HOSTDEVICE_H
#define HEDDLE_RUNTIME_ENGINE_HOSTDEVICE_H

#include "runtime/engine/Device.h"

namespace heddle::rt {

/// The cores of this machine, with F32 or BF16 weights.
Result<std::unique_ptr<Device>> openHostDevice(const DeviceOptions &options,
                                               const ModelConfig &config);

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_ENGINE_HOSTDEVICE_H
