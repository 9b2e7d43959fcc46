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
inline explain::PartBytes bytesOf(const explain::ModelShape &shape,
                                  const rt::StepRecord &record) {
  explain::LayerStep layers;
  layers.work = workOf(record.counters, record.logitRows);
  layers.layers = shape.layers;
  layers.attended = record.counters.queryRows;
  layers.visible = record.counters.attendedKeys;
  layers.scored = record.counters.scoredKeys;
  explain::PartBytes bytes{};
  for (explain::Part part : explain::allParts)
    bytes[static_cast<size_t>(part)] = explain::bytesOf(shape, layers, part);
  return bytes;
}

/// Sums over the steps of a run.
struct Totals {
  int64_t steps = 0;
  int64_t tokens = 0; ///< committed, and not a mask again since
  int64_t rows = 0;
  int64_t logitRows = 0;
  rt::StepCounters attention;
  double seconds = 0;

  void add(const rt::StepRecord &record) {
    steps = record.step;
    for (const rt::Commit &commit : record.commits)
      tokens += commit.revoked ? -1 : 1;
    rows += record.rowsComputed;
    logitRows += record.logitRows;
    attention.pairs += record.counters.pairs;
    attention.densePairs += record.counters.densePairs;
    attention.scorePairs += record.counters.scorePairs;
    attention.lsePairs += record.counters.lsePairs;
    attention.refreshes += record.counters.refreshes;
    attention.queryRows += record.counters.queryRows;
    attention.keyRows += record.counters.keyRows;
    attention.valueRows += record.counters.valueRows;
    attention.projectedRows += record.counters.projectedRows;
    attention.ffnRows += record.counters.ffnRows;
    attention.cacheBytesWritten += record.counters.cacheBytesWritten;
    attention.cacheBytesRead += record.counters.cacheBytesRead;
    seconds += record.seconds;
  }

  explain::Work work() const { return workOf(attention, logitRows); }

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
