//===- StepEngine.h - What the loop asks of a device ------------*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The loop knows blocks, steps and observers; an engine holds the tokens and
// makes a step of them: forward pass, draws and commits. Host and GPU are two
// engines, and what moves between the loop and an engine in a step is small.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_DENOISE_STEPENGINE_H
#define HEDDLE_RUNTIME_DENOISE_STEPENGINE_H

#include "bundle/Result.h"
#include "runtime/model/Config.h"
#include "runtime/sample/Sampler.h"
#include "runtime/schedule/Executor.h"
#include "runtime/tensor/DType.h"

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace heddle::rt {

/// A sampler's settings as LLaDA's generate() has them (upstream defaults), or
/// with sampling.timesteps as Dream's diffusion_generate(), which has one
/// block.
struct GenerateOptions {
  int64_t genLength = 128;
  int64_t steps = 128; ///< over the whole generation; blocks share them equally
  int64_t blockLength = 128;
  SampleOptions sampling;
  /// For CommitRule::Kind::RandomOrder: the order of the response's positions,
  /// from 0, of every prompt; empty: drawn.
  std::vector<int32_t> commitOrder = {};
  bool trace = false; ///< fill StepOutcome::traces; not by engines that record
                      ///< their steps (DeviceOptions::observed)
  /// Of each step s with (s - 1) % mapEvery = 0 fill StepOutcome::maps.
  MapOptions maps = {};
  int64_t mapEvery = 1;
};

/// What a step made of a position: a token, with a rule that edits() of another
/// one, or with a rule that revokes() a mask again.
struct Commit {
  int64_t sequence = 0;
  int64_t position = 0; ///< in the sequence, prompt included
  int32_t token = 0;    ///< revoked: the mask token
  double confidence = 0;
  bool revoked = false; ///< `confidence` is the probability of what was there
  bool edited = false;  ///< there was another token
  int64_t step = 0;     ///< of the sequence; 0: that of the engine
};

/// What a forward pass made of one sequence under a schedule that verifies
/// drafts (bundle::CommitRule::drafts).
struct Verified {
  int64_t sequence = 0;
  int64_t copies = 0; ///< of the sequence in the pass
  int64_t steps = 0;  ///< that it made, at least one
};

/// How confident a step predicted a position that was masked, whether it became
/// a token or not.
struct Prediction {
  int64_t sequence = 0;
  int64_t position = 0; ///< in the sequence, prompt included
  double confidence = 0;
};

/// The attention that positions drew in a step, over all layers.
struct Drawn {
  int64_t sequence = 0;
  std::vector<double> attention; ///< [length], prompt included
};

/// Where a step stands in its run.
struct StepPlace {
  int64_t step = 0;        ///< 1-based, over the whole run
  int64_t block = 0;       ///< 0-based
  int64_t stepInBlock = 0; ///< 0-based; 0 starts the block
};

/// All that a step computed for one sequence, for those who compare. Rows are
/// positions in the sequence.
struct SequenceTrace {
  int64_t sequence = 0;
  int64_t step = 0;             ///< of the sequence, from 1
  int64_t length = 0;           ///< prompt and response
  std::vector<int32_t> visible; ///< positions, by place
  std::vector<LayerTrace> layers;
  /// A selection made in this step, for one head: for each group of query rows
  /// the keys, or blocks of keys, that it lists, as places among the visible
  /// positions.
  struct Refreshed {
    int64_t layer = 0;
    int64_t head = 0;      ///< query head, or key/value head if these share
    int64_t selection = 0; ///< index into Manifest::selections
    std::vector<std::vector<int32_t>> lists; ///< [groups]
  };
  std::vector<Refreshed> refreshed;
  std::vector<int32_t> logits; ///< rows through the LM head, ascending
};

/// What a step did, for those who watch.
struct StepOutcome {
  /// [sequences]: the block that each decoded, -1 of those that were done;
  /// empty if blocks last their planned steps.
  std::vector<int64_t> blocks;
  int64_t rowsComputed = 0; ///< rows of the forward pass (CFG counts both)
  int64_t logitRows = 0;    ///< rows through the LM head
  std::vector<Commit> commits;
  /// Of all positions that the step could commit, where the schedule goes by
  /// their confidences (bundle::readsConfidences).
  std::vector<Prediction> predictions;
  /// Of each sequence of which it computed rows, where the schedule goes by the
  /// attention that positions drew (bundle::readsAttention).
  std::vector<Drawn> drawn;
  /// Of each sequence that was not done, where the schedule verifies drafts.
  std::vector<Verified> verified;
  StepCounters counters;
  /// If GenerateOptions::trace, of all steps that were made.
  std::vector<SequenceTrace> traces;
  std::vector<AttentionMap> maps; ///< if GenerateOptions::maps asks for them
};

/// Runs the steps of one run after the other over a ragged batch of prompts.
/// A sequence's tokens do not depend on the others, bit for bit. With CFG the
/// batch holds every prompt a second time, masked, behind all conditional
/// sequences. A schedule that verifies drafts makes several steps of a sequence
/// in one of the engine's.
///
/// A step commits, in each sequence, its quota of the masked positions up to
/// the end of the current block (all in the current block, unless the model
/// itself drew the mask token earlier: such a position stays masked and
/// competes again, as in the reference). Only those positions' rows go through
/// the LM head, and those of tokens that the rule may edit or revoke; none when
/// the quota is 0, but in passes that only edit. A block's quotas are those of
/// commitQuotas() for the positions masked when it starts.
/// Models with shifted logits predict a position in the row before it: that row
/// goes through the LM head then (ModelConfig::predictingRow).
/// Source: LLaDA's generate (Nie et al. 2025, released code); Dream's
/// diffusion_generate (Ye et al. 2025, released code).
class StepEngine {
public:
  virtual ~StepEngine() = default;

  virtual const ModelConfig &config() const = 0;

  /// Type of weights and activations.
  virtual DType dtype() const = 0;

  /// Checks that memory suffices, then allocates and starts a run; any run
  /// before is forgotten. Prompts and options have been checked.
  virtual Status beginRun(std::span<const std::vector<int32_t>> prompts,
                          const GenerateOptions &options) = 0;

  /// Makes the next step. Places come in order and without gaps. `outcome` is
  /// null when nobody looks, which may save the device a transfer.
  virtual Status step(const StepPlace &place, StepOutcome *outcome) = 0;

  /// Whether every sequence of the run is done. Blocks that end by confidence
  /// need fewer steps than planned, or more.
  virtual bool finished() const = 0;

  /// The whole sequences as the last step left them, [sequences].
  virtual Result<std::vector<std::vector<int32_t>>> tokens() = 0;
};

/// What is said of logits that a step cannot draw from: those of `where`.
Error notFinite(const std::string &where, DType dtype);

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_DENOISE_STEPENGINE_H
