//===- CudaDevice.cpp - An NVIDIA GPU as a device -------------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/engine/cuda/CudaDevice.h"

#include "runtime/base/Machine.h"
#include "runtime/device/cuda/CublasLt.h"
#include "runtime/engine/cuda/Engine.h"
#include "runtime/engine/cuda/HostDrivenEngine.h"

namespace heddle::rt::cuda {

namespace {

class CudaDevice final : public Device {
public:
  CudaDevice(std::unique_ptr<Context> context,
             std::shared_ptr<const CublasLt> blas, const DeviceOptions &options,
             const ModelConfig &config)
      : context(std::move(context)), blas(std::move(blas)),
        dtype(options.dtype), observed(options.observed), config(config) {}

  std::string description() const override {
    return context->device().describe();
  }

  Result<std::unique_ptr<StepEngine>>
  engine(const bundle::Bundle &bundle) override {
    auto made = [](auto engine) -> Result<std::unique_ptr<StepEngine>> {
      if (!engine)
        return engine.takeError();
      return std::unique_ptr<StepEngine>(std::move(*engine));
    };
    if (!observed && CudaEngine::supports(bundle.manifest(), config))
      return made(CudaEngine::create(*context, weights, bundle, config, dtype));
    return made(
        HostDrivenEngine::create(*context, weights, bundle, config, dtype));
  }

  Result<MemoryUse> checkRun(StepEngine &engine,
                             const std::vector<int64_t> &promptLengths,
                             const GenerateOptions &options) override {
    MemoryUse use;
    use.weights = DeviceWeights::bytesFor(config, dtype);
    if (auto *hostDriven = dynamic_cast<HostDrivenEngine *>(&engine)) {
      use.run = hostDriven->runBytes(promptLengths, options);
      use.indexLayouts = hostDriven->listBytes(promptLengths, options);
    } else {
      auto &captured = static_cast<CudaEngine &>(engine);
      Result<ArenaPlan> plan = captured.planRun(promptLengths, options);
      if (!plan)
        return plan.takeError();
      if (Status s = plan->layout().moveTo(use.run); !s)
        return s.takeError();
      use.indexLayouts = captured.listBytes();
      use.table = plan->describe();
    }
    Result<MemoryInfo> memory = context->memory();
    if (!memory)
      return memory.takeError();
    int64_t room = memory->free - ArenaOptions().reserve - use.run;
    if (room < (weights.bytes() ? 0 : use.weights))
      return Error(
          description() + " has " + formatBytes(memory->free) +
          " free, but the model needs " + formatBytes(use.weights) +
          " and this run " + formatBytes(use.run) +
          " beside it; use shorter or fewer sequences, keep fewer "
          "columns or take larger groups" +
          (use.table.empty() ? "" : ". The run's memory:\n" + use.table));
    return use;
  }

  Status load(const std::string &folder, const LoadOptions &options) override {
    if (Status s = DeviceWeights::load(*context, config, folder, options)
                       .moveTo(weights);
        !s)
      return s;
    return Status::success();
  }

  Status loadRandom(uint64_t seed) override {
    if (Status s = DeviceWeights::random(*context, config, dtype, seed)
                       .moveTo(weights);
        !s)
      return s;
    return Status::success();
  }

  int64_t weightBytes() const override { return weights.bytes(); }

private:
  std::unique_ptr<Context> context;
  std::shared_ptr<const CublasLt> blas; ///< for the runs, which open it again
  DType dtype;
  bool observed;
  ModelConfig config;
  DeviceWeights weights;
};

} // namespace

Result<std::unique_ptr<Device>> openDevice(const DeviceOptions &options,
                                           int ordinal,
                                           const ModelConfig &config) {
  Result<std::unique_ptr<Context>> context = Context::open(ordinal);
  if (!context)
    return context.takeError();
  return makeDevice(options, std::move(*context), config);
}

Result<std::unique_ptr<Device>> makeDevice(const DeviceOptions &options,
                                           std::unique_ptr<Context> context,
                                           const ModelConfig &config) {
  // Now, as without it a model would be loaded in vain.
  Result<std::shared_ptr<const CublasLt>> blas =
      CublasLt::open(context->device().driverVersion);
  if (!blas)
    return blas.takeError();
  return std::unique_ptr<Device>(std::make_unique<CudaDevice>(
      std::move(context), std::move(*blas), options, config));
}

} // namespace heddle::rt::cuda
