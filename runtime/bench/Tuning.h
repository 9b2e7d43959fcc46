//===- Tuning.h - The fastest of several tilings ----------------*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Candidates are bundles of one schedule, each compiled with a table that has
// one tiling (heddlec --tuning), and one with an empty table: the baseline. All
// are measured once at the first length; then the fastest few and the baseline
// in rounds, forwards and backwards, at all lengths. The fastest, by the
// geometric mean of its medians, of those that beat the baseline at every
// length is added to a table.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_BENCH_TUNING_H
#define HEDDLE_RUNTIME_BENCH_TUNING_H

#include "bundle/Result.h"

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace heddle::bench {

struct TuneRequest {
  std::string table; ///< the file that the fastest tiling is added to
  int rounds = 3;
  int finalists = 4;
  double seconds = 0.6; ///< of each measurement, back to back
};

/// A bundle and its tiling, an entry of a table as JSON.
struct Candidate {
  std::string bundle; ///< path
  std::string name;   ///< of the file, without its ending
  std::string tiling; ///< empty: the baseline
};

/// Bundles with the tables that stand beside them: NAME.json of NAME.hdl. An
/// error if a table is not there or has several tilings, or if there is not one
/// baseline and a candidate at least.
Result<std::vector<Candidate>>
readCandidates(const std::vector<std::string> &bundles);

/// TFLOP/s of a candidate at one length.
struct TuneRow {
  size_t candidate = 0;
  int64_t length = 0;
  double median = 0, least = 0, most = 0;
  bool finalist = false; ///< measured in rounds; else once
};

struct TuneResult {
  std::vector<TuneRow> rows;
  std::optional<size_t> best; ///< none: no tiling beats the baseline everywhere
};

/// Measures TFLOP/s of a candidate at a length; `last`: it is not asked for
/// there again.
using Measure =
    std::function<Result<double>(size_t candidate, int64_t length, bool last)>;

Result<TuneResult> chooseTiling(const std::vector<Candidate> &candidates,
                                const std::vector<int64_t> &lengths,
                                const TuneRequest &request,
                                const Measure &measure);

/// Why addToTable() could not add to it, to be said before the measurements.
Status checkTable(const std::string &path);

/// Puts a tiling before all others of the table: a compiler takes the first
/// entry that fits, so what is measured anew counts.
Status addToTable(const std::string &path, const std::string &tiling);

std::string toTable(const std::vector<Candidate> &candidates,
                    const TuneResult &result);
std::string toJson(const std::vector<Candidate> &candidates,
                   const TuneResult &result, const std::string &device);

} // namespace heddle::bench

#endif // HEDDLE_RUNTIME_BENCH_TUNING_H
