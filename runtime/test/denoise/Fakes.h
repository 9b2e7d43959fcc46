//===- Fakes.h - A model and an executor made of arithmetic -----*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_TEST_DENOISE_FAKES_H
#define HEDDLE_RUNTIME_TEST_DENOISE_FAKES_H

#include "runtime/base/Parallel.h"
#include "runtime/denoise/Denoise.h"
#include "runtime/denoise/ModelEngine.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <utility>

namespace heddle::rt::test {

/// A fixed function of a whole sequence, a position in it and a vocabulary
/// entry, between -4 and 4: like a model's logits, every token of the sequence
/// counts, those of other sequences do not.
inline float fakeLogit(std::span<const int32_t> sequence, int64_t position,
                       int64_t entry) {
  uint64_t hash = 0x9E3779B97F4A7C15ull * (position + 1);
  auto mix = [&](uint64_t value) {
    hash = (hash ^ value) * 0xBF58476D1CE4E5B9ull;
    hash ^= hash >> 29;
  };
  for (int32_t token : sequence)
    mix(static_cast<uint64_t>(token) + 17);
  mix(static_cast<uint64_t>(entry) + 1000003);
  return static_cast<float>(hash >> 40) / static_cast<float>(1 << 21) - 4.0f;
}

class FakeModel : public Model {
public:
  static constexpr int32_t mask = 40;

  FakeModel() {
    info.architecture = "fake";
    info.vocabSize = 41;
    info.maxSequenceLength = 128;
    info.maskToken = mask;
    info.eosToken = 3;
  }

  const ModelConfig &config() const override { return info; }
  DType dtype() const override { return DType::F32; }
  int64_t weightBytes() const override { return 0; }
  int64_t activationBytes(int64_t rows) const override { return rows; }

  Status forward(const PackedBatch &batch, std::span<const int32_t> tokens,
                 LayerExecutor &, const LogitRequest &request) override {
    ++forwards;
    if (forwards == failAt)
      return Error("the fake failed");
    batches.push_back(batch);
    packed.emplace_back(tokens.begin(), tokens.end());
    requested.push_back(request.rows);
    units.push_back(request.unit);
    // Tiles of units, in parallel, last tile first.
    int64_t units = static_cast<int64_t>(request.rows.size()) / request.unit;
    int64_t tiles = (units + tileUnits - 1) / tileUnits;
    parallelFor(tiles, [&](int64_t task, int) {
      int64_t first = (tiles - 1 - task) * tileUnits * request.unit;
      int64_t count =
          std::min(tileUnits * request.unit,
                   static_cast<int64_t>(request.rows.size()) - first);
      std::vector<float> logits;
      for (int64_t r = 0; r < count; ++r) {
        int64_t row = request.rows[first + r];
        int64_t s =
            std::upper_bound(batch.offsets.begin(), batch.offsets.end(), row) -
            batch.offsets.begin() - 1;
        auto sequence = tokens.subspan(batch.offsets[s], batch.length(s));
        for (int64_t v = 0; v < info.vocabSize; ++v)
          logits.push_back(logit(sequence, batch.positions[row], v));
      }
      request.consume(first, count, logits.data());
    });
    return Status::success();
  }

  float logit(std::span<const int32_t> sequence, int64_t position,
              int64_t entry) const {
    if (forwards == brokenAt && entry == 7)
      return std::numeric_limits<float>::quiet_NaN();
    if (entry == mask)
      return drawsMasks ? fakeLogit(sequence, position, entry) + 4.0f : -100.0f;
    return told * fakeLogit(sequence, position, entry) +
           (1 - told) * fakeLogit({}, position, entry);
  }

  ModelConfig info;
  int64_t tileUnits = 3;
  bool drawsMasks = false; ///< the mask token often wins
  float told = 1; ///< how much of a logit the tokens say, and not the position
  int64_t failAt = -1, brokenAt = -1;

  int64_t forwards = 0;
  std::vector<PackedBatch> batches;
  std::vector<std::vector<int32_t>> packed;
  std::vector<std::vector<int64_t>> requested;
  std::vector<int64_t> units;
};

/// Computes every row at every step, unless `rows` says otherwise.
class FakeExecutor : public ScheduleExecutor {
public:
  Status attend(int64_t, const PackedBatch &,
                const AttentionTensors &) override {
    return Status::success();
  }
  const bundle::Manifest &manifest() const override { return program; }
  Status beginRun(std::vector<SequenceShape> sequences, int64_t steps,
                  int64_t stepsPerBlock) override {
    shapes = std::move(sequences);
    totalSteps = steps;
    blockSteps = stepsPerBlock;
    return refuse ? Status(Error("the fake refused")) : Status::success();
  }
  int64_t runBytes(const std::vector<SequenceShape> &) const override {
    return bytes;
  }
  Result<const PackedBatch *>
  beginStep(std::span<const SequenceState> states) override {
    batch = {{0}, {}};
    places.emplace_back();
    for (size_t s = 0; s < states.size(); ++s) {
      places.back().push_back(states[s].place);
      for (int64_t i = 0; i < shapes[s].length && !states[s].done; ++i)
        if (!rows || rows(states[s], i))
          batch.positions.push_back(static_cast<int32_t>(i));
      batch.offsets.push_back(static_cast<int64_t>(batch.positions.size()));
    }
    return &batch;
  }
  bool predictsAlone(int64_t) const override { return alone; }
  bool inCommitSet(int64_t, int64_t position) const override {
    return !commits || commits(position);
  }
  StepCounters counters() const override {
    StepCounters counters;
    counters.pairs = 10 * static_cast<int64_t>(places.size());
    counters.densePairs = 1000;
    return counters;
  }
  void setTracing(bool) override {}
  std::span<const LayerTrace> trace() const override { return {}; }
  std::span<const int32_t> visible(int64_t) const override { return {}; }
  Result<std::vector<SelectionView>> selections(int64_t,
                                                int64_t) const override {
    return std::vector<SelectionView>();
  }

  bundle::Manifest program;
  std::function<bool(const SequenceState &, int64_t position)> rows;
  std::function<bool(int64_t position)> commits;
  int64_t bytes = 0;
  bool refuse = false;
  bool alone = false;
  std::vector<SequenceShape> shapes;
  int64_t totalSteps = 0, blockSteps = 0;
  std::vector<std::vector<bundle::StepPlace>> places; ///< [step][sequence]
  PackedBatch batch;
};

/// The loop over a host engine.
inline Result<Generation>
generate(Model &model, ScheduleExecutor &executor,
         std::span<const std::vector<int32_t>> prompts,
         const GenerateOptions &options, const StepObserver &observer) {
  return rt::generate(*makeModelEngine(model, executor), prompts, options,
                      observer);
}

} // namespace heddle::rt::test

#endif // HEDDLE_RUNTIME_TEST_DENOISE_FAKES_H
