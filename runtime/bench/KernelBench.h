//===- KernelBench.h - Timing the kernels of bundles ------------*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_BENCH_KERNELBENCH_H
#define HEDDLE_RUNTIME_BENCH_KERNELBENCH_H

#include "bundle/Result.h"
#include "bundle/format/Bundle.h"
#include "runtime/module/HostModule.h"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace heddle::bench {

/// What to time.
struct Request {
  std::vector<int64_t> lengths = {4096, 8192};
  std::vector<std::string> dtypes; ///< empty: all
  std::vector<int64_t> headDims;   ///< empty: all
  int64_t heads = 4;               ///< query and key/value heads
  int repetitions = 5;
};

/// A bundle whose kernels are timed.
struct Subject {
  std::string name; ///< the file's, without folder and ending
  std::unique_ptr<bundle::Bundle> bundle;
  std::unique_ptr<rt::HostModule> module;
};

Result<Subject> loadSubject(const std::string &path);

/// What a registered benchmark measures, for the report.
struct Row {
  enum class Kind { Peak, Attention, Select };
  Kind kind = Kind::Peak;
  std::string benchmark; ///< its name, as Google Benchmark prints it
  std::string loop;      ///< Peak with all threads: the PeakLoop's name
  std::string dtype;
  int64_t headDim = 0;
  int64_t length = 0;
  bool dense = false;
  bool writesLse = false;
  double operations = 0; ///< of one iteration
  double seconds = 0;    ///< median; 0 until measured
};

/// Registers the peak loops with one thread and with all.
void registerPeaks(int repetitions, std::vector<Row> &rows);

/// Registers every kernel variant of a subject at every length. Column lists
/// hold random keys, as many as the bundle's selection keeps. `subject` must
/// outlive the benchmarks.
void registerKernels(const Subject &subject, const Request &request,
                     std::vector<Row> &rows);

} // namespace heddle::bench

#endif // HEDDLE_RUNTIME_BENCH_KERNELBENCH_H
