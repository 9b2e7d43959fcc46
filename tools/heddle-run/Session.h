//===- Session.h - One run, from files to reports ---------------*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_TOOLS_HEDDLE_RUN_SESSION_H
#define HEDDLE_TOOLS_HEDDLE_RUN_SESSION_H

#include "Options.h"

#include <chrono>

namespace heddle::run {

/// Does what the command line asks and reports it, errors too. Cheap checks
/// come before expensive work: prompts and lengths before the bundle, the
/// bundle before the weights. Returns the exit code. `start`: of the program.
int runSession(const RunOptions &options,
               std::chrono::steady_clock::time_point start);

} // namespace heddle::run

#endif // HEDDLE_TOOLS_HEDDLE_RUN_SESSION_H
