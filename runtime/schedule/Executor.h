//===- Executor.h - Executes a bundle's step program ------------*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_SCHEDULE_EXECUTOR_H
#define HEDDLE_RUNTIME_SCHEDULE_EXECUTOR_H

#include "bundle/Result.h"
#include "bundle/format/Bundle.h"
#include "runtime/model/Attention.h"
#include "runtime/model/Config.h"
#include "runtime/schedule/Sequence.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

namespace heddle::rt {

/// What one step cost, over all sequences. Pairs are summed over layers and
/// heads; rows, keys and bytes over layers.
struct StepCounters {
  int64_t pairs = 0;      ///< (query, key) pairs computed by attention
  int64_t densePairs = 0; ///< pairs that dense attention of all positions of
                          ///< the sequences in the step would compute
  int64_t scorePairs = 0; ///< pairs visited again to score a selection
  int64_t lsePairs = 0;   ///< pairs that attention computed once more, for the
                          ///< log-sum-exps that a selection is scored by, or
                          ///< the weights that drift is measured by
  int64_t attendedKeys = 0; ///< visible keys where attention was computed,
                            ///< without those of which it is kept
  int64_t mergedRows = 0;   ///< rows of which attention over other keys was
                            ///< kept, or read to be merged
  int64_t scoredKeys = 0;   ///< visible keys where selections were scored
  int64_t refreshes = 0;    ///< index lists (layer x sequence) refreshed
  int64_t activeRows = 0;   ///< rows that carry a hidden state (of one layer)
  int64_t queryRows = 0;    ///< rows whose Q is computed
  int64_t keyRows = 0;
  int64_t valueRows = 0;
  int64_t projectedRows = 0; ///< rows through attention's output projection
  int64_t ffnRows = 0;
  /// [layers]: rows that the layer found to have changed, where a pass compares
  /// contexts; else empty.
  std::vector<int64_t> salientRows;
  /// [sequences x layers] of a schedule with cadences by drift, else empty: the
  /// mean similarity that the step before found in each of their layers, from
  /// the first on, by which this one goes. A guided sequence has those of its
  /// conditional half.
  std::vector<std::optional<double>> similarity;
  int64_t cacheBytesWritten = 0; ///< of K, V, contexts, outputs, FFN outputs
  int64_t cacheBytesRead = 0;    ///< the same, of rows not computed

  /// Adds another step's, but for its layers' salientRows and similarity.
  StepCounters &operator+=(const StepCounters &step) {
    for (int64_t StepCounters::*member :
         {&StepCounters::pairs, &StepCounters::densePairs,
          &StepCounters::scorePairs, &StepCounters::lsePairs,
          &StepCounters::attendedKeys, &StepCounters::scoredKeys,
          &StepCounters::refreshes, &StepCounters::activeRows,
          &StepCounters::queryRows, &StepCounters::keyRows,
          &StepCounters::valueRows, &StepCounters::projectedRows,
          &StepCounters::ffnRows, &StepCounters::mergedRows,
          &StepCounters::cacheBytesWritten, &StepCounters::cacheBytesRead})
      this->*member += step.*member;
    return *this;
  }
};

/// The lists that one layer keeps, for observers. Keys and rows are counted by
/// place: the index in the visible positions.
struct SelectionView {
  int64_t selection = 0; ///< index into Manifest::selections
  int64_t group = 0;
  int64_t lists = 0; ///< query heads, or key/value heads if these share lists
  int64_t groups = 0;
  int64_t keep = 0;
  const int32_t *indices = nullptr; ///< [lists x groups x keep], or null
                                    ///< before the first refresh
};

/// What one layer of a step computed for one sequence, as positions in the
/// sequence, ascending.
struct LayerTrace {
  int64_t layer = 0;
  int64_t sequence = 0;
  std::vector<int32_t> queryRows;
  std::vector<int32_t> exactRows; ///< of these, whose attention is computed in
                                  ///< full rather than corrected
  std::vector<int32_t> keyRows;
  std::vector<int32_t> valueRows;
  std::vector<int32_t> ffnRows;
  std::vector<int64_t> refreshed; ///< indices into Manifest::selections
  int64_t pairs = 0; ///< (query, key) pairs computed, over all heads
  /// Cached keys that attention did not read, since what is kept of it over
  /// them was merged instead.
  int64_t unreadKeys = 0;
};

/// How attention is pictured: cells of a square that the whole sequence is cut
/// into, and the most query rows of a cell that are looked at. 0 cells: not.
struct MapOptions {
  int64_t cells = 0;
  int64_t rowsPerCell = 4;
};

/// Where one layer's attention of the first sequence went, by the products of
/// queries and keys alone (a schedule's `scores` are left out).
struct AttentionMap {
  int64_t layer = 0;
  int64_t heads = 0;         ///< query heads
  int64_t cells = 0;         ///< position p is in cell p * cells / length
  std::vector<uint8_t> rows; ///< [cells]: query rows looked at
  std::vector<float> mass;   ///< [heads x cells x cells]: the share of a row's
                             ///< softmax over all visible keys, the rows' mean
  std::vector<float> kept;   ///< likewise: the share of a cell's visible keys
                             ///< that a row is paired with, by the lists as the
                             ///< step left them
  std::vector<float> recall; ///< [heads]: the mass on these keys
};

/// Executes a bundle's step program over a fixed set of sequences: decides for
/// each step which positions are visible and which rows are active, for each
/// layer which of these are computed, runs the attention of the layer's phase,
/// refreshes its selections and keeps what later steps reuse. Sequences of a
/// batch are independent: each is at its own place of the run.
class ScheduleExecutor : public LayerExecutor {
public:
  /// Loads the bundle's host code. Refused when the bundle was built for a CPU
  /// with features that this one lacks, or has no kernel variant for the
  /// model's head dim and `dtype`, or a rule names a layer that the model
  /// lacks.
  static Result<std::unique_ptr<ScheduleExecutor>>
  create(const bundle::Bundle &bundle, const ModelConfig &config, DType dtype);

  /// The same of a program that names the bundle's kernels and is not its own:
  /// it may be one that no bundle can hold, of which all is checked here.
  static Result<std::unique_ptr<ScheduleExecutor>>
  create(const bundle::Manifest &program, const bundle::Bundle &bundle,
         const ModelConfig &config, DType dtype);

  virtual const bundle::Manifest &manifest() const = 0;

  /// Ends the run at hand: frees its lists and caches.
  virtual void endRun() {}

  /// Starts a run over these sequences, planned for `totalSteps` steps with
  /// `blockSteps` in each block; forgets all selections and caches of the run
  /// before and allocates new ones. An error when the planned steps would read
  /// a selection that no earlier one has refreshed.
  virtual Status beginRun(std::vector<SequenceShape> sequences,
                          int64_t totalSteps, int64_t blockSteps) = 0;

  /// Bytes that beginRun would allocate.
  virtual int64_t
  runBytes(const std::vector<SequenceShape> &sequences) const = 0;

  /// Starts the next step of each sequence that is not done: picks its pass,
  /// its visible positions and its active rows. The batch, of as many sequences
  /// as the run, lasts until the next step; sequences that are done, or whose
  /// pass names no visible position, have no rows in it. Every active row of
  /// the batch then goes through the layers (LayerExecutor), in order. An
  /// error, naming the sequence, when the step would use keys, values, contexts
  /// or outputs that no step has computed.
  virtual Result<const PackedBatch *>
  beginStep(std::span<const SequenceState> states) = 0;

  /// Whether the commit rule admits a position at this step
  /// (CommitRule::within).
  virtual bool inCommitSet(int64_t sequence, int64_t position) const = 0;

  /// Whether a position whose predicting row is not active at this step is
  /// predicted by its own row (Pass::alone).
  virtual bool predictsAlone(int64_t sequence) const = 0;

  /// Whether an active row of a sequence, by its index among these, comes out
  /// of the last layer at this step, so that its logits mean something. Before
  /// the layers have run: whether it may.
  virtual bool predicts(int64_t sequence, int64_t row) const {
    (void)sequence, (void)row;
    return true;
  }

  /// Counters since beginStep.
  virtual StepCounters counters() const = 0;

  /// Whether trace() is kept; off at first.
  virtual void setTracing(bool on) = 0;

  /// One entry for each layer that has run since beginStep and each sequence
  /// with active rows, in that order.
  virtual std::span<const LayerTrace> trace() const = 0;

  /// Whether and how maps() are made, from the next layer on; not at first.
  virtual void setMaps(const MapOptions &options) { (void)options; }

  /// One for each layer since beginStep that computed rows of the first
  /// sequence.
  virtual std::span<const AttentionMap> maps() const { return {}; }

  /// [length]: the attention that a sequence's positions drew in the last step
  /// that computed rows of it, where a set goes by it
  /// (bundle::readsAttention); empty: there was none.
  virtual std::span<const double> attention(int64_t sequence) const {
    (void)sequence;
    return {};
  }

  /// The visible positions of a sequence at this step, by place.
  virtual std::span<const int32_t> visible(int64_t sequence) const = 0;

  /// Until the next call or step. An error when a list is damaged.
  virtual Result<std::vector<SelectionView>>
  selections(int64_t layer, int64_t sequence) const = 0;
};

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_SCHEDULE_EXECUTOR_H
