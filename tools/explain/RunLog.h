//===- RunLog.h - What a run did, step by step ------------------*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_TOOLS_EXPLAIN_RUNLOG_H
#define HEDDLE_TOOLS_EXPLAIN_RUNLOG_H

#include "bundle/Result.h"
#include "runtime/denoise/StepEngine.h"

#include <cstdint>
#include <string>
#include <vector>

namespace heddle::explain {

/// What a run did: heddle-run's --steps-json of one prompt, from its first step
/// to its end. Read are `step`, `rows`, `commits` (but for `confidence`),
/// `predictions`, `drawn`, `verified` with `logit_rows`, `similarity` and
/// `salient_rows`, and all fields of the last line. Others (`block`, `blocks`,
/// counts of pairs, rows of a kind, refreshes and bytes, `seconds`) say again
/// what follows from these, or how long it took: they may be anything.
struct RunLog {
  /// Its forward passes, as they were told: commits, predictions and the
  /// attention drawn where the run's schedule goes by them, what was verified,
  /// rows through the layers and the LM head and, in `counters`, the layers'
  /// salient rows and similarities. Numbers that the log doesn't say are -1.
  std::vector<rt::StepOutcome> passes;
  /// What the last line says of the run.
  struct Lengths {
    int64_t prompt = 0, genLength = 0, steps = 0, blockLength = 0;
  } lengths;
  std::vector<int32_t> tokens; ///< at the end, those of the prompt included

  std::string name;           ///< of the file, printable
  std::vector<int64_t> lines; ///< [passes]: from 1
  int64_t lastLine = 0;       ///< the one that ends the run

  /// An error at the line of a pass, which does not do as the schedule does.
  Error unlike(size_t pass, const std::string &what) const;
  /// The last line, as errors name it.
  std::string nameOfEnd() const;
  /// An error at the last line.
  Error badEnd(const std::string &what) const;
};

/// Reads the log of a run that came to its end. An error names the line, and
/// says whose log it is: `name`.
Result<RunLog> readRunLog(const std::string &text, const std::string &name);

} // namespace heddle::explain

#endif // HEDDLE_TOOLS_EXPLAIN_RUNLOG_H
