//===- Usage.h - What is wrong with heddlec's command line ------*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_TOOLS_HEDDLEC_USAGE_H
#define HEDDLE_TOOLS_HEDDLEC_USAGE_H

#include "mlir/Support/LLVM.h"

#include <string>
#include <vector>

namespace mlir::heddle {

/// cl::ParseCommandLineOptions(). Returns what is wrong, a sentence each and in
/// this project's words; none if all is good. An option of one value that is
/// given twice is wrong.
std::vector<std::string> parseCommandLine(int argc, char **argv,
                                          StringRef overview);

} // namespace mlir::heddle

#endif // HEDDLE_TOOLS_HEDDLEC_USAGE_H
