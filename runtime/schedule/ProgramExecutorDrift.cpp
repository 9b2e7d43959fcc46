//===- ProgramExecutorDrift.cpp - How far a run has gone since a refresh --===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The rows of V that a step computes in a layer, of the response, are compared
// with what they were at the first step after the latest one of the layer's
// cadence by drift that computed them: that one itself may attend densely, and
// so differ from what follows for another reason. Their mean cosine says
// whether the next step is one. The work lies in the order of the step's other
// work, and what it found is fetched when the next step begins, so that a
// device never waits within a step.
//
// The last layer if none is named, since what is cached changes the more the
// deeper a layer is (Source: Elastic-Cache, abstract); V, since it is computed
// whatever the pairs are, and stands for its row (Source: dLLM-Cache, whose
// V-verify compares it).
//
//===----------------------------------------------------------------------===//

#include "runtime/schedule/ProgramExecutor.h"

using namespace heddle;
using namespace heddle::rt;

/// Takes what the step before has measured.
Status ProgramExecutor::readDrift() {
  if (driftLayers.empty())
    return Status::success();
  int64_t compared = 0;
  for (const std::unique_ptr<Sequence> &sequence : sequences)
    for (const Sequence::Drifting &each : sequence->drifting)
      compared += each.compared;
  std::span<const float> found;
  if (compared > 0) {
    Result<std::span<const float>> similarity =
        memory->similarities(starts.back(), compared);
    if (!similarity)
      return similarity.takeError();
    found = *similarity;
  }
  std::vector<std::vector<std::optional<double>>> similarities(
      sequences.size(), std::vector<std::optional<double>>(driftLayers.size()));
  for (size_t i = 0; i < driftLayers.size(); ++i)
    for (size_t s = 0; s < sequences.size(); ++s) {
      const auto count =
          static_cast<size_t>(sequences[s]->drifting[i].compared);
      sequences[s]->drifting[i].compared = 0;
      if (count == 0)
        continue;
      // In fp64, so that rows of many bits of 1 have a mean of 1.
      double sum = 0;
      for (float one : found.first(count))
        sum += static_cast<double>(one);
      similarities[s][i] = sum / static_cast<double>(count);
      found = found.subspan(count);
    }
  for (size_t s = 0; s < sequences.size(); ++s) {
    Sequence &sequence = *sequences[s];
    const int64_t driftsAs = sequence.rows.shape().driftsAs;
    if (driftsAs >= 0)
      similarities[s] = similarities[static_cast<size_t>(driftsAs)];
    else
      counted.similarity.insert(counted.similarity.end(),
                                similarities[s].begin(), similarities[s].end());
    if (sequence.rows.inStep())
      sequence.drift.finish(sequence.rows.place(), similarities[s]);
  }
  return Status::success();
}

/// Compares the rows of a layer, or makes them what later steps are compared
/// with.
Status ProgramExecutor::measureDrift(int64_t layer,
                                     const AttentionTensors &tensors) {
  const auto at = std::find(driftLayers.begin(), driftLayers.end(), layer);
  if (at == driftLayers.end())
    return Status::success();
  const auto i = static_cast<size_t>(at - driftLayers.begin());
  const int64_t ofLayer = static_cast<int64_t>(i) * referenceStarts.back();
  int64_t before = 0; // rows that layers before have compared
  for (const std::unique_ptr<Sequence> &sequence : sequences)
    for (size_t earlier = 0; earlier < i; ++earlier)
      before += sequence->drifting[earlier].compared;
  Moves kept, compared; // rows of the batch to rows of the reference
  for (size_t s = 0; s < sequences.size(); ++s) {
    Sequence &sequence = *sequences[s];
    const SequenceRows &rows = sequence.rows;
    if (!rows.inStep() || rows.shape().driftsAs >= 0)
      continue;
    Sequence::Drifting &drifting = sequence.drifting[i];
    if (sequence.drift.renews(i, rows.place())) {
      drifting.referenced.assign(drifting.referenced.size(), 0);
      continue;
    }
    const Picked &valued = valueRows(layer, sequence);
    for (int64_t k = 0; k < valued.count(rows.rows()); ++k) {
      const int64_t row = batch.offsets[s] + (valued.all ? k : valued.rows[k]);
      const int64_t place = batch.positions[row] - rows.shape().promptLength;
      if (place < 0)
        continue;
      drifting.compared += drifting.referenced[place];
      (drifting.referenced[place] ? compared : kept)
          .add(row, ofLayer + referenceStarts[s] + place);
      drifting.referenced[place] = 1;
    }
  }
  auto valuesAt = [&](std::span<const int32_t> index) {
    return RowTable{tensors.value, tensors.valueStride, index};
  };
  auto referenceAt = [&](std::span<const int32_t> index) {
    return RowTable{reference.get(), kvWidth(), index};
  };
  if (Status status =
          memory->copy(valuesAt(kept.from), referenceAt(kept.to), kvWidth());
      !status)
    return status;
  return memory->compare({.now = valuesAt(compared.from),
                          .kept = referenceAt(compared.to),
                          .output = {}},
                         kvWidth(), starts.back() + before);
}
