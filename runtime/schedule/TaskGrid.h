//===- TaskGrid.h - The tasks of one kernel launch --------------*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_SCHEDULE_TASKGRID_H
#define HEDDLE_RUNTIME_SCHEDULE_TASKGRID_H

#include "bundle/abi/Abi.h"

#include <cstdint>
#include <vector>

namespace heddle::rt {

/// Numbers the tasks (sequence, head, tile) of a launch over a ragged batch.
/// Longest sequences come first, since their tasks take longest and a loop that
/// hands out tasks in order ends most evenly on short ones; the tiles of a head
/// are consecutive, since they read the same keys and values.
///
/// Worked example: work {{2, 3}, {3, 5}}, 2 heads (lengths 3 and 5, tiles of 2
/// rows): tasks 0 to 2 are the tiles of sequence 1, head 0; 3 to 5 those of
/// sequence 1, head 1; 6 and 7 sequence 0, head 0; 8 and 9 sequence 0, head 1.
class TaskGrid {
public:
  struct Task {
    int64_t sequence;
    int64_t head;
    int64_t tile;
  };

  /// What there is to do for one sequence.
  struct Work {
    int64_t tiles; ///< of each head; may be 0
    int64_t keys;  ///< how long each takes
  };
  TaskGrid(const std::vector<Work> &work, int64_t heads);

  int64_t size() const { return first.back(); }

  /// `task` in [0, size()). Allocates nothing.
  Task operator[](int64_t task) const;

private:
  std::vector<int64_t> order; // sequences, longest first
  std::vector<int64_t> first; // first task of each, and the number of all
  std::vector<int64_t> tiles; // tiles a head of each
};

/// The first row of each tile of `tileRows` rows, and the number of rows:
/// abi::AttentionArgs::firstRow. Tiles of kernels with lists are places
/// (`byPlace`), those of others are rows.
void fillFirstRows(const abi::AttentionArgs &args, bool byPlace,
                   int64_t tileRows, std::vector<int32_t> &firstRow);

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_SCHEDULE_TASKGRID_H
