//===- Parallel.cpp - Data-parallel loops over all cores ------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/base/Parallel.h"

#include "runtime/base/Machine.h"

#include <algorithm>
#include <atomic>
#include <memory>
#include <mutex>

#include <oneapi/tbb/global_control.h>
#include <oneapi/tbb/parallel_for.h>
#include <oneapi/tbb/task_arena.h>

namespace heddle::rt {

namespace {

/// The threads in use. TBB starts no more workers than the machine has cores
/// unless global_control says so; the arena alone would not honour a larger
/// count.
struct ThreadPool {
  explicit ThreadPool(int threads)
      : threads(threads),
        limit(tbb::global_control::max_allowed_parallelism, threads),
        arena(threads) {}

  int threads;
  tbb::global_control limit;
  tbb::task_arena arena;
};

std::mutex poolMutex;
std::shared_ptr<ThreadPool> pool;

std::shared_ptr<ThreadPool> currentPool() {
  std::lock_guard<std::mutex> lock(poolMutex);
  if (!pool)
    pool = std::make_shared<ThreadPool>(availableCores());
  return pool;
}

/// The worker number of the parallelFor that this thread is inside of, or -1.
thread_local int activeWorker = -1;

/// Marks the calling thread as a worker, also when the body throws.
class WorkerScope {
public:
  explicit WorkerScope(int worker) : outer(activeWorker) {
    activeWorker = worker;
  }
  ~WorkerScope() { activeWorker = outer; }
  WorkerScope(const WorkerScope &) = delete;
  WorkerScope &operator=(const WorkerScope &) = delete;

private:
  int outer;
};

} // namespace

void setThreadCount(int threads) {
  int count = threads > 0 ? threads : availableCores();
  std::lock_guard<std::mutex> lock(poolMutex);
  if (!pool || pool->threads != count) {
    // First the old limit goes, so that the new one may be larger.
    pool.reset();
    pool = std::make_shared<ThreadPool>(count);
  }
}

int threadCount() { return currentPool()->threads; }

void parallelFor(int64_t tasks,
                 const std::function<void(int64_t task, int worker)> &body) {
  if (tasks <= 0)
    return;
  if (activeWorker >= 0) {
    for (int64_t task = 0; task < tasks; ++task)
      body(task, activeWorker);
    return;
  }
  std::shared_ptr<ThreadPool> threads = currentPool();
  int64_t workers = std::min<int64_t>(threads->threads, tasks);
  if (workers == 1) {
    WorkerScope scope(0);
    for (int64_t task = 0; task < tasks; ++task)
      body(task, 0);
    return;
  }
  // Workers take tasks in ascending order from one counter: neighbouring tasks
  // run at about the same time and share what they read in the caches.
  std::atomic<int64_t> next{0};
  threads->arena.execute([&] {
    tbb::parallel_for(
        tbb::blocked_range<int64_t>(0, workers, 1),
        [&](const tbb::blocked_range<int64_t> &range) {
          WorkerScope scope(tbb::this_task_arena::current_thread_index());
          for (int64_t i = range.begin(); i != range.end(); ++i)
            for (int64_t task; (task = next.fetch_add(1)) < tasks;)
              body(task, activeWorker);
        },
        tbb::simple_partitioner());
  });
}

} // namespace heddle::rt
