//===- ProgramExecutor.h - Executes a step program --------------*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// One executor decides; how a kernel is run (KernelRunner) and where rows are
// kept (RowMemory) are its creator's: compiled code in this machine's memory
// (Executor.cpp), the definitions (reference/ReferenceExecutor), a device.
// ProgramExecutorRun.cpp has what a run and a step need,
// ProgramExecutorLayer.cpp which rows a layer computes,
// ProgramExecutorAttend.cpp its attention, ProgramExecutorParts.cpp that of
// which a part is kept, ProgramExecutorDrift.cpp what a cadence by drift goes
// by, ProgramExecutorRollout.cpp what attention positions drew.
//
// Where the schedule keeps keys and values, attention reads all of them from
// the cache, by place; else from the model's tensors, which then hold every
// visible row. A sequence whose active rows are all exact reads and writes the
// model's Q and output in place; else its rows are gathered, the exact ones
// first, the others behind them.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_SCHEDULE_PROGRAMEXECUTOR_H
#define HEDDLE_RUNTIME_SCHEDULE_PROGRAMEXECUTOR_H

#include "bundle/program/Manifest.h"
#include "bundle/program/Program.h"
#include "runtime/cache/IndexLists.h"
#include "runtime/cache/RowStore.h"
#include "runtime/schedule/Executor.h"
#include "runtime/schedule/KernelRunner.h"
#include "runtime/schedule/RowMemory.h"
#include "runtime/schedule/SequenceRows.h"
#include "runtime/schedule/StepProgram.h"

#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

namespace heddle::rt {

class ProgramExecutor : public ScheduleExecutor {
public:
  const bundle::Manifest &manifest() const override { return schedule; }
  void endRun() override;
  Status beginRun(std::vector<SequenceShape> shapes, int64_t totalSteps,
                  int64_t blockSteps) override;
  int64_t runBytes(const std::vector<SequenceShape> &shapes) const override;
  /// Of runBytes(), those of the index lists.
  int64_t listBytes(const std::vector<SequenceShape> &shapes) const;
  Result<const PackedBatch *>
  beginStep(std::span<const SequenceState> states) override;
  bool inCommitSet(int64_t sequence, int64_t position) const override;
  bool predictsAlone(int64_t sequence) const override {
    return sequences[sequence]->rows.alone();
  }
  bool predicts(int64_t sequence, int64_t row) const override;
  StepCounters counters() const override { return counted; }
  void setTracing(bool on) override { tracing = on; }
  std::span<const LayerTrace> trace() const override { return traced; }
  void setMaps(const MapOptions &options) override { mapping = options; }
  std::span<const AttentionMap> maps() const override { return mapped; }
  std::span<const int32_t> visible(int64_t sequence) const override {
    return sequences[sequence]->rows.positions();
  }
  Result<std::vector<SelectionView>>
  selections(int64_t layer, int64_t sequence) const override;
  std::span<const double> attention(int64_t sequence) const override;

  Result<RowSet> values(int64_t layer) override;
  bool choosesByValues(int64_t layer) const override;
  Result<Exact> queriesAndKeys(int64_t layer, const PackedBatch &batch,
                               const AttentionTensors &tensors) override;
  Status attend(int64_t layer, const PackedBatch &batch,
                const AttentionTensors &tensors) override;
  Result<Cached> projected(int64_t layer) override;
  Result<Cached> ffn(int64_t layer) override;

protected:
  /// `memory`: where rows of `dtype` are kept; this machine's if null.
  ProgramExecutor(bundle::Manifest manifest, const ModelConfig &config,
                  DType dtype, std::unique_ptr<RowMemory> memory = nullptr);
  ProgramExecutor(const ProgramExecutor &) = delete;

  /// Fits the program to the model; an error when it does not fit, or its
  /// passes need what it does not keep. To be called before anything else.
  Status fit();

  void setRunner(std::unique_ptr<KernelRunner> next) {
    runner = std::move(next);
  }
  const StepProgram &stepProgram() const { return program; }
  IndexLists &indexLists() { return lists; }

private:
  struct Sequence {
    Sequence(const bundle::Manifest &manifest, bool shifted, int64_t layers,
             const SequenceShape &shape)
        : rows(manifest, shifted, layers, shape), drift(manifest, layers),
          computedPlaces(static_cast<size_t>(layers)) {}

    SequenceRows rows;
    std::vector<size_t> phases; ///< of each rule, at this step
    Picked in;                  ///< rows that come into this layer
    Picked own;                 ///< of these those of its pass
    std::vector<int32_t> among; ///< of these those to choose from
    Picked out;                 ///< rows that come out of this layer
    Picked exact;               ///< rows that this layer computes exactly
    Picked salient;             ///< bound(): those of the next
    Picked
        refreshed; ///< Reuse::Attention::Outside: rows that attend to the keys
                   ///< outside; before queriesAndKeys() those to choose from
    bool propagates = false; ///< this layer corrects the rows that are not
    std::vector<int32_t> gathered; ///< not all exact: the active row of each
                                   ///< gathered row, exact ones first
    std::vector<int32_t> places;   ///< the places of these
    int64_t exactBlock = -1;       ///< of a launch's blocks, -1: none
    int64_t pairs = 0;             ///< computed in this layer
    bundle::DriftWatch drift;
    struct Drifting {
      std::vector<uint8_t> referenced; ///< [response]: whether there is a row
                                       ///< that its are compared with
      int64_t compared = 0; ///< rows of this step, whose similarities wait
    };
    std::vector<Drifting> drifting; ///< [layers of drift]
    bool classed = false;           ///< `keyClasses` has its visible keys
    /// [layers]: the places of the rows that each computed in this step, whose
    /// queries are kept.
    std::vector<std::vector<int32_t>> computedPlaces;
    /// [length]: the attention that positions drew in the last step; empty:
    /// there was none.
    std::vector<double> drew;
  };

  /// Rows of one table that go to rows of another.
  struct Moves {
    std::vector<int32_t> from, to;

    void add(int64_t source, int64_t target) {
      from.push_back(static_cast<int32_t>(source));
      to.push_back(static_cast<int32_t>(target));
    }
  };

  /// The argument blocks of one attention kernel.
  struct Launch {
    size_t kernel = 0;
    std::vector<abi::AttentionArgs> blocks;
  };

  enum class Stage { Values, QueriesAndKeys, Attend, Projected, Ffn };

  /// A store of kept rows.
  struct Kept {
    RowStore ProgramExecutor::*store;
    std::vector<bool> kept; ///< [layers of the store]: whether it has rows
    int64_t rowBytes;
    const char *what;

    int64_t bytes(const std::vector<int64_t> &places) const {
      return RowStore::bytesFor(std::count(kept.begin(), kept.end(), true),
                                places, rowBytes);
    }
  };

  /// Memory that a run needs beside its stores.
  struct Needed {
    std::shared_ptr<std::byte> ProgramExecutor::*buffer;
    int64_t bytes;
    const char *what;
  };

  // ProgramExecutorRun.cpp
  Status fitPasses();
  std::vector<Kept> keptStores() const;
  std::vector<Needed> neededMemory(const std::vector<SequenceShape> &shapes,
                                   const std::vector<int64_t> &places) const;
  Status checkShapes(const std::vector<SequenceShape> &shapes) const;
  std::vector<int64_t> placesOf(const std::vector<SequenceShape> &shapes) const;
  IndexListShape listShape(const std::vector<SequenceShape> &shapes,
                           const std::vector<int64_t> &places) const;
  Status beginSequence(int64_t sequence, const SequenceState &state);
  Status moveRows(int64_t sequence);
  int64_t widestRow() const;
  Status checkRefreshes(int64_t sequence) const;

  // ProgramExecutorLayer.cpp
  Status enter(int64_t layer, Stage stage);
  Status checkTensors(const PackedBatch &batch,
                      const AttentionTensors &tensors) const;
  Status pickLeastSimilar(int64_t layer, const AttentionTensors &tensors);
  RowSet rowSet(std::vector<int32_t> &memory,
                const std::function<const Picked &(const Sequence &)> &of);
  Cached cachedIn(const RowStore &store, int64_t layer,
                  const RowSet &computed) const;
  static const bundle::Pass &passOf(int64_t layer, const Sequence &sequence) {
    return *sequence.rows.partOf(layer).pass;
  }
  /// Below which cosine a row's context in a layer counts as changed; none: it
  /// is not compared.
  std::optional<bundle::Ratio> bound(int64_t layer,
                                     const Sequence &sequence) const;
  static const Picked &valueRows(int64_t layer, const Sequence &sequence);
  bool refreshesByValues(int64_t layer, const Sequence &sequence) const;
  bool chooses(int64_t layer, const Sequence &sequence) const;
  static void choose(int64_t layer, Sequence &sequence,
                     std::span<const int32_t> chosen);
  static const Picked &queryRows(const Sequence &sequence);
  const Picked &ffnRows(int64_t layer, const Sequence &sequence) const;
  void traceLayer(int64_t layer);

  // ProgramExecutorDrift.cpp
  Status readDrift();
  Status measureDrift(int64_t layer, const AttentionTensors &tensors);
  const bundle::Phase::Measure *measureOf(int64_t layer,
                                          const Sequence &sequence) const;
  Status makeClasses();
  Status classify(int64_t sequence);
  Status weigh(int64_t layer);
  int64_t driftWidth() const { return weighs ? attentionWidth() : kvWidth(); }

  // ProgramExecutorRollout.cpp
  int64_t rolloutListBytes(bundle::Encoding encoding, int64_t n) const;
  bool rollsOut(const Sequence &sequence) const;
  Status keepQueries(int64_t layer, const AttentionTensors &tensors);
  Status fetchFloats(const float *from, std::vector<float> &to);
  Status weighRows(int64_t layer, int64_t sequence,
                   std::span<const double> drawn, abi::SelectArgs &args);
  Status rollBack(int64_t layer, int64_t sequence, const abi::SelectArgs &args,
                  std::vector<double> &drawn);
  Status rollOut();

  // ProgramExecutorMaps.cpp
  Status mapLayer(int64_t layer, const AttentionTensors &tensors);

  // ProgramExecutorAttend.cpp
  const bundle::Phase &phaseOf(int64_t layer, const Sequence &sequence) const {
    size_t rule = program.ruleOf(layer);
    return schedule.rules[rule].phases[sequence.phases[rule]];
  }
  /// The kernel that computes a sequence's rows in a layer.
  size_t attentionOf(int64_t layer, const Sequence &sequence) const {
    const bundle::Phase &phase = phaseOf(layer, sequence);
    return static_cast<size_t>(
        sequence.rows.shape().isShadow() ? phase.shadow : phase.attention);
  }
  Status checkLists(int64_t layer) const;
  /// Some rows of a layer of a store.
  RowTable tableOf(const RowStore &store, int64_t layer,
                   std::span<const int32_t> index) const {
    return {store.layer(layer), store.rowBytes() / byteSize(dtype), index};
  }
  Status storeKeysAndValues(int64_t layer, const AttentionTensors &tensors);
  void gather(int64_t sequence, Moves &queries);
  void placeGathered(int64_t sequence, Moves &queries);
  void useGathered(int64_t sequence, int64_t first, int64_t count,
                   abi::AttentionArgs &args) const;
  abi::AttentionArgs argsOf(int64_t layer, int64_t sequence, size_t kernel,
                            const AttentionTensors &tensors);
  Status planLaunches(int64_t layer, const AttentionTensors &tensors);
  Status attendWhole(int64_t layer, const AttentionTensors &tensors);
  Status countPairs(int64_t layer, int64_t sequence, size_t kernel,
                    const abi::AttentionArgs &args);
  Result<int64_t> pairsOf(int64_t layer, int64_t sequence, size_t kernel,
                          abi::AttentionArgs args);
  Status countPlaces(size_t kernel, abi::AttentionArgs args,
                     std::vector<int32_t> places, std::vector<int64_t> &known);
  Status combine(int64_t layer, const AttentionTensors &tensors);
  void pickSalient(int64_t layer, std::span<const float> similarity,
                   std::span<const int32_t> similarityAt);
  Status clearDelta();
  const bundle::Phase::Refresh *dueRefresh(const bundle::Phase &phase,
                                           int64_t selection,
                                           const Sequence &sequence) const;
  static Launch &launchOf(std::vector<Launch> &all, size_t kernel);
  Status scoreFirst(int64_t layer, const AttentionTensors &tensors);
  Status refresh(int64_t layer, const AttentionTensors &tensors, bool first);
  Status score(const bundle::Phase::Scoring &scoring, int64_t group,
               abi::AttentionArgs args, abi::SelectArgs &select, int64_t start);
  Status setRanges(int64_t layer, int64_t sequence, int64_t selection,
                   abi::SelectArgs &args);
  /// What logits are multiplied by.
  float scaleOf(bundle::Selection::Scale scale) const;

  /// A row of a run's log-sum-exps, which are those of the layer at hand, or of
  /// each where attention is added up.
  float *lseOf(int64_t layer, int64_t row) const {
    const int64_t first = program.rollsOut() ? layer * starts.back() : 0;
    return reinterpret_cast<float *>(lse.get()) + (first + row) * queryHeads;
  }
  /// A row of the queries that a layer's rows had in this step.
  std::byte *queriesOf(int64_t layer, int64_t row) const {
    return rolloutQ.get() +
           (layer * starts.back() + row) * attentionWidth() * byteSize(dtype);
  }
  int64_t attentionWidth() const { return queryHeads * headDim; }
  int64_t kvWidth() const { return kvHeads * headDim; }
  /// What a layer keeps.
  const bundle::Reuse &reuseOf(int64_t layer) const {
    return reuses[static_cast<size_t>(layer)];
  }
  /// Which layers' reuse is such that `holds`.
  template <typename Predicate>
  std::vector<bool> layersThat(Predicate holds) const {
    std::vector<bool> result;
    for (const bundle::Reuse &reuse : reuses)
      result.push_back(holds(reuse));
    return result;
  }
  bool propagatesSomewhere() const {
    return std::any_of(
        reuses.begin(), reuses.end(), [](const bundle::Reuse &reuse) {
          return reuse.attention == bundle::Reuse::Attention::Propagated;
        });
  }

  // ProgramExecutorParts.cpp
  /// The keys before, behind and inside of those whose attention is not kept.
  enum class Part { Before, Behind, Inside };
  struct PartRows;
  Status attendInParts(int64_t layer, const AttentionTensors &tensors);
  Status attendPart(int64_t layer, Part part, const AttentionTensors &tensors);
  Status mergePart(int64_t layer, Part part, const PartRows &rows,
                   const AttentionTensors &tensors);
  bool keepsOutside() const {
    return schedule.reuse.attention == bundle::Reuse::Attention::Outside;
  }
  /// The keys that attention of this step reads.
  int64_t attendedKeys(const Sequence &sequence) const;
  /// Of these, those of rows that are not active.
  int64_t cachedKeys(const Sequence &sequence) const;
  int64_t partBytes() const {
    return attentionWidth() * byteSize(dtype) +
           queryHeads * static_cast<int64_t>(sizeof(float));
  }

  const bundle::Manifest schedule;
  const int64_t layers, hidden, queryHeads, kvHeads, headDim;
  const bool shifted;
  const DType dtype;
  StepProgram program;
  std::vector<bundle::Reuse> reuses; ///< [layers]
  std::unique_ptr<KernelRunner> runner;
  const std::unique_ptr<RowMemory> memory;
  std::vector<std::vector<int64_t>> listsOf;  ///< [kernel]: selections read
  std::vector<std::vector<int64_t>> groupsOf; ///< [kernel]: their group sizes
  bool needsLse = false;                      ///< some phase writes it
  bool needsGather = false;  ///< some layer may compute some active rows only
  bool needsEnds = false;    ///< some layer may have rows that end there
  bool needsScoring = false; ///< some refresh has scorings
  bool needsMoves = false;   ///< kept rows change places
  std::vector<int64_t> driftLayers; ///< in which drift is measured, ascending
  bool weighs = false; ///< it is measured by attention's weights, else by V

  // The run.
  bool running = false;
  std::vector<std::unique_ptr<Sequence>> sequences;
  std::vector<int64_t> starts; ///< first row of each in stores and buffers
  std::shared_ptr<std::byte> listMemory;
  IndexLists lists;
  bundle::Encoding encodedBy = bundle::Encoding::Int32; ///< lists of keys
  RowStore keyStore, valueStore, contextStore, outputStore, ffnStore;
  RowStore outsideStore;    ///< attention over the keys outside
  RowStore outsideLseStore; ///< its log-sum-exps: floats of the query heads
  RowStore delta; ///< V new - V cached of one layer; 0 where not exact
  RowStore ends; ///< outputs of one layer in which rows end; those of such rows
                 ///< are never written, and what becomes of them is not read
  std::shared_ptr<std::byte> lse;        ///< [rows x query heads] floats; of
                                         ///< all layers, if attention is added
                                         ///< up
  std::shared_ptr<std::byte> beforeLse;  ///< likewise, of the keys before those
                                         ///< inside, by kept rows
  std::shared_ptr<std::byte> gatherQ;    ///< [rows x attention width]
  std::shared_ptr<std::byte> gatherO;    ///< likewise
  std::shared_ptr<std::byte> scoringO;   ///< likewise, of attention run for its
                                         ///< log-sum-exp or its weights
  std::shared_ptr<std::byte> scoringL;   ///< 2 x lse: of another scale, and of
                                         ///< one span
  std::shared_ptr<std::byte> rolloutQ;   ///< [layers x rows x attention width]
  std::shared_ptr<std::byte> rolloutLse; ///< [rows x query heads] floats:
                                         ///< less what rows have drawn
  std::shared_ptr<std::byte> rolloutScores; ///< likewise: of keys
  std::shared_ptr<std::byte> rolloutLists;  ///< what select kernels write, too
  std::shared_ptr<std::byte> moved; ///< [rows x widest kept row]: on their way
                                    ///< to other places
  /// [driftLayers x rows of all responses x driftWidth()]: V of a layer, or
  /// the weights of its attention by class of keys, as the first step after the
  /// latest of its cadence by drift had it.
  std::shared_ptr<std::byte> reference;
  std::vector<int64_t> referenceStarts; ///< [sequences + 1]: of a layer the
                                        ///< first row of each
  /// [head dim x kv width]: row c is 1 at element c of each head, else 0; and
  /// [rows x kv width]: of each visible key the row of its class.
  std::shared_ptr<std::byte> classes, keyClasses;
  mutable std::vector<std::unique_ptr<int32_t[]>>
      viewed; ///< selections()'s memory
  /// [layer][sequence][kernel][place]: the pairs of the row at a place, until
  /// lists or visible positions change; -1, or no places, if not yet counted.
  std::vector<std::vector<int64_t>> knownPairs;
  /// Those of a layer and sequence: [kernel][place].
  std::span<std::vector<int64_t>> knownPairsOf(int64_t layer,
                                               int64_t sequence) {
    const size_t kernels = schedule.kernels.size();
    return std::span(knownPairs)
        .subspan((layer * sequences.size() + sequence) * kernels, kernels);
  }

  // The step.
  PackedBatch batch;
  std::vector<int64_t> computing; ///< sequences that have rows in it
  std::vector<int32_t> keptRow;   ///< [batch rows]: the row of a store's layer
  StepCounters counted;
  bool tracing = false;
  std::vector<LayerTrace> traced;
  MapOptions mapping;
  std::vector<AttentionMap> mapped;
  bool underWay = false; ///< begun, and not through all layers yet
  int64_t layerNow = -1;
  Stage stageNow = Stage::Ffn;
  std::vector<Launch> launches;
  std::vector<std::vector<int64_t>> refreshedNow; ///< [sequence], this layer
  std::vector<int32_t> valueMemory, queryMemory, keyMemory, projectMemory,
      ffnMemory;
};

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_SCHEDULE_PROGRAMEXECUTOR_H
