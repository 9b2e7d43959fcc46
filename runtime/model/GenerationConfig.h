//===- GenerationConfig.h - generation_config.json of a model ---*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_MODEL_GENERATIONCONFIG_H
#define HEDDLE_RUNTIME_MODEL_GENERATIONCONFIG_H

#include "bundle/Result.h"

#include <cstdint>
#include <optional>
#include <string>

namespace heddle::rt {

/// How a model that samples by timesteps wants to be sampled when its user does
/// not say: what generation_config.json says of it. Absent and null are the
/// same. Lengths and numbers of steps are not read: they suit one length.
struct GenerationConfig {
  std::optional<std::string> alg;    ///< "origin", "maskgit_plus", ...
  std::optional<double> eps;         ///< in (0, 1)
  std::optional<double> temperature; ///< at least 0
  std::optional<double> topP;        ///< in [0, 1]
  std::optional<int64_t> topK;       ///< at least 1
  std::optional<double> algTemp;     ///< at least 0

  /// Reads folder/generation_config.json; nothing is set if there is none.
  /// Values out of range are errors that name the field.
  static Result<GenerationConfig> load(const std::string &folder);
};

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_MODEL_GENERATIONCONFIG_H
