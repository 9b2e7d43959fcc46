//===- Options.h - The command line of heddlec ------------------*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_TOOLS_HEDDLEC_OPTIONS_H
#define HEDDLE_TOOLS_HEDDLEC_OPTIONS_H

#include "heddle/Pipelines/Compiler.h"
#include "tools/explain/RequestOptions.h"

#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace mlir::heddle {

enum class ExplainFormat { None, Text, Json, Html };

/// The cache of compiled code.
struct CacheOptions {
  bool used = true;      ///< whether compiling reads and fills it
  bool named = false;    ///< whether the user chose `folder`
  bool verbose = false;  ///< say what it had
  bool bypassed = false; ///< not asked, since the compilation is to be seen
  std::string folder;
  std::string policy;                        ///< as CodeCache::open() takes it
  ExplainFormat stats = ExplainFormat::None; ///< print what it holds, then end
  bool clear = false;                        ///< empty it, then end
};

/// Everything that the user asked for, checked.
struct Options {
  std::string input;  ///< a path, or "-" for stdin
  std::string output; ///< a path, "-" for stdout, or "" for nothing to write
  bool named = false; ///< whether the user chose `output`
  std::string dump;   ///< a folder, or ""
  ExplainFormat explain = ExplainFormat::None;
  bool levelGiven = false; ///< whether the user chose compiler.level
  ::heddle::explain::ExplainRequest request;
  bool kernels = false; ///< explain these, too
  std::string remarks;  ///< a regular expression on categories, or ""
  CacheOptions cache;
  /// Names of parameters and their values.
  std::vector<std::pair<std::string, std::string>> settings;
  CompilerOptions compiler;
};

/// Reads the command line. After an error, which is printed to stderr, or after
/// --help and --version, `exitCode` holds a value.
Options parseOptions(int argc, char **argv, std::optional<int> &exitCode);

/// "heddlec 0.1.0 (LLVM 22.1.8)".
std::string producerName();

} // namespace mlir::heddle

#endif // HEDDLE_TOOLS_HEDDLEC_OPTIONS_H
