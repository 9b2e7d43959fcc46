//===- Process.cpp - What calls of one process share ----------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Process.h"

#include "runtime/base/Parallel.h"

#include <atomic>
#include <string>

#include <pthread.h>
#include <unistd.h>

namespace heddle::embed {

/// The process in which the runtime's threads were started, 0: none yet.
static std::atomic<pid_t> home = 0;

pid_t processNumber() {
  // Asking the system at each call takes microseconds in some containers.
  static std::atomic<pid_t> number = [] {
    pthread_atfork(nullptr, nullptr, [] { number = getpid(); });
    return getpid();
  }();
  return number;
}

Status checkProcess() {
  pid_t none = 0, here = processNumber();
  if (home.compare_exchange_strong(none, here) || none == here)
    return Status::success();
  return Error("this process (" + std::to_string(here) +
               ") was forked from one in which Heddle already runs (" +
               std::to_string(none) +
               "), and a fork has none of its threads; start processes anew "
               "instead (in Python: multiprocessing.get_context(\"spawn\"))");
}

std::mutex &hostSteps() {
  static std::mutex steps;
  return steps;
}

Status setThreads(int threads) {
  if (threads < 0)
    return Error("threads: " + std::to_string(threads) +
                 " is negative; give 0 for one a core");
  if (home != 0)
    return Error("threads are set before the first model is loaded");
  rt::setThreadCount(threads);
  return Status::success();
}

} // namespace heddle::embed
