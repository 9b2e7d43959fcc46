//===- heddle-run.cpp - Generates text under a compiled schedule ----------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Options.h"
#include "Session.h"

#include "bundle/Process.h"

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <new>

namespace {

/// An exception that no caller can catch: the threading library could not start
/// a worker, and says so on another one.
[[noreturn]] void endWithMessage() {
  const char *what = "unexpected failure";
  std::exception_ptr current = std::current_exception();
  try {
    if (current)
      std::rethrow_exception(current);
  } catch (const std::exception &error) {
    what = error.what();
  } catch (...) {
  }
  std::fprintf(stderr,
               "heddle-run: error: %s; if the system allows no more threads or "
               "memory, give fewer --threads\n",
               what);
  std::fflush(nullptr);
  std::_Exit(heddle::run::exitFailure);
}

} // namespace

int main(int argc, char **argv) {
  heddle::bundle::startProgram("heddle-run");
  auto start = std::chrono::steady_clock::now();
  std::set_terminate(endWithMessage);
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
