//===- Device.h - A machine that runs models --------------------*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_ENGINE_DEVICE_H
#define HEDDLE_RUNTIME_ENGINE_DEVICE_H

#include "bundle/Result.h"
#include "bundle/format/Bundle.h"
#include "runtime/denoise/StepEngine.h"
#include "runtime/model/Config.h"
#include "runtime/model/Model.h"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace heddle::rt {

struct DeviceOptions {
  /// "cpu", "cuda" (the first GPU) or "cuda:N".
  std::string name = "cpu";
  DType dtype = DType::F32;
  /// Engines fill traces and maps: on a GPU the host then drives every run.
  bool observed = false;
};

/// Refuses what is no device's name, present or not.
Status checkDeviceName(const std::string &name);

/// Memory of a run, for people and programs.
struct MemoryUse {
  int64_t weights = 0;
  int64_t run = 0; ///< everything else at its peak
  int64_t indexLayouts = 0;
  std::string table; ///< the run's buffers, largest first; may be empty
};

/// A device with at most one model on it. Order of calls: open, engine (any
/// number, before or after), checkRun, a load, then runs. Engines hold a
/// reference to their device.
class Device {
public:
  virtual ~Device() = default;

  /// Refused, with what to do, when there is no such device or it can't be
  /// used. `config`: of the model that will be loaded.
  static Result<std::unique_ptr<Device>> open(const DeviceOptions &options,
                                              const ModelConfig &config);

  /// For people: "NVIDIA H200 (device 0, compute capability 9.0)"; of a host
  /// its CPU, threads and, with a model, what multiplies: "AMD EPYC 9R14
  /// 96-Core Processor, 2 threads, oneDNN 2.6.3, brg:avx512_core_bf16".
  virtual std::string description() const = 0;

  /// Loads a bundle's code and binds it to the model's shape.
  virtual Result<std::unique_ptr<StepEngine>>
  engine(const bundle::Bundle &bundle) = 0;

  /// Refuses a run that does not fit beside the model, before anything of the
  /// model is loaded; else what it will take.
  virtual Result<MemoryUse> checkRun(StepEngine &engine,
                                     const std::vector<int64_t> &promptLengths,
                                     const GenerateOptions &options) = 0;

  /// Loads the model of a folder; `options.dtype` is the device's.
  virtual Status load(const std::string &folder,
                      const LoadOptions &options) = 0;

  /// Makes a model of random weights instead; not every device can.
  virtual Status loadRandom(uint64_t seed) = 0;

  /// Bytes of weights held.
  virtual int64_t weightBytes() const = 0;
};

/// The GPUs of this machine for people, a line each, or why there are none.
std::string describeGpus();

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_ENGINE_DEVICE_H
