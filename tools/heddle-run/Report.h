//===- Report.h - What a run says at its end --------------------*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_TOOLS_HEDDLE_RUN_REPORT_H
#define HEDDLE_TOOLS_HEDDLE_RUN_REPORT_H

#include "Options.h"
#include "Text.h"
#include "Totals.h"
#include "runtime/engine/Device.h"
#include "tools/explain/Cost.h"

#include <optional>
#include <string>
#include <vector>

namespace heddle::run {

/// The same prompts under a dense schedule.
struct Comparison {
  std::string bundle;
  int64_t tokens = 0;    ///< generated tokens compared
  int64_t differing = 0; ///< of them
  int64_t firstSequence = -1;
  int64_t firstPosition = -1; ///< in the response; the least over sequences
  double seconds = 0;
};

Comparison compareResponses(const rt::Generation &run,
                            const rt::Generation &dense,
                            const std::vector<int64_t> &promptLengths);

/// Everything that the reports need.
struct RunResult {
  const RunOptions *options = nullptr;
  rt::GenerateOptions lengths;
  TextRules rules;
  std::string schedule; ///< its name
  std::string device;   ///< for people
  bool onHost = true;
  int threads = 1;
  rt::DType dtype = rt::DType::F32; ///< that is computed in
  std::optional<rt::DType> weights; ///< of the files; none: random, or unasked
  rt::MemoryUse memory;
  std::vector<int64_t> promptLengths;
  rt::Generation generation;
  Totals totals;
  explain::ModelShape shape;
  explain::Cost cost;   ///< of the steps done
  explain::Cost dense;  ///< of a dense run of the same lengths and steps
  bool isDense = true;  ///< the schedule has neither sparse kernels nor passes
  bool selects = false; ///< the schedule makes selections
  double loadSeconds = 0;      ///< from the start of the program
  double firstStepSeconds = 0; ///< until the first step was done
  std::optional<Comparison> comparison;
  std::string comparisonError; ///< why there is none, where it failed
};

/// The generated texts, as standard output gets them: one alone as it is,
/// several under headings.
std::string textReport(const RunResult &result);

/// One JSON object, with a line break at the end.
std::string jsonReport(const RunResult &result);

/// The object for a run that failed: {"complete": false, "error": ...}.
std::string jsonFailure(const std::string &error);

/// The summary for people, one or two lines.
std::string summary(const RunResult &result);

} // namespace heddle::run

#endif // HEDDLE_TOOLS_HEDDLE_RUN_REPORT_H
