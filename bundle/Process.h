//===- Process.h - What a program does first --------------------*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_BUNDLE_PROCESS_H
#define HEDDLE_BUNDLE_PROCESS_H

namespace heddle::bundle {

/// First call of every program's main; `name` is the program's.
///
/// Opens /dev/null on those of the descriptors 0 to 2 that are closed, so that
/// no file that is opened later takes their number and what is printed.
/// Standard output is then open for reading alone: what is written to it is an
/// error, not lost in silence.
///
/// Ends the program with exit code 1 and a sentence where the limits on stack
/// (`ulimit -s`, at least 256 KB) or address space (`ulimit -v`, at least 64 MB
/// beside what is taken) are too low to say anything later: libraries that find
/// no memory for a thread or a frame end in a segmentation fault. Under a limit
/// on address space threads share one arena of the allocator.
void startProgram(const char *name);

} // namespace heddle::bundle

#endif // HEDDLE_BUNDLE_PROCESS_H
