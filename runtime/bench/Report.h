//===- Report.h - What the figures mean -------------------------*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_BENCH_REPORT_H
#define HEDDLE_RUNTIME_BENCH_REPORT_H

#include "runtime/bench/KernelBench.h"

#include <benchmark/benchmark.h>

#include <map>
#include <string>
#include <vector>

namespace heddle::bench {

/// Collects the time of every repetition; prints nothing but errors.
class Collector : public benchmark::BenchmarkReporter {
public:
  bool ReportContext(const Context &) override { return true; }
  void ReportRuns(const std::vector<Run> &runs) override;

  /// Puts the medians into rows of the same benchmark.
  void medians(std::vector<Row> &rows) const;

  bool failed() const { return anyError; }

private:
  std::map<std::string, std::vector<double>> seconds;
  bool anyError = false;
};

/// Median times, GFLOP/s, time relative to dense attention of the same type and
/// size, and the share of each peak loop's rate in the same run.
std::string toTable(const std::vector<Row> &rows);
std::string toJson(const std::vector<Row> &rows, int threads);

} // namespace heddle::bench

#endif // HEDDLE_RUNTIME_BENCH_REPORT_H
