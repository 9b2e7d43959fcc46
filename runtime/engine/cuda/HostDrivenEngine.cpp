//===- HostDrivenEngine.cpp - Steps that are decided as they come ---------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/engine/cuda/HostDrivenEngine.h"

#include "runtime/denoise/ModelEngine.h"
#include "runtime/engine/cuda/Model.h"
#include "runtime/engine/cuda/RowMemory.h"
#include "runtime/engine/cuda/Runner.h"
#include "runtime/schedule/ProgramExecutor.h"

#include <algorithm>
#include <string>
#include <utility>

namespace heddle::rt::cuda {

namespace {

class DeviceExecutor final : public ProgramExecutor {
public:
  static Result<std::unique_ptr<DeviceExecutor>>
  create(const Context &context, const Stream &stream, const Module &module,
         const RowKernels &rows, RowUploads &uploads,
         const bundle::Manifest &manifest, const ModelConfig &config,
         DType dtype) {
    std::unique_ptr<DeviceExecutor> executor(
        new DeviceExecutor(manifest, config, dtype,
                           std::make_unique<DeviceRowMemory>(
                               context, stream, rows, uploads, dtype)));
    if (Status s = executor->fit(); !s)
      return s.takeError();
    Result<ScheduleKernels> kernels =
        ScheduleKernels::bind(context, module, executor->manifest(),
                              executor->stepProgram(), config, dtype);
    if (!kernels)
      return kernels.takeError();
    executor->setRunner(std::make_unique<DeviceRunner>(
        context, stream, uploads,
        executor->manifest().targets[module.choice().target],
        std::move(*kernels)));
    return executor;
  }

private:
  using ProgramExecutor::ProgramExecutor;
};

class Engine final : public HostDrivenEngine {
public:
  Engine(const DeviceWeights &weights, const ModelConfig &config, DType dtype)
      : weights(weights), info(config), type(dtype) {}

  Status open(const Context &context, const bundle::Bundle &bundle);

  const ModelConfig &config() const override { return info; }
  DType dtype() const override { return type; }
  Status beginRun(std::span<const std::vector<int32_t>> prompts,
                  const GenerateOptions &options) override {
    if (!weights.embedding)
      return Error("a run was begun before its model was loaded");
    return loop->beginRun(prompts, options);
  }
  Status step(const StepPlace &place, StepOutcome *outcome) override {
    return loop->step(place, outcome);
  }
  bool finished() const override { return loop->finished(); }
  Result<std::vector<std::vector<int32_t>>> tokens() override {
    return loop->tokens();
  }
  int64_t runBytes(const std::vector<int64_t> &promptLengths,
                   const GenerateOptions &options) const override;
  int64_t listBytes(const std::vector<int64_t> &promptLengths,
                    const GenerateOptions &options) const override {
    return executor->listBytes(
        sequenceShapes(promptLengths, options, executor->manifest()));
  }

private:
  const DeviceWeights &weights;
  const ModelConfig info;
  const DType type;
  Stream stream;
  std::unique_ptr<Module> module;
  RowKernels rows;
  // What uses them goes before them.
  RowUploads uploads;
  std::unique_ptr<CudaModel> model;
  std::unique_ptr<DeviceExecutor> executor;
  std::unique_ptr<StepEngine> loop;
};

Status Engine::open(const Context &context, const bundle::Bundle &bundle) {
  if (Status s = Stream::create(context).moveTo(stream); !s)
    return s;
  if (Status s = Module::load(context, bundle).moveTo(module); !s)
    return s;
  if (Status s =
          RowKernels::bind(bundle.manifest(), *module, type).moveTo(rows);
      !s)
    return s;
  uploads = RowUploads(context);
  if (Status s = DeviceExecutor::create(context, stream, *module, rows, uploads,
                                        bundle.manifest(), info, type)
                     .moveTo(executor);
      !s)
    return s;
  model = std::make_unique<CudaModel>(context, stream, weights, rows, uploads,
                                      info, type);
  loop = makeModelEngine(*model, *executor);
  return Status::success();
}

int64_t Engine::runBytes(const std::vector<int64_t> &promptLengths,
                         const GenerateOptions &options) const {
  const std::vector<SequenceShape> shapes =
      sequenceShapes(promptLengths, options, executor->manifest());
  int64_t rowCount = 0;
  for (const SequenceShape &shape : shapes)
    rowCount += shape.mostRows();
  return executor->runBytes(shapes) + model->activationBytes(rowCount);
}

} // namespace

Result<std::unique_ptr<HostDrivenEngine>>
HostDrivenEngine::create(const Context &context, const DeviceWeights &weights,
                         const bundle::Bundle &bundle,
                         const ModelConfig &config, DType dtype) {
  if (Status s = RowKernels::checkWidths(config); !s)
    return s.takeError();
  auto engine = std::make_unique<Engine>(weights, config, dtype);
  if (Status s = engine->open(context, bundle); !s)
    return s.takeError();
  return std::unique_ptr<HostDrivenEngine>(std::move(engine));
}

} // namespace heddle::rt::cuda
