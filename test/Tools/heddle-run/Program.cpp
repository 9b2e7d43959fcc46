//===- Program.cpp - Runs heddle-run and keeps what it says ---------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Program.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

namespace heddle::run::test {

std::string contents(const std::string &path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

Outcome heddleRun(const std::string &arguments, const std::string &input) {
  std::string base =
      testing::TempDir() + "heddle-run-" + std::to_string(::getpid());
  // Later redirections, those in `arguments`, win.
  std::string command = "'" HEDDLE_RUN_PROGRAM "' < '" + input + "' > '" +
                        base + ".out' 2> '" + base + ".err' " + arguments;
  int status = std::system(command.c_str());
  Outcome outcome;
  if (WIFEXITED(status))
    outcome.code = WEXITSTATUS(status);
  else
    outcome.signal = WTERMSIG(status);
  outcome.out = contents(base + ".out");
  outcome.err = contents(base + ".err");
  std::filesystem::remove(base + ".out");
  std::filesystem::remove(base + ".err");
  return outcome;
}

} // namespace heddle::run::test
