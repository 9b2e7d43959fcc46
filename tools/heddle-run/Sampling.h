//===- Sampling.h - The sampler that a model runs with ----------*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_TOOLS_HEDDLE_RUN_SAMPLING_H
#define HEDDLE_TOOLS_HEDDLE_RUN_SAMPLING_H

#include "Options.h"
#include "bundle/Result.h"
#include "runtime/model/Config.h"
#include "runtime/model/GenerationConfig.h"
#include "runtime/sample/Sampler.h"

#include <string_view>

namespace heddle::run {

/// The options of the command line as the sampler of the model's family, what
/// is not given from `defaults`, and what these leave open as upstream has it.
/// Refused: options that only other families have, an alg that there is not,
/// and numbers out of range. A folder's generation_config.json counts only for
/// models that sample by timesteps.
Result<rt::SampleOptions> resolveSampling(const RunOptions &options,
                                          const rt::ModelConfig &config,
                                          const rt::GenerationConfig &defaults);

/// "maskgit_plus" and so on, as Dream's code names them.
std::string_view algName(rt::TransferRule rule);

} // namespace heddle::run

#endif // HEDDLE_TOOLS_HEDDLE_RUN_SAMPLING_H
