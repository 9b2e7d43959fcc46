//===- HostEngine.h - Steps on the host -------------------------*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_DENOISE_HOSTENGINE_H
#define HEDDLE_RUNTIME_DENOISE_HOSTENGINE_H

#include "runtime/denoise/StepEngine.h"
#include "runtime/model/Model.h"

#include <memory>

namespace heddle::rt {

/// Joins a model, a schedule's executor and the sampler, all of which run on
/// this machine's cores. Both must outlive the result; one engine at a time.
std::unique_ptr<StepEngine> makeHostEngine(Model &model,
                                           ScheduleExecutor &executor);

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_DENOISE_HOSTENGINE_H
