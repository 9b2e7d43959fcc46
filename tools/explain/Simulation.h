//===- Simulation.h - A run without a model --------------------*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Executes the rows of a schedule over one sequence with the runtime's own
// rules and made-up confidences: what is visible, recomputed and committed at
// each step. How many positions these are is that of every run where the
// schedule leaves it to no confidence; which ones is one run of many.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_TOOLS_EXPLAIN_SIMULATION_H
#define HEDDLE_TOOLS_EXPLAIN_SIMULATION_H

#include "bundle/Result.h"
#include "bundle/program/Manifest.h"
#include "tools/explain/RunLog.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace heddle::explain {

/// The run that is simulated: one sequence.
struct SimulationRequest {
  int64_t steps = 0;       ///< planned
  int64_t length = 0;      ///< tokens, prompt included
  int64_t prompt = 0;      ///< tokens of the prompt
  int64_t blockLength = 0; ///< tokens that are decoded together; 0: all
  uint64_t seed = 0;       ///< of the confidences, and of an order drawn before
  /// Tokens that rules of confidence commit at a step on average, at least 1;
  /// of rules that revoke, how many more they commit than revoke. 0: as many as
  /// made-up confidences say, none of which revoke. Of rules that edit, each of
  /// the further passes of a block is taken, and edits one token.
  double tokensPerStep = 0;
  bool shifted = false; ///< the model predicts position i in row i - 1
  int64_t layers = 1;   ///< of the model
  /// Quotas go by times from 1 to `eps` over the whole response, as Dream's.
  std::optional<double> eps{};
  /// Which positions a step of `eps` takes is drawn, each with the same chance
  /// (Dream's `origin`): their number is then that of quotas on average only.
  bool drawn = false;
  int32_t maskToken = -1, eosToken = -1;  ///< in `follow`
  std::shared_ptr<const RunLog> follow{}; ///< commit what this run committed
  bool drifts = false; ///< whatever may drift does at every step; else nothing

  int64_t response() const { return length - prompt; }
  /// Tokens of a block.
  int64_t ofBlock() const {
    return blockLength > 0 ? std::min(blockLength, response()) : response();
  }
  int64_t blocks() const {
    return std::max<int64_t>(1, response() / ofBlock());
  }
  /// Steps that are planned for a block.
  int64_t blockSteps() const { return std::max<int64_t>(1, steps / blocks()); }
};

/// What a layer of a step computes, as positions, ascending.
struct SimulatedLayer {
  const bundle::Pass *pass = nullptr;
  std::span<const int32_t> rows{}; ///< the pass's rows
  int64_t among = 0; ///< LeastSimilar: of these the rows to choose from
  std::span<const int32_t> in{}, out{}; ///< rows that come in, and go on
};

/// A step of the simulation; spans live until the observer returns.
struct SimulatedStep {
  bundle::StepPlace place{};
  /// One for each layer, or one that all are like.
  std::span<const SimulatedLayer> layers{};
  int64_t sequences = 1; ///< that have these rows: 2 in `follow` of a run with
                         ///< classifier-free guidance, for each of `copies`
  int64_t copies = 1;    ///< of the sequence, in `follow` of one that verifies
  int64_t justCommitted = 0; ///< active rows that changed the step before
  std::span<const int32_t> visible{}; ///< positions, ascending
  int64_t keys = 0;    ///< of them, those that attention reads: without those
                       ///< of which it is kept
  bool merges = false; ///< attention over some is kept, or read
  int64_t refreshable = 0; ///< active rows that may keep it anew
  /// [selections], as of the latest step of its cadence: the rows that score
  /// it, -1 where all of a group do, and the keys that it always lists.
  std::span<const int64_t> scoring{}, always{};
  std::span<const int32_t> active{};  ///< positions whose rows the step takes
                                      ///< through the layers, ascending
  std::span<const int32_t> among{};   ///< of these, those that not all layers
                                      ///< compute, or of which the run decides
                                      ///< how many a layer does
  int64_t shadowRows = 0;             ///< besides, of each sequence's shadow
  std::span<const uint8_t> masked{};  ///< [length], before the step
  int64_t logitRows = 0;              ///< rows through the LM head, of all
                                      ///< sequences
  std::span<const int32_t> commits{}; ///< positions, ascending
  std::span<const int32_t> revoked{}; ///< positions: masks again (in `follow`)

  const SimulatedLayer &layer(int64_t index) const {
    return layers[layers.size() == 1 ? 0 : static_cast<size_t>(index)];
  }
};

/// Positions times steps that a simulation takes at most: some seconds.
inline constexpr int64_t maxSimulated = int64_t(1) << 30;

/// Calls `observer` for each step of the run, of one that verifies drafts as if
/// each had a forward pass of its own, or in `follow` for each pass. A run may
/// take more steps than planned: confidences decide when blocks end that do not
/// commit by quota. An error when the schedule cannot run at these lengths or
/// does not end, or when steps times length is above maxSimulated (or a step
/// for each of the planned ones and of the response's tokens, if that is more).
Status simulate(const bundle::Manifest &manifest,
                const SimulationRequest &request,
                const std::function<void(const SimulatedStep &)> &observer);

} // namespace heddle::explain

#endif // HEDDLE_TOOLS_EXPLAIN_SIMULATION_H
