//===- Compiler.h - The compiler as a process -------------------*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_TOOLS_TRUST_COMPILER_H
#define HEDDLE_TOOLS_TRUST_COMPILER_H

#include "bundle/Result.h"

#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace heddle::trust {

/// The path of heddlec: `named`, $HEDDLEC, the one of this installation (beside
/// the program or library that this code is in, or ../bin of there), or the one
/// on PATH; "" if there is none. An Error for one that is named and is no
/// program.
Result<std::string> findCompiler(const char *named = nullptr);

/// What a program did that was given `input` and ended.
struct Ended {
  int status = -1; ///< exit code; -1: a signal, or it is not known
  std::string output, messages;
};

/// Runs it to its end, or until `interrupted` is true: it is then ended, and
/// the error is "interrupted". It ends when this process does. Waits without a
/// bound.
Result<Ended> runProgram(const std::string &path,
                         const std::vector<std::string> &arguments,
                         std::string_view input,
                         const std::function<bool()> &interrupted = nullptr);

} // namespace heddle::trust

#endif // HEDDLE_TOOLS_TRUST_COMPILER_H
