//===- StepLog.h - A JSON line for every step -------------------*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_TOOLS_HEDDLE_RUN_STEPLOG_H
#define HEDDLE_TOOLS_HEDDLE_RUN_STEPLOG_H

#include "LineFile.h"
#include "runtime/denoise/Denoise.h"

#include <cstdint>
#include <vector>

namespace heddle::run {

/// Writes --steps-json. One line a forward pass:
///   {"step":1,"block":0,"blocks":[0],"rows":19,"logit_rows":16,"pairs":..,
///    "dense_pairs":..,"score_pairs":..,"refreshes":..,"query_rows":..,
///    "key_rows":..,"value_rows":..,"ffn_rows":..,"cache_bytes_written":..,
///    "cache_bytes_read":..,"seconds":..,
///    "commits":[{"sequence":0,"position":17,"token":5,"confidence":0.93}]}
/// and of schedules that go by past confidences
///    "predictions":[{"sequence":0,"position":17,"confidence":0.93}]
/// of all positions that the step could commit, of those that go by what
/// attention positions drew
///    "drawn":[{"sequence":0,"attention":[1.2,0.8]}]
/// of all positions;
/// and at the end
///   {"done":true,"complete":true,"prompt_lengths":[11],"gen_length":8,
///    "steps":8,"block_length":8,"sequences":[[ids, prompt included]]}
/// where "complete" is false after an interrupt. A file without that last line
/// is of a run that failed.
class StepLog {
public:
  explicit StepLog(LineFile file) : file(std::move(file)) {}

  void step(const rt::StepRecord &record);

  /// Writes the last line; fails if anything could not be written.
  Status finish(const rt::Generation &generation,
                const std::vector<int64_t> &promptLengths,
                const rt::GenerateOptions &lengths);

private:
  LineFile file;
};

} // namespace heddle::run

#endif // HEDDLE_TOOLS_HEDDLE_RUN_STEPLOG_H
