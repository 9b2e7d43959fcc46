//===- TaskGrid.cpp - The tasks of one kernel launch ----------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/schedule/TaskGrid.h"

#include <algorithm>
#include <cassert>
#include <numeric>

using namespace heddle::rt;

TaskGrid::TaskGrid(const std::vector<int64_t> &lengths, int64_t heads,
                   int64_t tileRows)
    : order(lengths.size()), first(1, 0) {
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
    return lengths[a] != lengths[b] ? lengths[a] > lengths[b] : a < b;
  });
  for (int64_t sequence : order) {
    tiles.push_back((lengths[sequence] - 1) / tileRows + 1);
    first.push_back(first.back() + heads * tiles.back());
  }
}

TaskGrid::Task TaskGrid::operator[](int64_t task) const {
  assert(task >= 0 && task < size());
  size_t at = static_cast<size_t>(
      std::upper_bound(first.begin(), first.end(), task) - first.begin() - 1);
  int64_t inside = task - first[at];
  return {order[at], inside / tiles[at], inside % tiles[at]};
}
