//===- Process.h - What calls of one process share --------------*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_EMBED_PROCESS_H
#define HEDDLE_EMBED_PROCESS_H

#include "bundle/Result.h"

#include <functional>
#include <mutex>

#include <sys/types.h>

namespace heddle::embed {

/// This process's; after a fork the new one's.
pid_t processNumber();

/// Refuses a fork of the process in which the runtime's threads were started,
/// which has none of them and would wait for them forever.
Status checkProcess();

/// Held by who computes on the host: each step uses all cores.
std::timed_mutex &hostSteps();

/// Asked now and then by who waits or computes; true ends it. Empty: nobody.
using Interrupted = std::function<bool()>;

/// What `interrupted` says, which may run what the program does on signals.
bool ask(const Interrupted &interrupted);

/// Waits for the lock. Refused when `interrupted` says so meanwhile, and to
/// calls from within ask(), which may come from the lock's holder.
Status take(std::unique_lock<std::timed_mutex> &lock,
            const Interrupted &interrupted);

/// Threads of all models on the host, 0 for one a core. Refused once a model
/// was loaded: its memory was laid out for the threads that there were.
Status setThreads(int threads);

} // namespace heddle::embed

#endif // HEDDLE_EMBED_PROCESS_H
