//===- HostKernels.cpp - Running a bundle's host code ---------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/schedule/HostKernels.h"

#include "runtime/base/Parallel.h"
#include "runtime/schedule/TaskGrid.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <thread>

using namespace heddle;
using namespace heddle::rt;

/// Scratch of one worker, in whole cache lines.
int64_t HostKernels::workerBytes(int64_t longest) const {
  int64_t bytes = 0;
  for (const BoundKernel &bound : kernels)
    bytes = std::max(bytes, bound.scratchBytes(longest));
  return (bytes + 63) / 64 * 64;
}

int64_t HostKernels::bytes(int64_t longest) const {
  return threadCount() * workerBytes(longest);
}

Status HostKernels::reserve(int64_t longest) {
  reserved = longest;
  workers = 0;
  scratch = Buffer();
  return reserveWorkers();
}

/// Scratch for as many threads as parallelFor uses now.
Status HostKernels::reserveWorkers() {
  if (threadCount() <= workers)
    return Status::success();
  scratch = Buffer();
  workers = 0;
  if (int64_t needed = bytes(reserved); needed > 0) {
    if (Status status = Buffer::allocate(needed).moveTo(scratch); !status)
      return status.takeError().withContext("scratch memory of the kernels");
  }
  workers = threadCount();
  return Status::success();
}

/// Runs the tasks in parallel, until somebody ends it.
Status
HostKernels::run(int64_t tasks,
                 const std::function<void(int64_t task, int worker)> &body) {
  if (!interrupted) {
    parallelFor(tasks, body);
    return Status::success();
  }
  using Clock = std::chrono::steady_clock;
  constexpr auto interval = std::chrono::milliseconds(50);
  const std::thread::id caller = std::this_thread::get_id();
  std::atomic<bool> ended = false;
  Clock::time_point next = Clock::now() + interval; // the caller's alone
  auto polling = [&](int64_t task, int worker) {
    if (ended.load(std::memory_order_relaxed))
      return;
    if (std::this_thread::get_id() == caller && Clock::now() >= next) {
      next = Clock::now() + interval;
      if (interrupted()) {
        ended = true;
        return;
      }
    }
    body(task, worker);
  };
  parallelFor(tasks, std::ref(polling));
  return ended ? Status(Error("interrupted")) : Status::success();
}

Status HostKernels::attend(size_t kernel,
                           std::span<abi::AttentionArgs> blocks) {
  if (Status status = reserveWorkers(); !status)
    return status;
  const BoundKernel &bound = kernels[kernel];
  std::vector<TaskGrid::Work> work;
  if (firstRows.size() < blocks.size())
    firstRows.resize(blocks.size());
  int64_t heads = 0;
  for (size_t b = 0; b < blocks.size(); ++b) {
    fillFirstRows(blocks[b], bound.kernel->hasLists(), bound.variant->queryRows,
                  firstRows[b]);
    blocks[b].firstRow = firstRows[b].data();
    work.push_back(
        {static_cast<int64_t>(firstRows[b].size()) - 1, blocks[b].n});
    heads = blocks[b].heads;
  }
  TaskGrid grid(work, heads);
  int64_t stride = workerBytes(reserved);
  // A reference, as a std::function of the whole closure would allocate.
  auto body = [&, entry = bound.attention](int64_t task, int worker) {
    TaskGrid::Task at = grid[task];
    entry(&blocks[at.sequence], at.head, at.tile,
          scratch.data() + worker * stride);
  };
  return run(grid.size(), std::ref(body));
}

Status HostKernels::select(size_t kernel,
                           std::span<const abi::SelectArgs> blocks) {
  if (Status status = reserveWorkers(); !status)
    return status;
  const BoundKernel &bound = kernels[kernel];
  std::vector<TaskGrid::Work> work;
  int64_t lists = 0;
  for (const abi::SelectArgs &block : blocks) {
    work.push_back({block.list.groups, block.n});
    lists = block.heads / block.list.headsPerList;
  }
  TaskGrid grid(work, lists);
  int64_t stride = workerBytes(reserved);
  auto body = [&, entry = bound.select](int64_t task, int worker) {
    TaskGrid::Task at = grid[task];
    entry(&blocks[at.sequence], at.head, at.tile,
          scratch.data() + worker * stride);
  };
  return run(grid.size(), std::ref(body));
}
