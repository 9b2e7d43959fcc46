//===- Interrupt.h - Ctrl-C ends a run in order -----------------*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_TOOLS_HEDDLE_RUN_INTERRUPT_H
#define HEDDLE_TOOLS_HEDDLE_RUN_INTERRUPT_H

namespace heddle::run {

/// From now on the first SIGINT or SIGTERM only sets a flag; the second ends
/// the process at once (the cursor is shown again first).
void installInterruptHandler();

/// True once a signal came.
bool interrupted();

} // namespace heddle::run

#endif // HEDDLE_TOOLS_HEDDLE_RUN_INTERRUPT_H
