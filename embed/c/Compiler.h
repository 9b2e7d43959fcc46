//===- Compiler.h - The compiler as a process -------------------*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_EMBED_C_COMPILER_H
#define HEDDLE_EMBED_C_COMPILER_H

#include "bundle/Result.h"

#include <string>
#include <vector>

namespace heddle::embed::c {

/// The path of heddlec: `named`, $HEDDLEC, ../bin/heddlec beside this library,
/// or the one on PATH; "" if there is none. An Error for one that is named and
/// is no program.
Result<std::string> findCompiler(const char *named);

/// What a program did that was given `input` and ended.
struct Ended {
  int status = -1; ///< exit code; -1: a signal, or it is not known
  std::string output, messages;
};

/// Runs it to its end. Waits without a bound.
Result<Ended> runProgram(const std::string &path,
                         const std::vector<std::string> &arguments,
                         const std::string &input);

} // namespace heddle::embed::c

#endif // HEDDLE_EMBED_C_COMPILER_H
