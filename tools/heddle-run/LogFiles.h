//===- LogFiles.h - Which files the logs of a run are -----------*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_TOOLS_HEDDLE_RUN_LOGFILES_H
#define HEDDLE_TOOLS_HEDDLE_RUN_LOGFILES_H

#include "Options.h"

namespace heddle::run {

/// An error where two of --steps-json, --trace and --record are one file, or
/// one of them is a file that the run reads. What decides is the file, however
/// it is named.
Status checkLogFiles(const RunOptions &options);

} // namespace heddle::run

#endif // HEDDLE_TOOLS_HEDDLE_RUN_LOGFILES_H
