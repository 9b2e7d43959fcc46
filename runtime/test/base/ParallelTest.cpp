//===- ParallelTest.cpp - Every task once, whatever the threads -----------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/base/Parallel.h"
#include "runtime/base/Machine.h"

#include <atomic>
#include <stdexcept>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

using namespace heddle::rt;

namespace {

class Parallel : public testing::TestWithParam<int> {
protected:
  void SetUp() override { setThreadCount(GetParam()); }
  void TearDown() override { setThreadCount(0); }
};

TEST_P(Parallel, RunsEveryTaskOnceOnAWorkerInRange) {
  ASSERT_EQ(threadCount(), GetParam());
  for (int64_t tasks : {0, 1, 2, 3, 1000}) {
    std::vector<std::atomic<int>> runs(tasks);
    std::atomic<bool> inRange = true;
    parallelFor(tasks, [&](int64_t task, int worker) {
      ++runs[task];
      if (worker < 0 || worker >= threadCount())
        inRange = false;
    });
    for (auto &count : runs)
      EXPECT_EQ(count, 1);
    EXPECT_TRUE(inRange);
  }
}

TEST_P(Parallel, TwoTasksOfAWorkerNeverOverlap) {
  std::vector<std::atomic<int>> busy(threadCount());
  std::atomic<bool> overlap = false;
  parallelFor(200, [&](int64_t, int worker) {
    if (busy[worker]++ != 0)
      overlap = true;
    std::this_thread::yield();
    --busy[worker];
  });
  EXPECT_FALSE(overlap);
}

TEST_P(Parallel, NestedLoopsStayOnTheirWorker) {
  std::atomic<int> total = 0, moved = 0;
  parallelFor(16, [&](int64_t, int outer) {
    auto thread = std::this_thread::get_id();
    parallelFor(8, [&](int64_t, int inner) {
      ++total;
      if (inner != outer || std::this_thread::get_id() != thread)
        ++moved;
    });
  });
  EXPECT_EQ(total, 16 * 8);
  EXPECT_EQ(moved, 0);
}

TEST_P(Parallel, SurvivesAThrowingTask) {
  EXPECT_THROW(parallelFor(100,
                           [&](int64_t task, int) {
                             if (task == 50)
                               throw std::runtime_error("task 50");
                           }),
               std::runtime_error);
  std::atomic<int> total = 0;
  parallelFor(10, [&](int64_t, int) { ++total; });
  EXPECT_EQ(total, 10);
}

INSTANTIATE_TEST_SUITE_P(Threads, Parallel, testing::Values(1, 2, 7));

TEST(ParallelDefaults, ZeroMeansTheCoresOfThisProcess) {
  setThreadCount(0);
  EXPECT_EQ(threadCount(), availableCores());
}

} // namespace
