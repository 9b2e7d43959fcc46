//===- Explain.h - What a schedule does when, and costs ---------*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_TOOLS_EXPLAIN_EXPLAIN_H
#define HEDDLE_TOOLS_EXPLAIN_EXPLAIN_H

#include "bundle/Result.h"
#include "bundle/format/Bundle.h"
#include "bundle/format/Crossovers.h"
#include "bundle/program/Manifest.h"
#include "tools/explain/Cost.h"
#include "tools/explain/Machine.h"
#include "tools/explain/RunCost.h"
#include "tools/explain/RunLengths.h"
#include "tools/explain/Simulation.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace heddle::explain {

using bundle::Encoding;
using bundle::Kernel;
using bundle::Manifest;

/// More tokens than this are not explained.
inline constexpr int64_t maxTokens = int64_t(1) << 27;

/// The run that a schedule is explained for.
struct ExplainRequest {
  SimulationRequest run{.steps = defaultGenLength, .length = 4096};
  /// 0 of key/value heads: as many as heads; of the hidden width: that of all
  /// heads; of the FFN: three times the hidden width.
  ModelShape shape{.hidden = 0, .kvHeads = 0, .ffnWidth = 0};
  double salientShare = 1; ///< RunCostRequest::salientShare
  std::string source;      ///< the schedule's text, whose spelling is kept
  std::string machine;     ///< as machineNamed(); "": the bundle's
  /// That heddlec goes by.
  std::vector<bundle::Crossover> crossovers = bundle::measuredCrossovers();
};

/// Takes the schedule's text and the table of crossovers of a bundle that has
/// them.
void takeFrom(ExplainRequest &request, const bundle::Bundle &bundle);

/// The steps at which one pass runs, if the run goes as planned.
struct PassExplanation {
  std::vector<int64_t> steps; ///< ascending
  std::string what;           ///< "salient(below = 99/100) in response"
  RowCount rows;              ///< active rows
  bool depends =
      false; ///< how many of them a layer computes is found in the run
};

/// The steps at which one phase of a rule runs, and its cost.
struct PhaseExplanation {
  std::vector<int64_t> steps; ///< ascending; empty if it never runs
  std::string kernel;         ///< the attention kernel's name
  std::string pattern;        ///< "dense", "window(64) + sinks(4)", ...
  int64_t pairs = 0;          ///< of one head, in one layer and step
  bool pairsExact = true;     ///< else `pairs` is the most there can be:
                              ///< chosen columns may lie in the window
  /// A selection that the phase refreshes, at those of its steps that the
  /// selection's cadence names. Each refresh visits all pairs of a head once
  /// more to score them.
  struct Refresh {
    std::string selection;
    std::vector<int64_t> steps;
    bool operator==(const Refresh &) const = default;
  };
  std::vector<Refresh> refreshes;
  /// The refreshes come first: dense attention for the scores' sake, then the
  /// choice, then attention over it.
  bool refreshesFirst = false;
  /// What is measured in one of the rule's layers, in the phase's steps that
  /// are not the cadence's.
  struct Measure {
    std::string cadence;
    int64_t layer = 0;
    std::string kernel; ///< that runs once more for it; "": none, V is compared
    bool operator==(const Measure &) const = default;
  };
  std::vector<Measure> measures;
  /// Steps at which a selection is read that no step so far has filled. A run
  /// with this number of steps is refused by the runtime.
  std::vector<int64_t> unfilled;
  bool operator==(const PhaseExplanation &) const = default;
};

struct RuleExplanation {
  std::vector<int64_t> layers;
  std::vector<PhaseExplanation> phases;
};

/// What the rule's attention makes of logits: empty if they stay as they are.
/// All phases of a rule have the same function.
const bundle::Scores &scoresOf(const RuleExplanation &rule,
                               const bundle::Manifest &manifest);

struct SelectionExplanation {
  std::string name;
  int64_t keys = 0;               ///< keys or blocks that a list has at most
  bool keysExact = true;          ///< so many in each list
  int64_t of = 0;                 ///< of so many
  int64_t groups = 0;             ///< lists a head
  std::vector<int64_t> refreshed; ///< layers that refresh it
  std::vector<int64_t> readers;   ///< those that read it as another chose it
  /// On the estimate's machine: attention over a list of fewer than this share
  /// of what there is takes less time than dense attention.
  double fasterBelow = 1;
  bool read = true; ///< by attention; else others choose within it alone
  /// bundle::fallsBackAbove(); if there is none, why.
  std::optional<bundle::Ratio> fallsBackAbove;
  std::string stays;
  bool faster() const {
    return !read ||
           static_cast<double>(keys) < fasterBelow * static_cast<double>(of);
  }
  /// What the index lists of all heads cost on one target.
  struct Lists {
    /// What the target writes lists in at this length; none if its kernels come
    /// in no encoding that holds so many keys, so that a run is refused.
    std::optional<Encoding> encoding;
    int64_t bytesPerLayer = 0;
    int64_t bytes = 0; ///< of all layers that refresh it
  };
  std::vector<Lists> lists; ///< one for each of Manifest::targets
};

/// What happens in a run, and what it costs next to dense attention.
struct Explanation {
  ExplainRequest request;
  Manifest manifest;
  std::vector<RuleExplanation> rules;
  std::vector<SelectionExplanation> selections;
  std::vector<PassExplanation> passes; ///< none: every step computes all rows
  RunCost cost;
  Machine machine;                ///< of the cost's seconds
  int64_t cacheBytesPerLayer = 0; ///< of what is kept of rows, at most
  double cacheBytes = 0;          ///< likewise, in all layers
  int64_t densePairs = 0;         ///< of one head, in one layer and step
  double share = 0;               ///< attention pairs of the run / dense pairs
  double scoreShare = 0;          ///< pairs visited to score / dense pairs
  /// Whether the run takes the planned steps: blocks may end by confidence, and
  /// sequences at EOS.
  bool planned = true;
};

/// An error when a number is below 1 or above what the products hold (2^20
/// steps, 2^27 tokens, 2^16 layers and heads, 2^62 pairs), the heads are no
/// multiple of the key/value heads, blocks do not divide the response or
/// outnumber the steps, or there is no such machine.
Status check(const ExplainRequest &request);

/// The fewest and the most steps of the schedule's cadences by drift, of which
/// it has one, if blocks take the planned steps: each of them may have so many.
std::pair<int64_t, int64_t> stepsByDrift(const Explanation &explanation);

/// What is said of cadences by drift, whose steps the run decides, or of
/// drafts, of which the run decides how many hold; "" if there is neither, or a
/// run is followed.
std::string decidedText(const Explanation &explanation);

/// What is said of each selection in whose place all keys are attended to.
std::vector<std::string> fallbackTexts(const Manifest &manifest);

/// An error when check() has one or the rules do not fit the number of layers.
Result<Explanation> explainRun(const Manifest &manifest,
                               const ExplainRequest &request);

/// For people. Ends with a newline. `kernels`: these and their scratch memory,
/// too.
std::string toText(const Explanation &explanation, bool kernels = false);

/// For programs: pretty JSON, stable key order.
std::string toJson(const Explanation &explanation);

/// Which predictions become tokens: at the steps of `on`, or at others.
struct CommitText {
  std::string on;   ///< "at(0.25) and every(2)"; "" of the last
  std::string what; ///< "above(0.9) within undecoded(first = 16)"
};
std::vector<CommitText> commitTexts(const Manifest &manifest);

/// Ascending numbers as "1,3,5,8-10"; "none" if there are none.
std::string runLengths(const std::vector<int64_t> &numbers);

/// What a pass computes exactly: "salient(below = 0.99) in response".
std::string passText(const Manifest &manifest, const bundle::Pass &pass);

/// "least_similar(keep = 0.25) in block": which rows keep attention over the
/// keys outside of a set anew; "" if none does.
std::string refreshedText(const Manifest &manifest, const bundle::Reuse &reuse);

/// The bytes that a layer keeps of a row, by what they are; 0: it doesn't.
struct KeptPart {
  const char *name; ///< "keys and values"
  int64_t bytes;
};
std::array<KeptPart, 5> keptOfRow(const ModelShape &shape,
                                  const bundle::Reuse &reuse);

/// Fills in what concerns rows, from the explanation's manifest and request.
void explainRows(Explanation &explanation);

} // namespace heddle::explain

#endif // HEDDLE_TOOLS_EXPLAIN_EXPLAIN_H
