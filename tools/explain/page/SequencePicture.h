//===- SequencePicture.h - Positions over steps, in few cells ---*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Worked example: 6 positions in bins of 2, of which the last 4 are masked at
// first; step 1 computes all and commits position 4, step 2 computes positions
// 2 to 5 and reads the others from the cache:
//
//   roles   ["r3", "c1r2"]   rolesOfSteps [[0,1],[1,1]]
//   decoded [[0,0,0,0,0], [3,3,3,3,3], [1,1,1,1,3]]   (3: after the last step)
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_TOOLS_EXPLAIN_PAGE_SEQUENCEPICTURE_H
#define HEDDLE_TOOLS_EXPLAIN_PAGE_SEQUENCEPICTURE_H

#include "tools/explain/Simulation.h"

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace heddle::explain {

/// A number for each step, as (value, steps that have it) one after the other.
struct Series {
  std::vector<std::pair<int64_t, int64_t>> runs;
  void add(int64_t value) {
    if (!runs.empty() && runs.back().first == value)
      ++runs.back().second;
    else
      runs.push_back({value, 1});
  }
};

/// What a simulation did to the sequence, small enough for a page whatever the
/// lengths: positions are gathered in bins, equal steps stand once.
class SequencePicture {
public:
  SequencePicture(const SimulationRequest &request, int64_t mostBins);

  void add(const SimulatedStep &step);

  /// Fills in `decoded`. To be called after the last step.
  void finish();

  int64_t steps = 0;
  int64_t binSize = 1; ///< positions of a bin, the last one may have fewer
  int64_t bins = 0;
  /// The most that a step does for any position of a bin: a absent, c cached, p
  /// recomputed in part (in some layers, or as the run decides), r recomputed;
  /// each followed by how many bins. Each text stands once.
  std::vector<std::string> roles;
  Series rolesOfSteps; ///< indices into `roles`
  /// For each bin the steps at which the first, a quarter, half, three quarters
  /// and the last of its positions became tokens; 0 for a prompt, `steps` + 1
  /// for never.
  std::vector<std::array<int64_t, 5>> decoded;
  /// `cached`: keys of rows that the step does not take through the layers.
  Series visible, recomputed, partly, cached, masked, committed, logitRows;

private:
  std::string rolesOf(const SimulatedStep &step) const;

  std::vector<int32_t> committedAt; ///< [length], 0: never
  int64_t prompt = 0;
  std::map<std::string, int64_t> known; ///< text -> index into `roles`
};

} // namespace heddle::explain

#endif // HEDDLE_TOOLS_EXPLAIN_PAGE_SEQUENCEPICTURE_H
