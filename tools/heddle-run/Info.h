//===- Info.h - What a model and a bundle are -------------------*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_TOOLS_HEDDLE_RUN_INFO_H
#define HEDDLE_TOOLS_HEDDLE_RUN_INFO_H

#include "Options.h"
#include "bundle/Result.h"

namespace heddle::run {

/// Prints --info on standard output: the model's shape, and what the schedule
/// does at which steps for this model (or for an 8B one when none is given).
Status printInfo(const RunOptions &options);

} // namespace heddle::run

#endif // HEDDLE_TOOLS_HEDDLE_RUN_INFO_H
