//===- StandardOutput.cpp - Output that does not arrive -------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/Support/StandardOutput.h"

#include "llvm/Support/WithColor.h"
#include "llvm/Support/raw_ostream.h"

#include <cstdlib>

static const char *programName = "";

static void check() {
  llvm::raw_fd_ostream &out = llvm::outs();
  out.flush();
  if (!out.has_error())
    return;
  llvm::WithColor::error(llvm::errs(), programName)
      << "cannot write to stdout: " << out.error().message() << "\n";
  out.clear_error(); // else its destructor aborts
  std::_Exit(1);
}

void heddle::checkStandardOutputAtExit(const char *program) {
  programName = program;
  // Made before, so that it is destroyed after.
  llvm::outs();
  std::atexit(check);
}
