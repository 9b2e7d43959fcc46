//===- Parallel.h - Data-parallel loops over all cores ----------*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The one place that knows the threading library (oneTBB). Loops are dynamic:
// nothing may depend on which thread runs a task, so results are the same for
// every thread count.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_BASE_PARALLEL_H
#define HEDDLE_RUNTIME_BASE_PARALLEL_H

#include <cstdint>
#include <functional>

namespace heddle::rt {

/// Uses `threads` threads for every later parallelFor; 0 means one per core
/// that this process may run on (affinity mask and cgroup quota respected).
void setThreadCount(int threads);

/// Threads that parallelFor uses, at least 1.
int threadCount();

/// Calls body(task, worker) once for every task in [0, tasks), in parallel;
/// `worker` in [0, threadCount()) identifies the thread, for scratch memory.
/// Returns when all are done. Nested calls run serially on the caller's worker.
void parallelFor(int64_t tasks,
                 const std::function<void(int64_t task, int worker)> &body);

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_BASE_PARALLEL_H
