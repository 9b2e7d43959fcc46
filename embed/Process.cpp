//===- Process.cpp - What calls of one process share ----------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Process.h"

#include "runtime/base/Parallel.h"

#include <atomic>
#include <chrono>
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

std::timed_mutex &hostSteps() {
  static std::timed_mutex steps;
  return steps;
}

/// Whether this thread is in ask().
static thread_local bool asking = false;

bool ask(const Interrupted &interrupted) {
  asking = true;
  const bool ends = interrupted && interrupted();
  asking = false;
  return ends;
}

Status take(std::unique_lock<std::timed_mutex> &lock,
            const Interrupted &interrupted) {
  if (asking)
    return Error("a call that waits or computes has been interrupted by a "
                 "signal, whose handler cannot run another");
  if (lock.try_lock())
    return Status::success();
  if (!interrupted)
    lock.lock();
  else
    while (!lock.try_lock_for(std::chrono::milliseconds(50)))
      if (ask(interrupted))
        return Error("interrupted");
  return Status::success();
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
