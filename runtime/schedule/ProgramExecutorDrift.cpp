//===- ProgramExecutorDrift.cpp - How far a run has gone since a refresh --===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The rows of V that a step computes in the last layer, of the response, are
// compared with those of the reference, the step after the latest one of the
// cadence by drift: that one may attend densely, and so differ from what
// follows for another reason. Their mean cosine says whether the next step is
// one. The work lies in the order of the step's other work, and what it found
// is fetched when the next step begins, so that a device never waits within a
// step.
//
// The last layer, since what is cached changes the more the deeper a layer is
// (Source: Elastic-Cache, abstract); V, since it is computed whatever the pairs
// are, and stands for its row (Source: dLLM-Cache, whose V-verify compares it).
//
//===----------------------------------------------------------------------===//

#include "runtime/schedule/ProgramExecutor.h"

using namespace heddle;
using namespace heddle::rt;

/// Takes what the step before has measured.
Status ProgramExecutor::readDrift() {
  if (!needsDrift)
    return Status::success();
  int64_t compared = 0;
  for (const std::unique_ptr<Sequence> &sequence : sequences)
    compared += sequence->compared;
  std::span<const float> found;
  if (compared > 0) {
    Result<std::span<const float>> similarity = memory->similarities(compared);
    if (!similarity)
      return similarity.takeError();
    found = *similarity;
  }
  std::vector<std::optional<double>> similarities;
  for (const std::unique_ptr<Sequence> &each : sequences) {
    Sequence &sequence = *each;
    const int64_t driftsAs = sequence.rows.shape().driftsAs;
    std::optional<double> similarity;
    if (driftsAs >= 0)
      similarity = similarities[static_cast<size_t>(driftsAs)];
    if (sequence.compared > 0) {
      // In fp64, so that rows of many bits of 1 have a mean of 1.
      double sum = 0;
      for (float one : found.first(static_cast<size_t>(sequence.compared)))
        sum += static_cast<double>(one);
      similarity = sum / static_cast<double>(sequence.compared);
      found = found.subspan(static_cast<size_t>(sequence.compared));
    }
    sequence.compared = 0;
    if (sequence.rows.inStep())
      sequence.drift.finish(sequence.rows.place(), similarity);
    similarities.push_back(similarity);
    if (driftsAs < 0)
      counted.similarity.push_back(similarity);
  }
  return Status::success();
}

/// Compares the rows of the last layer, or makes them what later steps are
/// compared with. `tensors`: that layer's.
Status ProgramExecutor::measureDrift(const AttentionTensors &tensors) {
  Moves kept, compared; // rows of the batch to rows of the reference
  for (size_t s = 0; s < sequences.size(); ++s) {
    Sequence &sequence = *sequences[s];
    const SequenceRows &rows = sequence.rows;
    if (!rows.inStep() || rows.shape().driftsAs >= 0)
      continue;
    const bool isReference = sequence.drift.isReference(rows.place());
    if (isReference || sequence.drift.renews(rows.place()))
      sequence.referenced.assign(sequence.referenced.size(), 0);
    const Picked &valued = valueRows(layers - 1, sequence);
    for (int64_t i = 0; i < valued.count(rows.rows()); ++i) {
      const int64_t row = batch.offsets[s] + (valued.all ? i : valued.rows[i]);
      const int64_t place = batch.positions[row] - rows.shape().promptLength;
      if (place < 0)
        continue;
      if (isReference) {
        sequence.referenced[place] = 1;
        kept.add(row, referenceStarts[s] + place);
      } else if (sequence.referenced[place]) { // none at a refresh
        compared.add(row, referenceStarts[s] + place);
        ++sequence.compared;
      }
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
                         kvWidth(), 0);
}
