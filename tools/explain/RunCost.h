//===- RunCost.h - What a run costs beside a dense one ----------*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Simulates a run of one prompt and adds up what its steps compute. All is
// exact where the schedule decides it. Where the run does, the numbers are
//   at most what a run computes, if rows are chosen by what layers find
//           (RunCostRequest::salientShare 1), lists overlap windows, blocks are
//           cut off by the sequence's end, or a rule of confidence commits one
//           token a step (tokensPerStep 1);
//   about   that, if those two are given other values, or which tokens are
//           committed matters, and not only how many; or if steps refresh by
//           drift: then they are of a run in which nothing drifts; or if drafts
//           are verified: then they are of a run in which each step is computed
//           once, in a forward pass of its own.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_TOOLS_EXPLAIN_RUNCOST_H
#define HEDDLE_TOOLS_EXPLAIN_RUNCOST_H

#include "bundle/Result.h"
#include "bundle/program/Manifest.h"
#include "tools/explain/Cost.h"
#include "tools/explain/Machine.h"
#include "tools/explain/Simulation.h"

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace heddle::explain {

struct RunCostRequest {
  SimulationRequest run;
  ModelShape shape;
  Machine machine;
  double salientShare = 1; ///< of the rows in question, in every layer
};

/// How many positions steps have: what depends on the run has room between
/// both.
struct RowCount {
  int64_t least = 0, most = 0;
  bool exact() const { return least == most; }
};

/// Steps that do the same: the same pass, phases and refreshes.
struct StepKind {
  std::string what; ///< "computes block; dense; refreshes cols"
  std::vector<int64_t> steps;
  Cost cost;       ///< of all these steps
  Seconds seconds; ///< likewise
};

/// How far a number is that of every run.
enum class Certainty { Exact, AtMost, About };

struct RunCost {
  Cost run, dense;
  /// Of a run in which all drifts that may, or no draft holds; 0 if nothing
  /// goes by drift and nothing is drafted.
  double mostOperations = 0;
  Seconds seconds, denseSeconds;
  Certainty certainty = Certainty::Exact;
  int64_t steps = 0;                    ///< that the simulated run took
  Certainty ofSteps = Certainty::Exact; ///< of `steps`
  int64_t sequences = 1;                ///< SimulatedStep::sequences
  std::vector<Work> ofStep;
  std::vector<StepKind> kinds;
  std::vector<RowCount> rowsOfPass; ///< that its steps carry through the layers
  RowCount visible;
};

/// An error when the schedule cannot run at these lengths.
Result<RunCost> costOf(const bundle::Manifest &manifest,
                       const RunCostRequest &request);

/// Of a dense run of these steps, without its kinds: of one batch of sequences
/// of these lengths, which have all the request's response.
RunCost costOfDense(const RunCostRequest &request,
                    std::span<const int64_t> lengths);

/// What to warn of where blocks of so many tokens take more steps than they can
/// use (passes(at_least = n)); "" if they don't.
std::string idleStepsText(const bundle::Manifest &manifest, int64_t tokens);

/// "at most ", "about ", or "", to stand before a number.
const char *boundText(Certainty certainty);

/// The same before how many times as fast a run is: "at least " where its time
/// is at most so long.
const char *speedBoundText(Certainty certainty);

/// "1 token", "3 tokens".
std::string counted(int64_t count, const std::string &what);

/// "61.0%".
std::string percentOf(double of, double all);

/// One line, also of what was counted: "of a dense run: operations 61.0%, ...".
std::string shareText(const ModelShape &shape, const Cost &run,
                      const Cost &dense, Certainty certainty);

} // namespace heddle::explain

#endif // HEDDLE_TOOLS_EXPLAIN_RUNCOST_H
