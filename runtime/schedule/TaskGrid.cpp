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

TaskGrid::TaskGrid(const std::vector<Work> &work, int64_t heads)
    : order(work.size()), first(1, 0) {
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
    return work[a].keys != work[b].keys ? work[a].keys > work[b].keys : a < b;
  });
  for (int64_t sequence : order) {
    tiles.push_back(work[sequence].tiles);
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

void heddle::rt::fillFirstRows(const abi::AttentionArgs &args, bool byPlace,
                               int64_t tileRows,
                               std::vector<int32_t> &firstRow) {
  firstRow.clear();
  if (!byPlace) {
    for (int64_t row = 0; row < args.rows; row += tileRows)
      firstRow.push_back(static_cast<int32_t>(row));
  } else {
    const int32_t *row = args.place;
    for (int64_t place = 0; place < args.n; place += tileRows) {
      row = std::lower_bound(row, args.place + args.rows, place);
      firstRow.push_back(static_cast<int32_t>(row - args.place));
    }
  }
  firstRow.push_back(static_cast<int32_t>(args.rows));
}
