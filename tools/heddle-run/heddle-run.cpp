//===- heddle-run.cpp - Generates text under a compiled schedule ----------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Options.h"
#include "Session.h"

#include <cstdio>
#include <exception>
#include <new>

int main(int argc, char **argv) {
  auto start = std::chrono::steady_clock::now();
  try {
    auto parsed = heddle::run::parseCommandLine(argc, argv);
    if (const int *code = std::get_if<int>(&parsed))
      return *code;
    return heddle::run::runSession(std::get<heddle::run::RunOptions>(parsed),
                                   start);
  } catch (const std::bad_alloc &) {
    std::fputs("heddle-run: error: out of memory\n", stderr);
  } catch (const std::exception &error) {
    std::fprintf(stderr, "heddle-run: error: unexpected failure: %s\n",
                 error.what());
  }
  return heddle::run::exitFailure;
}
