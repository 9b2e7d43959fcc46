//===- Compiler.h - The compiler as a process -------------------*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_TOOLS_TRUST_COMPILER_H
#define HEDDLE_TOOLS_TRUST_COMPILER_H

#include "bundle/Result.h"

#include <array>
#include <functional>
#include <optional>
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
  std::optional<int> status; ///< exit code, -1: a signal; none: see succeeded()
  std::string output, messages;

  /// A process that ignores SIGCHLD learns no status of a child; there it
  /// counts that something was written, and a bundle says by its checksum
  /// whether all.
  bool succeeded() const { return status ? *status == 0 : !output.empty(); }
};

/// Where a program that runProgram() runs finds what is `aside`.
inline constexpr std::array asideFiles = {"/proc/self/fd/3", "/proc/self/fd/4"};
using Aside = std::array<std::string_view, asideFiles.size()>;

/// Runs it to its end, or until `interrupted` is true: it is then ended, and
/// the error is "interrupted". It ends when this process does. Waits without a
/// bound.
Result<Ended> runProgram(const std::string &path,
                         const std::vector<std::string> &arguments,
                         std::string_view input, const Aside &aside = {},
                         const std::function<bool()> &interrupted = nullptr);

} // namespace heddle::trust

#endif // HEDDLE_TOOLS_TRUST_COMPILER_H
