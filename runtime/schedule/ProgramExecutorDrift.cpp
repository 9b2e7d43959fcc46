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
// Or what the layer's rows attend to (Source: Elastic-Cache). The weights of a
// fused kernel are seen through what it multiplies them with: where V says of
// each key its class alone, 1 at one element of a head and 0 at the others,
// attention's output is each head's sums of weights by class. So they are had
// of every kernel, set of pairs and cache, in memory that is linear in the
// sequence, and are compared as V is.
//
// What is measured where, when and by which kernel the manifest says
// (Phase::measures).
//
// Worked example: heads of 4 elements, so classes 0 to 3, of the positions
// modulo 4. A row with the weights 0.1, 0.2, 0.3, 0 and 0.4 for positions 0, 1,
// 2, 3 and 4 has the output 0.5, 0.2, 0.3, 0.
//
//===----------------------------------------------------------------------===//

#include "runtime/schedule/ProgramExecutor.h"
#include "runtime/tensor/Convert.h"

#include <utility>

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
    if (Status status =
            memory->similarities(starts.back(), compared).moveTo(found);
        !status)
      return status;
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

/// What this step measures of the sequence in a layer; null: nothing. Of a
/// guided one the conditional half is measured.
const bundle::Phase::Measure *
ProgramExecutor::measureOf(int64_t layer, const Sequence &sequence) const {
  if (!sequence.rows.inStep() || sequence.rows.shape().driftsAs >= 0)
    return nullptr;
  for (const bundle::Phase::Measure &each : phaseOf(layer, sequence).measures)
    if (each.cadence.layer + (each.cadence.layer < 0 ? layers : 0) == layer)
      return bundle::includes(each.cadence, sequence.rows.place()) ? nullptr
                                                                   : &each;
  return nullptr;
}

Status ProgramExecutor::makeClasses() {
  const int64_t width = kvWidth();
  std::vector<float> ones(static_cast<size_t>(headDim * width));
  for (int64_t c = 0; c < headDim; ++c)
    for (int64_t e = c; e < width; e += headDim)
      ones[static_cast<size_t>(c * width + e)] = 1;
  std::vector<std::byte> rows(ones.size() *
                              static_cast<size_t>(byteSize(dtype)));
  convert(DType::F32, ones.data(), dtype, rows.data(), std::ssize(ones));
  return memory->put(classes.get(), rows.data(), std::ssize(rows));
}

/// Gives each visible key its class: its position modulo the head dim, so that
/// it is the same whatever else is visible, and of keys that stand near each
/// other each has its own.
Status ProgramExecutor::classify(int64_t s) {
  Sequence &sequence = *sequences[static_cast<size_t>(s)];
  if (std::exchange(sequence.classed, true))
    return Status::success();
  Moves keys; // classes to places
  for (int64_t place = 0; place < sequence.rows.n(); ++place)
    keys.add(sequence.rows.positions()[static_cast<size_t>(place)] % headDim,
             starts[static_cast<size_t>(s)] + place);
  return memory->copy({classes.get(), kvWidth(), keys.from},
                      {keyClasses.get(), kvWidth(), keys.to}, kvWidth());
}

/// Attention of the rows that the layer computes exactly once more, over the
/// keys' classes: row k of a sequence comes to row starts + k of `scoringO`.
Status ProgramExecutor::weigh(int64_t layer) {
  std::vector<Launch> weighed;
  for (int64_t s : computing) {
    const Sequence &sequence = *sequences[s];
    const bundle::Phase::Measure *measure = measureOf(layer, sequence);
    if (!measure || measure->kernel < 0 || sequence.exactBlock < 0)
      continue;
    if (Status status = classify(s); !status)
      return status;
    const auto kernel = static_cast<size_t>(measure->kernel);
    const auto attended =
        static_cast<size_t>(phaseOf(layer, sequence).attention);
    abi::AttentionArgs args =
        launchOf(launches, attended).blocks[sequence.exactBlock];
    const int64_t size = byteSize(dtype);
    args.value = keyClasses.get() + starts[s] * kvWidth() * size;
    args.valueStride = kvWidth();
    args.output = scoringO.get() + starts[s] * attentionWidth() * size;
    args.outputStride = attentionWidth();
    Result<int64_t> pairs = pairsOf(layer, s, kernel, args);
    if (!pairs)
      return pairs.takeError();
    counted.lsePairs += *pairs;
    launchOf(weighed, kernel).blocks.push_back(args);
  }
  for (Launch &launch : weighed)
    if (Status status = runner->attend(launch.kernel, launch.blocks); !status)
      return status;
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
  if (weighs)
    if (Status status = weigh(layer); !status)
      return status;
  // Rows of the batch, or of what was weighed, to rows of the reference.
  Moves kept, compared;
  for (size_t s = 0; s < sequences.size(); ++s) {
    Sequence &sequence = *sequences[s];
    const SequenceRows &rows = sequence.rows;
    Sequence::Drifting &drifting = sequence.drifting[i];
    if (!measureOf(layer, sequence)) {
      drifting.referenced.assign(drifting.referenced.size(), 0);
      continue;
    }
    const Picked &had = weighs ? sequence.exact : valueRows(layer, sequence);
    for (int64_t k = 0; k < had.count(rows.rows()); ++k) {
      const int64_t row = batch.offsets[s] + (had.all ? k : had.rows[k]);
      const int64_t place = batch.positions[row] - rows.shape().promptLength;
      if (place < 0)
        continue;
      drifting.compared += drifting.referenced[place];
      (drifting.referenced[place] ? compared : kept)
          .add(weighs ? starts[s] + k : row,
               ofLayer + referenceStarts[s] + place);
      drifting.referenced[place] = 1;
    }
  }
  auto hadAt = [&](std::span<const int32_t> index) {
    return weighs ? RowTable{scoringO.get(), attentionWidth(), index}
                  : RowTable{tensors.value, tensors.valueStride, index};
  };
  auto referenceAt = [&](std::span<const int32_t> index) {
    return RowTable{reference.get(), driftWidth(), index};
  };
  if (Status status =
          memory->copy(hadAt(kept.from), referenceAt(kept.to), driftWidth());
      !status)
    return status;
  return memory->compare({.now = hadAt(compared.from),
                          .kept = referenceAt(compared.to),
                          .output = {}},
                         driftWidth(), starts.back() + before);
}
