//===- Totals.h - What a run has done so far --------------------*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_TOOLS_HEDDLE_RUN_TOTALS_H
#define HEDDLE_TOOLS_HEDDLE_RUN_TOTALS_H

#include "runtime/denoise/Denoise.h"
#include "tools/explain/Cost.h"

#include <cstdint>

namespace heddle::run {

/// What was counted, in the words of explanations.
inline explain::Work workOf(const rt::StepCounters &counters,
                            int64_t logitRows) {
  return {.queryRows = counters.queryRows,
          .keyRows = counters.keyRows,
          .valueRows = counters.valueRows,
          .pairs = counters.pairs,
          .scorePairs = counters.scorePairs,
          .lsePairs = counters.lsePairs,
          .projectedRows = counters.projectedRows,
          .ffnRows = counters.ffnRows,
          .logitRows = logitRows};
}

/// Of one step. A part's weights count in all layers as soon as there are as
/// many rows, also where some layers found none to compute.
inline explain::Cost costOf(const explain::ModelShape &shape,
                            const rt::StepRecord &record) {
  return explain::costOf(shape,
                         {.work = workOf(record.counters, record.logitRows),
                          .layers = shape.layers,
                          .visible = record.counters.attendedKeys,
                          .scored = record.counters.scoredKeys,
                          .attended = record.counters.queryRows,
                          .merged = record.counters.mergedRows});
}

/// Sums over the steps of a run.
struct Totals {
  int64_t steps = 0;
  int64_t tokens = 0; ///< positions committed, and not masks again since
  int64_t rows = 0;
  rt::Verified verified; ///< of all sequences and passes; 0 without drafts
  rt::StepCounters attention;
  double seconds = 0;

  void add(const rt::StepRecord &record) {
    steps = record.step;
    for (const rt::Commit &commit : record.commits)
      tokens += commit.revoked ? -1 : commit.edited ? 0 : 1;
    rows += record.rowsComputed;
    for (const rt::Verified &each : record.verified) {
      verified.copies += each.copies;
      verified.steps += each.steps;
    }
    attention += record.counters;
    seconds += record.seconds;
  }

  double tokensPerSecond() const {
    return seconds > 0 ? static_cast<double>(tokens) / seconds : 0;
  }

  /// Pairs computed as a share of what dense attention computes in the same
  /// steps. A dense run may take more.
  double attentionShare() const {
    return attention.densePairs > 0
               ? static_cast<double>(attention.pairs) /
                     static_cast<double>(attention.densePairs)
               : 1;
  }
};

} // namespace heddle::run

#endif // HEDDLE_TOOLS_HEDDLE_RUN_TOTALS_H
