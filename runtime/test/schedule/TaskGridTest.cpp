//===- TaskGridTest.cpp - Every task once, longest first ------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/schedule/TaskGrid.h"

#include <gtest/gtest.h>

#include <set>
#include <tuple>

using namespace heddle::rt;

using Place = std::tuple<int64_t, int64_t, int64_t>;

static Place placeOf(const TaskGrid &grid, int64_t task) {
  TaskGrid::Task at = grid[task];
  return {at.sequence, at.head, at.tile};
}

TEST(TaskGrid, WorkedExample) {
  TaskGrid grid({{2, 3}, {3, 5}}, 2);
  ASSERT_EQ(grid.size(), 10);
  EXPECT_EQ(placeOf(grid, 0), Place(1, 0, 0));
  EXPECT_EQ(placeOf(grid, 2), Place(1, 0, 2));
  EXPECT_EQ(placeOf(grid, 3), Place(1, 1, 0));
  EXPECT_EQ(placeOf(grid, 5), Place(1, 1, 2));
  EXPECT_EQ(placeOf(grid, 6), Place(0, 0, 0));
  EXPECT_EQ(placeOf(grid, 9), Place(0, 1, 1));
}

TEST(TaskGrid, EveryTileOnceAndLongSequencesFirst) {
  std::vector<int64_t> lengths = {7, 1, 64, 7, 65};
  std::vector<TaskGrid::Work> work;
  for (int64_t n : lengths)
    work.push_back({(n - 1) / 16 + 1, n});
  TaskGrid grid(work, 3);
  std::set<Place> seen;
  int64_t previous = 1 << 20;
  for (int64_t task = 0; task < grid.size(); ++task) {
    auto [sequence, head, tile] = placeOf(grid, task);
    EXPECT_TRUE(seen.insert({sequence, head, tile}).second);
    EXPECT_LT(tile * 16, lengths[sequence]);
    EXPECT_LT(head, 3);
    EXPECT_LE(lengths[sequence], previous);
    previous = lengths[sequence];
  }
  EXPECT_EQ(seen.size(), 3u * (1 + 1 + 4 + 1 + 5));
}

TEST(TaskGrid, SequencesMayHaveNoTiles) {
  // Sequence 1 has the longest keys, sequence 0 nothing to do.
  TaskGrid grid({{0, 9}, {1, 20}, {2, 7}}, 2);
  ASSERT_EQ(grid.size(), 2 * 3);
  std::vector<std::vector<int64_t>> seen;
  for (int64_t task = 0; task < grid.size(); ++task)
    seen.push_back({grid[task].sequence, grid[task].head, grid[task].tile});
  EXPECT_EQ(
      seen,
      (std::vector<std::vector<int64_t>>{
          {1, 0, 0}, {1, 1, 0}, {2, 0, 0}, {2, 0, 1}, {2, 1, 0}, {2, 1, 1}}));
}
