//===- OnTerminal.h - What a program writes to a terminal -------*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_TEST_TOOLS_HEDDLE_RUN_ONTERMINAL_H
#define HEDDLE_TEST_TOOLS_HEDDLE_RUN_ONTERMINAL_H

#include "Program.h"

#include <functional>
#include <string>

namespace heddle::run::test {

/// Runs `body` in a child process whose standard streams are a terminal of
/// that size, and keeps all that it writes there in `out`.
Outcome onTerminal(unsigned short columns, unsigned short rows,
                   const std::function<void()> &body);

/// Runs the program there, with arguments as a shell reads them. `kind` is the
/// terminal's, TERM.
Outcome heddleRunOnTerminal(unsigned short columns, unsigned short rows,
                            const std::string &kind,
                            const std::string &arguments);

} // namespace heddle::run::test

#endif // HEDDLE_TEST_TOOLS_HEDDLE_RUN_ONTERMINAL_H
