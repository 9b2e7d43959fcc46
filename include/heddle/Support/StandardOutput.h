//===- StandardOutput.h - Output that does not arrive -----------*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_SUPPORT_STANDARDOUTPUT_H
#define HEDDLE_SUPPORT_STANDARDOUTPUT_H

namespace heddle {

/// From here on, when the program named `program` ends and not all that was
/// written to llvm::outs() has arrived (a full disk, a closed pipe), it says so
/// and its exit code is 1. LLVM's own text, --help, is written there too, and
/// its own end in such a case is an abort. `program` must stay alive.
void checkStandardOutputAtExit(const char *program);

} // namespace heddle

#endif // HEDDLE_SUPPORT_STANDARDOUTPUT_H
