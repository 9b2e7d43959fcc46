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
RowSet
ProgramExecutor::rowSet(std::vector<int32_t> &memory,
                        const std::function<const Picked &(Sequence &)> &of) {
  bool all = true;
  for (const std::unique_ptr<Sequence> &sequence : sequences)
    all &= of(*sequence).all || sequence->rows.rows() == 0;
  memory.clear();
  if (all)
    return {};
  for (size_t s = 0; s < sequences.size(); ++s) {
    if (sequences[s]->rows.rows() == 0)
      continue; // nothing of an earlier step counts
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
const ProgramExecutor::Picked &
ProgramExecutor::valueRows(Sequence &sequence) const {
  static const Picked all;
  return sequence.rows.pass().comparesValues() ? all : sequence.exact;
}

/// Rows that are corrected need their probabilities.
const ProgramExecutor::Picked &
ProgramExecutor::queryRows(Sequence &sequence) const {
  static const Picked all;
  return sequence.propagates ? all : sequence.exact;
}

const ProgramExecutor::Picked &
ProgramExecutor::ffnRows(Sequence &sequence) const {
  static const Picked all;
  if (!schedule.reuse.ffn)
    return all;
  return sequence.rows.pass().comparesContexts() ? sequence.salient
                                                 : sequence.exact;
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

Result<RowSet> ProgramExecutor::values(int64_t layer) {
  if (Status status = enter(layer, Stage::Values); !status)
    return status.takeError();
  for (const std::unique_ptr<Sequence> &each : sequences) {
    Sequence &sequence = *each;
    sequence.exact = Picked();
    sequence.propagates = false;
    if (sequence.rows.rows() == 0)
      sequence.salient = Picked();
    if (sequence.rows.rows() == 0)
      continue;
    const Pass &pass = sequence.rows.pass();
    if (pass.exact == Pass::Exact::Salient && layer == 0)
      sequence.exact = {false, sequence.rows.justCommitted()};
    else if (pass.exact == Pass::Exact::Salient)
      sequence.exact = sequence.salient;
    else if (pass.exact == Pass::Exact::LeastSimilar &&
             !pass.comparesValues() && layer > 0)
      pickAround(sequence, {});
    if (sequence.exact.count(sequence.rows.rows()) == sequence.rows.rows())
      sequence.exact = Picked();
  }
  RowSet rows = rowSet(
      valueMemory, [&](Sequence &s) -> const Picked & { return valueRows(s); });
  counted.valueRows += sizeOf(rows, batch);
  return rows;
}

/// In the first layer V depends on the token alone: rows that have not changed
/// are all equally similar, and rounding would choose among them. So all rows
/// are exact there. Source: dLLM-Cache (released code), which refreshes the
/// first layer at every step.
bool ProgramExecutor::choosesByValues(int64_t layer) const {
  return layer > 0 &&
         std::any_of(sequences.begin(), sequences.end(), [](const auto &each) {
           return each->rows.rows() > 0 && each->rows.pass().comparesValues();
         });
}

/// Finds the rows whose V is least like the cached one.
/// Source: dLLM-Cache (released code), adaptive partial updating.
Status ProgramExecutor::pickLeastSimilar(int64_t layer,
                                         const AttentionTensors &tensors) {
  auto chooses = [](const Sequence &sequence) {
    return sequence.rows.rows() > 0 && sequence.rows.pass().comparesValues();
  };
  Moves compared; // of all sequences, one after the other
  for (size_t s = 0; s < sequences.size(); ++s)
    if (chooses(*sequences[s]))
      for (int32_t row : sequences[s]->rows.amongRows())
        compared.add(batch.offsets[s] + row, keptRow[batch.offsets[s] + row]);
  auto count = static_cast<int64_t>(compared.from.size());
  if (Status status = memory->compare(
          {.now = {tensors.value, tensors.valueStride, compared.from},
           .kept = tableOf(valueStore, layer, compared.to),
           .output = {}},
          kvWidth(), 0);
      !status)
    return status;
  Result<std::span<const float>> similarity = memory->similarities(count);
  if (!similarity)
    return similarity.takeError();
  size_t first = 0;
  for (const std::unique_ptr<Sequence> &sequence : sequences)
    if (chooses(*sequence)) {
      size_t among = sequence->rows.amongRows().size();
      pickLeastSimilarOf(*sequence, similarity->subspan(first, among));
      first += among;
    }
  return Status::success();
}

/// `similarity`: of the rows among which the pass chooses.
void ProgramExecutor::pickLeastSimilarOf(
    Sequence &sequence, std::span<const float> similarity) const {
  const Pass &pass = sequence.rows.pass();
  const std::vector<int32_t> &among = sequence.rows.amongRows();
  auto count =
      static_cast<int64_t>(static_cast<__int128>(pass.keep.num) *
                           static_cast<int64_t>(among.size()) / pass.keep.den);
  count = std::min(count, static_cast<int64_t>(among.size()));
  pickAround(sequence, lowest(similarity, count));
  if (sequence.exact.count(sequence.rows.rows()) == sequence.rows.rows())
    sequence.exact = Picked();
}

/// Of the rows among which the pass chooses those of `chosen`, which are
/// indices into them; and all others.
void ProgramExecutor::pickAround(Sequence &sequence,
                                 std::span<const int32_t> chosen) {
  const std::vector<int32_t> &among = sequence.rows.amongRows();
  std::vector<bool> exact(static_cast<size_t>(sequence.rows.rows()), true);
  for (int32_t row : among)
    exact[row] = false;
  for (int32_t i : chosen)
    exact[among[i]] = true;
  sequence.exact = {false, {}};
  for (size_t row = 0; row < exact.size(); ++row)
    if (exact[row])
      sequence.exact.rows.push_back(static_cast<int32_t>(row));
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
  for (const std::unique_ptr<Sequence> &each : sequences) {
    Sequence &sequence = *each;
    if (sequence.rows.rows() == 0)
      continue;
    // Without exact rows nothing has changed that could be propagated.
    sequence.propagates =
        schedule.reuse.attention == Reuse::Attention::Propagated &&
        !sequence.exact.all && !sequence.exact.rows.empty();
  }
  Exact result;
  result.queries = rowSet(
      queryMemory, [&](Sequence &s) -> const Picked & { return queryRows(s); });
  result.keys =
      rowSet(keyMemory, [](Sequence &s) -> const Picked & { return s.exact; });
  counted.queryRows += sizeOf(result.queries, batch);
  counted.keyRows += sizeOf(result.keys, batch);
  return result;
}

Result<LayerExecutor::Cached> ProgramExecutor::projected(int64_t layer) {
  if (Status status = enter(layer, Stage::Projected); !status)
    return status.takeError();
  if (schedule.reuse.attention != Reuse::Attention::Output) {
    counted.projectedRows += batch.rows();
    return Cached{};
  }
  RowSet rows = rowSet(projectMemory,
                       [](Sequence &s) -> const Picked & { return s.exact; });
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
  result.computed = rowSet(
      ffnMemory, [&](Sequence &s) -> const Picked & { return ffnRows(s); });
  int64_t computed = sizeOf(result.computed, batch);
  counted.ffnRows += computed;
  int64_t salient = -1;
  for (const std::unique_ptr<Sequence> &sequence : sequences)
    if (int64_t rows = sequence->rows.rows();
        rows > 0 && sequence->rows.pass().comparesContexts())
      salient = std::max<int64_t>(salient, 0) + sequence->salient.count(rows);
  if (salient >= 0)
    counted.salientRows.push_back(salient);
  if (schedule.reuse.ffn) {
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
  for (size_t s = 0; s < sequences.size(); ++s) {
    Sequence &sequence = *sequences[s];
    if (sequence.rows.rows() == 0)
      continue;
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
                      .sequence = static_cast<int64_t>(s),
                      .queryRows = positionsOf(queryRows(sequence)),
                      .exactRows = positionsOf(sequence.exact),
                      .keyRows = positionsOf(sequence.exact),
                      .valueRows = positionsOf(valueRows(sequence)),
                      .ffnRows = positionsOf(ffnRows(sequence)),
                      .refreshed = refreshedNow[s],
                      .pairs = sequence.pairs,
                      .unreadKeys = sequence.rows.n() - sequence.rows.rows() -
                                    cachedKeys(sequence)});
  }
}
