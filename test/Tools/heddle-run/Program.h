//===- Program.h - Runs heddle-run and keeps what it says -------*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_TEST_TOOLS_HEDDLE_RUN_PROGRAM_H
#define HEDDLE_TEST_TOOLS_HEDDLE_RUN_PROGRAM_H

#include <string>

namespace heddle::run::test {

struct Outcome {
  int code = -1;  ///< exit code, or -1 if a signal ended it
  int signal = 0; ///< that signal
  std::string out, err;
};

/// A file's bytes; empty if it is not there.
std::string contents(const std::string &path);

/// Runs the program with arguments as a shell reads them (redirections too) and
/// standard input from a file.
Outcome heddleRun(const std::string &arguments,
                  const std::string &input = "/dev/null");

} // namespace heddle::run::test

#endif // HEDDLE_TEST_TOOLS_HEDDLE_RUN_PROGRAM_H
