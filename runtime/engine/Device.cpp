//===- Device.cpp - A machine that runs models ---------------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/engine/Device.h"

#include "runtime/device/cuda/Context.h"
#include "runtime/engine/HostDevice.h"
#include "runtime/engine/cuda/CudaDevice.h"

#include <charconv>
#include <optional>

namespace heddle::rt {

/// N of "cuda:N", 0 of "cuda".
static std::optional<int> gpuOrdinal(std::string_view name) {
  constexpr std::string_view prefix = "cuda";
  if (name == prefix)
    return 0;
  if (name.substr(0, prefix.size() + 1) != "cuda:")
    return std::nullopt;
  std::string_view digits = name.substr(prefix.size() + 1);
  int ordinal = 0;
  auto [end, error] =
      std::from_chars(digits.data(), digits.data() + digits.size(), ordinal);
  if (error != std::errc() || end != digits.data() + digits.size() ||
      ordinal < 0)
    return std::nullopt;
  return ordinal;
}

Status checkDeviceName(const std::string &name) {
  if (name == "cpu" || gpuOrdinal(name))
    return Status::success();
  return Error("there is no device '" + name +
               "'; expected cpu, cuda or cuda:N with N from 0");
}

Result<std::unique_ptr<Device>> Device::open(const DeviceOptions &options,
                                             const ModelConfig &config) {
  if (options.name == "cpu")
    return openHostDevice(options, config);
  if (Status status = checkDeviceName(options.name); !status)
    return status.takeError();
  return cuda::openDevice(options, *gpuOrdinal(options.name), config);
}

std::string describeGpus() {
  Result<std::shared_ptr<const cuda::Driver>> driver = cuda::Driver::open();
  if (!driver)
    return driver.error().text() + "\n";
  std::string text;
  for (int i = 0; i < (*driver)->devices(); ++i) {
    Result<std::unique_ptr<cuda::Context>> context =
        cuda::Context::open(*driver, i);
    text +=
        "cuda:" + std::to_string(i) + "  " +
        (context ? (*context)->device().describe() : context.error().text()) +
        "\n";
  }
  return text;
}

} // namespace heddle::rt
