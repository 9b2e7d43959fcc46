//===- ModelEngine.h - Steps of a model under a schedule --------*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_DENOISE_MODELENGINE_H
#define HEDDLE_RUNTIME_DENOISE_MODELENGINE_H

#include "runtime/denoise/StepEngine.h"
#include "runtime/model/Model.h"

#include <cstdint>
#include <memory>
#include <vector>

namespace heddle::rt {

/// The sequences that are run for these prompts: of each as many copies as the
/// schedule needs to verify drafts, or its shadow, one behind the other; with
/// guidance the unconditional ones behind all others.
std::vector<SequenceShape>
sequenceShapes(const std::vector<int64_t> &promptLengths,
               const GenerateOptions &options,
               const bundle::Manifest &schedule);

/// Joins a model and a schedule's executor, of the host or of one device, with
/// the sampler, which runs on the host. Both must outlive the result; one
/// engine at a time.
std::unique_ptr<StepEngine> makeModelEngine(Model &model,
                                            ScheduleExecutor &executor);

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_DENOISE_MODELENGINE_H
