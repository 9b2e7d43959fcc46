//===- HostDevice.cpp - This machine as a device -------------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/engine/HostDevice.h"

#include "runtime/base/CpuName.h"
#include "runtime/base/Parallel.h"
#include "runtime/denoise/ModelEngine.h"

namespace heddle::rt {

namespace {

class HostDevice final : public Device {
public:
  HostDevice(const DeviceOptions &options, const ModelConfig &config)
      : dtype(options.dtype), config(config) {}

  std::string description() const override;
  Result<std::unique_ptr<StepEngine>>
  engine(const bundle::Bundle &bundle) override;
  Result<MemoryUse> checkRun(StepEngine &engine,
                             const std::vector<int64_t> &promptLengths,
                             const GenerateOptions &options) override;
  Status load(const std::string &folder, const LoadOptions &options) override;
  Status loadRandom(uint64_t) override {
    return Error("random weights are made on GPUs only; use --device=cuda");
  }
  int64_t weightBytes() const override {
    return model ? model->weightBytes() : 0;
  }

  const DType dtype;
  const ModelConfig config;
  std::unique_ptr<Model> model;
};

std::string HostDevice::description() const {
  const int threads = threadCount();
  std::string text = cpuName() + ", " + std::to_string(threads) +
                     (threads == 1 ? " thread" : " threads");
  return model ? text + ", " + model->description() : text;
}

/// A bundle's executor; the engine proper exists once there is a model.
class Engine final : public StepEngine {
public:
  Engine(HostDevice &device, std::unique_ptr<ScheduleExecutor> executor)
      : device(device), executor(std::move(executor)) {}

  const ModelConfig &config() const override { return device.config; }
  DType dtype() const override { return device.dtype; }
  Status beginRun(std::span<const std::vector<int32_t>> prompts,
                  const GenerateOptions &options) override {
    if (!device.model)
      return Error("a run was begun before its model was loaded");
    inner = makeModelEngine(*device.model, *executor);
    return inner->beginRun(prompts, options);
  }
  Status step(const StepPlace &place, StepOutcome *outcome) override {
    return inner->step(place, outcome);
  }
  bool finished() const override { return inner->finished(); }
  Result<std::vector<std::vector<int32_t>>> tokens() override {
    return inner->tokens();
  }

  const ScheduleExecutor &schedule() const { return *executor; }

private:
  HostDevice &device;
  std::unique_ptr<ScheduleExecutor> executor;
  std::unique_ptr<StepEngine> inner;
};

Result<std::unique_ptr<StepEngine>>
HostDevice::engine(const bundle::Bundle &bundle) {
  auto executor = ScheduleExecutor::create(bundle, config, dtype);
  if (!executor)
    return executor.takeError();
  return std::unique_ptr<StepEngine>(
      std::make_unique<Engine>(*this, std::move(*executor)));
}

/// The model refuses what does not fit when it is loaded, the run when it
/// begins: each checks before it allocates.
Result<MemoryUse>
HostDevice::checkRun(StepEngine &engine,
                     const std::vector<int64_t> &promptLengths,
                     const GenerateOptions &options) {
  MemoryUse use;
  const ScheduleExecutor &executor = static_cast<Engine &>(engine).schedule();
  use.run = executor.runBytes(
      sequenceShapes(promptLengths, options, executor.manifest()));
  return use;
}

Status HostDevice::load(const std::string &folder, const LoadOptions &options) {
  if (Status status = Model::load(folder, options).moveTo(model); !status)
    return status;
  return Status::success();
}

} // namespace

Result<std::unique_ptr<Device>> openHostDevice(const DeviceOptions &options,
                                               const ModelConfig &config) {
  if (options.dtype == DType::F16)
    return Error("--dtype=f16 needs a GPU: the host's kernels compute in f32 "
                 "or bf16");
  return std::unique_ptr<Device>(std::make_unique<HostDevice>(options, config));
}

} // namespace heddle::rt
