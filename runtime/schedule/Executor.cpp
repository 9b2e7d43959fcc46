//===- Executor.cpp - A bundle's step program on its host code ------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/schedule/Executor.h"

#include "runtime/module/HostModule.h"
#include "runtime/schedule/BoundKernel.h"
#include "runtime/schedule/HostKernels.h"
#include "runtime/schedule/ProgramExecutor.h"

using namespace heddle;
using namespace heddle::rt;

namespace {

class Executor final : public ProgramExecutor {
public:
  static Result<std::unique_ptr<ScheduleExecutor>>
  create(const bundle::Manifest &program, const bundle::Bundle &bundle,
         const ModelConfig &config, DType dtype) {
    std::unique_ptr<Executor> executor(new Executor(program, config, dtype));
    if (Status status = executor->fit(); !status)
      return status.takeError();
    Result<std::unique_ptr<HostModule>> module = HostModule::load(bundle);
    if (!module)
      return module.takeError();
    Result<std::vector<BoundKernel>> kernels =
        bindKernels(executor->manifest(), executor->stepProgram(), **module,
                    dtype, config.headDim);
    if (!kernels)
      return kernels.takeError();
    executor->setRunner(
        std::make_unique<HostKernels>(std::move(*module), std::move(*kernels)));
    return std::unique_ptr<ScheduleExecutor>(std::move(executor));
  }

private:
  using ProgramExecutor::ProgramExecutor;
};

} // namespace

Result<std::unique_ptr<ScheduleExecutor>>
ScheduleExecutor::create(const bundle::Bundle &bundle,
                         const ModelConfig &config, DType dtype) {
  return Executor::create(bundle.manifest(), bundle, config, dtype);
}

Result<std::unique_ptr<ScheduleExecutor>>
ScheduleExecutor::create(const bundle::Manifest &program,
                         const bundle::Bundle &bundle,
                         const ModelConfig &config, DType dtype) {
  return Executor::create(program, bundle, config, dtype);
}
