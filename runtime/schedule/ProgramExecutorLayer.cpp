//===- ProgramExecutorLayer.cpp - Which rows a layer computes -------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/schedule/ProgramExecutor.h"
#include "runtime/schedule/Similarity.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <string>

using namespace heddle;
using namespace heddle::rt;
using bundle::Pass;
using bundle::Reuse;

/// Takes the calls of a step in their order only.
Status ProgramExecutor::enter(int64_t layer, Stage stage) {
  if (!running)
    return Error("a layer was run outside of a run: call beginRun");
  if (layerNow >= layers)
    return Error("layer " + std::to_string(layer) +
                 " was run outside of a step: call beginStep");
  if (layer != layerNow || stage != stageNow) {
    static constexpr std::array<const char *, 5> names = {
        "values", "queriesAndKeys", "attend", "projected", "ffn"};
    return Error(std::string(names[static_cast<size_t>(stage)]) +
                 " was called in layer " + std::to_string(layer) +
                 ", expected " + names[static_cast<size_t>(stageNow)] +
                 " in layer " + std::to_string(layerNow) +
                 ": the calls of a step have one order");
  }
  if (stage == Stage::Ffn) {
    stageNow = Stage::Values;
    ++layerNow;
  } else {
    stageNow = static_cast<Stage>(static_cast<int>(stage) + 1);
  }
  return Status::success();
}

Status ProgramExecutor::checkTensors(const PackedBatch &given,
                                     const AttentionTensors &tensors) const {
  if (given.offsets != batch.offsets || given.positions != batch.positions)
    return Error("the batch is not the one that the step was begun with");
  if (tensors.dtype != dtype || tensors.headDim != headDim ||
      tensors.queryHeads != queryHeads || tensors.kvHeads != kvHeads)
    return Error("the tensors' element type, heads or head dim are not those "
                 "that the executor was made for");
  if (tensors.queryStride < attentionWidth() ||
      tensors.outputStride < attentionWidth() ||
      tensors.keyStride < kvWidth() || tensors.valueStride < kvWidth())
    return Error("a row stride is smaller than a row");
  return Status::success();
}

//===----------------------------------------------------------------------===//
// Rows of the model's batch
//===----------------------------------------------------------------------===//

/// The rows that all sequences picked, as rows of the batch in `memory`.
RowSet ProgramExecutor::rowSet(
    std::vector<int32_t> &memory,
    const std::function<const Picked &(const Sequence &)> &of) {
  memory.clear();
  if (std::ranges::all_of(computing,
                          [&](int64_t s) { return of(*sequences[s]).all; }))
    return {};
  for (int64_t s : computing) {
    const Picked &picked = of(*sequences[s]);
    auto first = static_cast<int32_t>(batch.offsets[s]);
    if (picked.all)
      for (int64_t row = 0; row < sequences[s]->rows.rows(); ++row)
        memory.push_back(first + static_cast<int32_t>(row));
    else
      for (int32_t row : picked.rows)
        memory.push_back(first + row);
  }
  return {false, memory};
}

static int64_t sizeOf(const RowSet &set, const PackedBatch &batch) {
  return set.all ? batch.rows() : static_cast<int64_t>(set.rows.size());
}

/// V of rows that are compared is computed before it is known which are exact.
const Picked &ProgramExecutor::valueRows(int64_t layer,
                                         const Sequence &sequence) {
  return passOf(layer, sequence).comparesValues() ? sequence.own
                                                  : sequence.exact;
}

/// Rows that are corrected need their probabilities.
const Picked &ProgramExecutor::queryRows(const Sequence &sequence) {
  return sequence.propagates ? sequence.in : sequence.exact;
}

const Picked &ProgramExecutor::ffnRows(int64_t layer,
                                       const Sequence &sequence) const {
  if (!reuseOf(layer).ffn)
    return sequence.out;
  return passOf(layer, sequence).comparesContexts() ? sequence.salient
                                                    : sequence.exact;
}

/// A layer looks for the salient rows of the next one, whose pass may be
/// another.
std::optional<bundle::Ratio>
ProgramExecutor::bound(int64_t layer, const Sequence &sequence) const {
  const Pass &pass = passOf(layer, sequence);
  if (pass.comparesContexts())
    return pass.below;
  if (layer + 1 < layers && reuseOf(layer).keepsContext())
    if (const Pass &next = passOf(layer + 1, sequence);
        next.exact == Pass::Exact::Salient)
      return next.below;
  return std::nullopt;
}

bool ProgramExecutor::predicts(int64_t sequence, int64_t row) const {
  const Sequence &of = *sequences[sequence];
  // After the last layer it is known which rows were chosen.
  const Picked &last = layerNow == layers ? of.out : of.rows.last();
  return last.all || std::binary_search(last.rows.begin(), last.rows.end(),
                                        static_cast<int32_t>(row));
}

/// Outputs of which some are `computed`, kept in a layer of a store.
LayerExecutor::Cached ProgramExecutor::cachedIn(const RowStore &store,
                                                int64_t layer,
                                                const RowSet &computed) const {
  return {computed, store.layer(layer), store.rowBytes(), keptRow};
}

//===----------------------------------------------------------------------===//
// Calls of the model
//===----------------------------------------------------------------------===//

/// Of some rows those that others are, too.
static Picked within(Picked rows, const Picked &others) {
  if (others.all)
    return rows;
  if (rows.all)
    return others;
  Picked both{false, {}};
  std::set_intersection(rows.rows.begin(), rows.rows.end(), others.rows.begin(),
                        others.rows.end(), std::back_inserter(both.rows));
  return both;
}

Result<RowSet> ProgramExecutor::values(int64_t layer) {
  if (Status status = enter(layer, Stage::Values); !status)
    return status.takeError();
  for (const std::unique_ptr<Sequence> &each : sequences) {
    Sequence &sequence = *each;
    sequence.in = layer == 0 ? Picked() : std::move(sequence.out);
    sequence.out = sequence.exact = Picked();
    sequence.refreshed = Picked();
    sequence.propagates = false;
    if (sequence.rows.rows() == 0) {
      sequence.salient = sequence.in = Picked();
      continue;
    }
    if (keepsOutside() && !sequence.rows.inside().fresh) {
      sequence.refreshed = {false, {}};
      if (layer == 0 || reuseOf(layer).keep.num > 0)
        sequence.refreshed.rows = sequence.rows.refreshable();
    }
    const SequenceRows::Part &part = sequence.rows.partOf(layer);
    const Pass &pass = *part.pass;
    sequence.own = within(part.rows, sequence.in);
    sequence.among = within({false, part.among}, sequence.in).rows;
    sequence.out = sequence.rows.carriesOn(layer) ? sequence.in : sequence.own;
    sequence.exact = sequence.own;
    if (pass.exact == Pass::Exact::Salient)
      sequence.exact =
          within(layer == 0 ? Picked{false, sequence.rows.justCommitted()}
                            : std::move(sequence.salient),
                 sequence.own);
    else if (pass.exact == Pass::Exact::LeastSimilar &&
             !pass.comparesValues() && layer > 0)
      choose(layer, sequence, {});
    if (sequence.exact.count(sequence.rows.rows()) == sequence.rows.rows())
      sequence.exact = Picked();
  }
  RowSet rows = rowSet(valueMemory, [&](const Sequence &s) -> const Picked & {
    return valueRows(layer, s);
  });
  counted.valueRows += sizeOf(rows, batch);
  return rows;
}

/// In the first layer V depends on the token alone: rows that have not changed
/// are all equally similar, and rounding would choose among them. So all rows
/// are exact there, or refreshed. Source: dLLM-Cache (released code), which
/// refreshes the first layer at every step.
bool ProgramExecutor::choosesByValues(int64_t layer) const {
  return layer > 0 && std::ranges::any_of(computing, [&](int64_t s) {
           return chooses(layer, *sequences[s]);
         });
}

/// Whether a layer but the first chooses of the rows that it computes those
/// whose attention over the keys outside it refreshes. A pass that chooses,
/// too, needs attention that is kept whole.
bool ProgramExecutor::refreshesByValues(int64_t layer,
                                        const Sequence &sequence) const {
  return keepsOutside() && !sequence.rows.inside().fresh &&
         reuseOf(layer).refreshesByValues();
}

bool ProgramExecutor::chooses(int64_t layer, const Sequence &sequence) const {
  return passOf(layer, sequence).comparesValues() ||
         refreshesByValues(layer, sequence);
}

/// Finds the rows whose V is least like the cached one, or by confidence, too.
/// Source: dLLM-Cache (released code), adaptive partial updating; ES-dLLM.
Status ProgramExecutor::pickLeastSimilar(int64_t layer,
                                         const AttentionTensors &tensors) {
  auto amongOf = [&](const Sequence &sequence) -> const std::vector<int32_t> & {
    return refreshesByValues(layer, sequence) ? sequence.refreshed.rows
                                              : sequence.among;
  };
  Moves compared; // of all sequences, one after the other
  for (int64_t s : computing)
    if (chooses(layer, *sequences[s]))
      for (int32_t row : amongOf(*sequences[s]))
        compared.add(batch.offsets[s] + row, keptRow[batch.offsets[s] + row]);
  auto count = static_cast<int64_t>(compared.from.size());
  if (Status status = memory->compare(
          {.now = {tensors.value, tensors.valueStride, compared.from},
           .kept = tableOf(valueStore, layer, compared.to),
           .output = {}},
          kvWidth(), 0);
      !status)
    return status;
  Result<std::span<const float>> similarity = memory->similarities(0, count);
  if (!similarity)
    return similarity.takeError();
  size_t first = 0;
  for (int64_t s : computing) {
    Sequence &sequence = *sequences[s];
    if (!chooses(layer, sequence))
      continue;
    const bool refreshes = refreshesByValues(layer, sequence);
    const Pass &pass = passOf(layer, sequence);
    const bundle::Ratio keep = refreshes ? reuseOf(layer).keep : pass.keep;
    const size_t among = amongOf(sequence).size();
    const auto count =
        static_cast<int64_t>(static_cast<__int128>(keep.num) *
                             static_cast<int64_t>(among) / keep.den);
    std::vector<double> ranks;
    for (size_t i = 0; i < among; ++i) {
      const float cosine = (*similarity)[first + i];
      ranks.push_back(
          refreshes || pass.confidence.num == 0
              ? cosine
              : rankOf(cosine, sequence.rows.confidenceOf(sequence.among[i]),
                       pass.confidence));
    }
    std::vector<int32_t> chosen =
        lowest(ranks, std::min(count, static_cast<int64_t>(among)));
    first += among;
    if (!refreshes) {
      choose(layer, sequence, chosen);
      continue;
    }
    for (int32_t &each : chosen)
      each = sequence.refreshed.rows[each];
    sequence.refreshed.rows = std::move(chosen);
  }
  return Status::success();
}

/// Of the rows among which the pass chooses those of `chosen`, which are
/// indices into them; and all others of the pass. What is not chosen ends in a
/// layer that does not carry it on.
void ProgramExecutor::choose(int64_t layer, Sequence &sequence,
                             std::span<const int32_t> chosen) {
  const int64_t active = sequence.rows.rows();
  std::vector<bool> exact(static_cast<size_t>(active), sequence.own.all);
  for (int32_t row : sequence.own.rows)
    exact[row] = true;
  for (int32_t row : sequence.among)
    exact[row] = false;
  for (int32_t i : chosen)
    exact[sequence.among[i]] = true;
  sequence.exact = {false, {}};
  for (size_t row = 0; row < exact.size(); ++row)
    if (exact[row])
      sequence.exact.rows.push_back(static_cast<int32_t>(row));
  if (sequence.exact.count(active) == active)
    sequence.exact = Picked();
  if (!sequence.rows.carriesOn(layer))
    sequence.out = sequence.exact;
}

Result<LayerExecutor::Exact>
ProgramExecutor::queriesAndKeys(int64_t layer, const PackedBatch &given,
                                const AttentionTensors &tensors) {
  if (Status status = enter(layer, Stage::QueriesAndKeys); !status)
    return status.takeError();
  if (Status status = checkTensors(given, tensors); !status)
    return status.takeError();
  if (choosesByValues(layer))
    if (Status status = pickLeastSimilar(layer, tensors); !status)
      return status.takeError();
  for (int64_t s : computing) {
    Sequence &sequence = *sequences[s];
    // Without exact rows nothing has changed that could be propagated.
    sequence.propagates =
        reuseOf(layer).attention == Reuse::Attention::Propagated &&
        !sequence.exact.all && !sequence.exact.rows.empty();
  }
  Exact result;
  result.queries = rowSet(queryMemory, [](const Sequence &s) -> const Picked & {
    return queryRows(s);
  });
  result.keys = rowSet(
      keyMemory, [](const Sequence &s) -> const Picked & { return s.exact; });
  counted.queryRows += sizeOf(result.queries, batch);
  counted.keyRows += sizeOf(result.keys, batch);
  return result;
}

Result<LayerExecutor::Cached> ProgramExecutor::projected(int64_t layer) {
  if (Status status = enter(layer, Stage::Projected); !status)
    return status.takeError();
  if (reuseOf(layer).attention != Reuse::Attention::Output) {
    RowSet rows =
        rowSet(projectMemory,
               [](const Sequence &s) -> const Picked & { return s.out; });
    counted.projectedRows += sizeOf(rows, batch);
    return rows.all ? Cached{} : cachedIn(ends, 0, rows);
  }
  RowSet rows = rowSet(projectMemory, [](const Sequence &s) -> const Picked & {
    return s.exact;
  });
  counted.projectedRows += sizeOf(rows, batch);
  counted.cacheBytesWritten += sizeOf(rows, batch) * outputStore.rowBytes();
  counted.cacheBytesRead +=
      (batch.rows() - sizeOf(rows, batch)) * outputStore.rowBytes();
  return cachedIn(outputStore, layer, rows);
}

Result<LayerExecutor::Cached> ProgramExecutor::ffn(int64_t layer) {
  if (Status status = enter(layer, Stage::Ffn); !status)
    return status.takeError();
  Cached result;
  result.computed = rowSet(ffnMemory, [&](const Sequence &s) -> const Picked & {
    return ffnRows(layer, s);
  });
  int64_t computed = sizeOf(result.computed, batch);
  counted.ffnRows += computed;
  int64_t salient = -1;
  for (int64_t s : computing)
    if (const Sequence &sequence = *sequences[s]; bound(layer, sequence))
      salient = std::max<int64_t>(salient, 0) +
                sequence.salient.count(sequence.rows.rows());
  // Of all layers, where one of them compares.
  const bool compares = std::ranges::any_of(computing, [&](int64_t s) {
    return std::ranges::any_of(sequences[s]->rows.partsOfStep(),
                               [](const SequenceRows::Part &part) {
                                 return part.pass->comparesContexts();
                               });
  });
  if (compares)
    counted.salientRows.push_back(std::max<int64_t>(salient, 0));
  if (!reuseOf(layer).ffn && !result.computed.all)
    result = cachedIn(ends, 0, result.computed);
  if (reuseOf(layer).ffn) {
    result = cachedIn(ffnStore, layer, result.computed);
    counted.cacheBytesWritten += computed * ffnStore.rowBytes();
    counted.cacheBytesRead += (batch.rows() - computed) * ffnStore.rowBytes();
  }
  if (tracing)
    traceLayer(layer);
  underWay = layer < layers - 1;
  if (layer == layers - 1)
    for (const std::unique_ptr<Sequence> &sequence : sequences)
      sequence->rows.finishStep();
  return result;
}

void ProgramExecutor::traceLayer(int64_t layer) {
  for (int64_t s : computing) {
    Sequence &sequence = *sequences[s];
    auto positionsOf = [&](const Picked &picked) {
      const int32_t *positions = batch.positions.data() + batch.offsets[s];
      if (picked.all)
        return std::vector<int32_t>(positions,
                                    positions + sequence.rows.rows());
      std::vector<int32_t> result;
      for (int32_t row : picked.rows)
        result.push_back(positions[row]);
      return result;
    };
    traced.push_back({.layer = layer,
                      .sequence = s,
                      .queryRows = positionsOf(queryRows(sequence)),
                      .exactRows = positionsOf(sequence.exact),
                      .keyRows = positionsOf(sequence.exact),
                      .valueRows = positionsOf(valueRows(layer, sequence)),
                      .ffnRows = positionsOf(ffnRows(layer, sequence)),
                      .refreshed = refreshedNow[s],
                      .pairs = sequence.pairs,
                      .unreadKeys = sequence.rows.n() -
                                    sequence.rows.visibleRows() -
                                    cachedKeys(sequence)});
  }
}
