//===- OnTerminal.cpp - What a program writes to a terminal ---------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "OnTerminal.h"

#include <cstdio>
#include <cstdlib>

#include <pty.h>
#include <sys/wait.h>
#include <unistd.h>

namespace heddle::run::test {

Outcome onTerminal(unsigned short columns, unsigned short rows,
                   const std::function<void()> &body) {
  winsize size = {};
  size.ws_col = columns;
  size.ws_row = rows;
  int terminal = -1;
  Outcome outcome;
  pid_t child = forkpty(&terminal, nullptr, nullptr, &size);
  if (child < 0)
    return outcome;
  if (child == 0) {
    body();
    std::fflush(stdout);
    _exit(0);
  }
  char block[4096];
  ssize_t count;
  while ((count = read(terminal, block, sizeof(block))) > 0)
    outcome.out.append(block, static_cast<size_t>(count));
  close(terminal);
  int status = 0;
  waitpid(child, &status, 0);
  if (WIFEXITED(status))
    outcome.code = WEXITSTATUS(status);
  else
    outcome.signal = WTERMSIG(status);
  return outcome;
}

Outcome heddleRunOnTerminal(unsigned short columns, unsigned short rows,
                            const std::string &kind,
                            const std::string &arguments) {
  return onTerminal(columns, rows, [&] {
    setenv("TERM", kind.c_str(), 1);
    std::string command = "exec '" HEDDLE_RUN_PROGRAM "' " + arguments;
    execl("/bin/sh", "sh", "-c", command.c_str(), nullptr);
    _exit(127);
  });
}

} // namespace heddle::run::test
