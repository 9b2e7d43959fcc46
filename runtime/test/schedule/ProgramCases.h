//===- ProgramCases.h - Runs of the toy model under passes ------*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_TEST_SCHEDULE_PROGRAMCASES_H
#define HEDDLE_RUNTIME_TEST_SCHEDULE_PROGRAMCASES_H

#include "bundle/program/Program.h"
#include "runtime/reference/ReferenceExecutor.h"
#include "runtime/schedule/Executor.h"
#include "runtime/test/schedule/HandBundle.h"
#include "runtime/test/schedule/Tensors.h"
#include "runtime/test/schedule/Toy.h"

#include <gtest/gtest.h>

namespace heddle::test {

using bundle::Cadence;
using bundle::Pass;
using bundle::Positions;
using bundle::Reuse;
using bundle::When;
using rt::DType;
using rt::LayerTrace;
using rt::ModelConfig;
using rt::PackedBatch;
using rt::ReferenceExecutor;
using rt::ScheduleExecutor;
using rt::SequenceShape;
using rt::SequenceState;

inline Cadence every(int64_t period, int64_t from = 1) {
  Cadence cadence;
  cadence.kind = Cadence::Kind::Every;
  cadence.period = period;
  cadence.from = from;
  return cadence;
}

inline Cadence first(int64_t count) {
  Cadence cadence;
  cadence.kind = Cadence::Kind::First;
  cadence.count = count;
  return cadence;
}

inline Pass passOn(const Cadence &cadence, int64_t rows = -1) {
  Pass pass;
  pass.when.push_back({When::Kind::On, cadence});
  pass.rows = rows;
  return pass;
}

inline Positions set(Positions::Kind kind, int64_t count = 0) {
  Positions positions;
  positions.kind = kind;
  positions.count = count;
  return positions;
}

/// A token of a position, whenever it is committed; -1 stands for the mask.
inline int32_t tokenOf(int64_t position) {
  return static_cast<int32_t>(position * 7919 % 101);
}

/// A sequence that a random position of becomes a token after every step, which
/// predicts some others with random confidences.
struct Decoding {
  Decoding(SequenceShape of, uint32_t seed) : states({of}), random(seed) {
    for (int64_t i = 0; i < of.length; ++i)
      tokens.push_back(i < of.promptLength ? tokenOf(i) : -1);
  }
  void commitOne(int64_t step) {
    std::vector<int64_t> masked;
    for (size_t i = 0; i < tokens.size(); ++i)
      if (states.masked[0][i])
        masked.push_back(static_cast<int64_t>(i));
    if (masked.empty())
      return;
    for (int64_t each : masked)
      if (predictions() % 3)
        states.confidence[0][static_cast<size_t>(each)] =
            static_cast<double>(predictions() % 1000) / 1000;
    int64_t chosen = masked[random() % masked.size()];
    states.commit(0, chosen, step);
    tokens[chosen] = tokenOf(chosen);
  }
  ToyTruth::Set committedAt(int64_t step) const {
    ToyTruth::Set result;
    for (size_t i = 0; i < tokens.size(); ++i)
      if (step > 0 && !states.masked[0][i] && states.committedAt[0][i] == step)
        result.insert(static_cast<int32_t>(i));
    return result;
  }
  States states;
  std::mt19937 random, predictions{29};
  std::vector<int32_t> tokens;
};

inline ToyTruth::Set range(int64_t begin, int64_t end) {
  ToyTruth::Set result;
  for (int64_t i = begin; i < end; ++i)
    result.insert(static_cast<int32_t>(i));
  return result;
}

inline ToyTruth::Set setOf(const std::vector<int32_t> &list) {
  return {list.begin(), list.end()};
}

/// The tokens of the rows of a batch of one sequence.
inline std::vector<int32_t> tokensOf(const PackedBatch &batch,
                                     const std::vector<int32_t> &tokens) {
  std::vector<int32_t> result;
  for (int32_t position : batch.positions)
    result.push_back(tokens[position]);
  return result;
}

inline std::unique_ptr<ScheduleExecutor>
compiled(const bundle::Manifest &manifest, const ModelConfig &config) {
  auto result = ScheduleExecutor::create(
      manifest, makeHandBundle(handManifest()), config, DType::F32);
  EXPECT_TRUE(result) << result.error().text();
  return result ? std::move(*result) : nullptr;
}

/// The definitions: also executes what no bundle may hold.
inline std::unique_ptr<ScheduleExecutor>
defined(const bundle::Manifest &manifest, const ModelConfig &config) {
  auto result = ReferenceExecutor::create(manifest, config, DType::F32);
  EXPECT_TRUE(result) << result.error().text();
  return result ? std::move(*result) : nullptr;
}

/// Executes a run of one sequence with an executor and with ToyTruth, whose
/// steps `describe` gives; every hidden state and every layer's rows must
/// agree.
inline void expectTruth(
    const bundle::Manifest &manifest, const ToyModel &model,
    SequenceShape shape, int64_t steps,
    const std::function<ToyTruth::Step(int64_t, const Decoding &)> &describe,
    bool byDefinition = false) {
  auto executor = byDefinition ? defined(manifest, model.config)
                               : compiled(manifest, model.config);
  ASSERT_TRUE(executor);
  executor->setTracing(true);
  Status begun = executor->beginRun({shape}, steps, steps);
  ASSERT_TRUE(static_cast<bool>(begun)) << begun.error().text();
  std::vector<Reuse> reuses;
  for (int64_t layer = 0; layer < model.config.layers; ++layer)
    reuses.push_back(bundle::reuseOf(manifest, layer, model.config.layers));
  ToyTruth truth(model, reuses);
  Decoding decoding(shape, 11);
  for (int64_t step = 1; step <= steps; ++step) {
    SCOPED_TRACE("step " + std::to_string(step));
    auto batch = executor->beginStep(decoding.states.all(step, steps));
    ASSERT_TRUE(batch) << batch.error().text();
    ToyTruth::Step what = describe(step, decoding);
    ASSERT_EQ(setOf((*batch)->positions), what.active);
    auto found =
        model.forward(*executor, **batch, tokensOf(**batch, decoding.tokens));
    ASSERT_TRUE(found) << found.error().text();
    auto expected = truth.execute(what, decoding.tokens);
    const int64_t hidden = model.config.hidden;
    for (int64_t row = 0; row < (*batch)->rows(); ++row) {
      const int32_t position = (*batch)->positions[row];
      const bool predicts = expected.count(position) > 0;
      ASSERT_EQ(executor->predicts(0, row), predicts) << position;
      for (int64_t e = 0; e < hidden && predicts; ++e)
        ASSERT_NEAR((*found)[row * hidden + e], expected[position][e], 2e-4)
            << "position " << position << " element " << e;
    }
    int64_t exactRows = 0;
    if (what.active.empty())
      continue;
    ASSERT_EQ(executor->trace().size(), model.layers.size());
    for (const LayerTrace &layer : executor->trace()) {
      const ToyTruth::Rows &rows = truth.rows[layer.layer];
      EXPECT_EQ(setOf(layer.keyRows), rows.exact) << "layer " << layer.layer;
      const Pass::Exact exact =
          what.layers.empty() ? what.exact : what.layers[layer.layer].exact;
      if (reuses[layer.layer].ffn)
        EXPECT_EQ(setOf(layer.ffnRows), exact == Pass::Exact::Salient ||
                                                exact == Pass::Exact::SalientFfn
                                            ? rows.salient
                                            : rows.exact)
            << "layer " << layer.layer;
      exactRows += static_cast<int64_t>(rows.exact.size());
      if (reuses[layer.layer].attention == Reuse::Attention::Outside)
        EXPECT_EQ(layer.pairs,
                  model.config.queryHeads * std::ssize(what.inside) *
                          std::ssize(what.active) +
                      model.config.queryHeads * std::ssize(rows.refreshed) *
                          (std::ssize(what.visible) - std::ssize(what.inside)));
    }
    EXPECT_EQ(executor->counters().keyRows, exactRows);
    decoding.commitOne(step);
  }
}

/// Dense attention, and kernels that read no lists.
inline bundle::Manifest denseManifest() {
  bundle::Manifest manifest = handManifest();
  manifest.selections.clear();
  std::erase_if(manifest.kernels,
                [](const bundle::Kernel &kernel) { return kernel.hasLists(); });
  return manifest;
}

/// Decoded positions and the first `most` masked ones.
inline ToyTruth::Set decodedAndFirst(const Decoding &decoding, int64_t most) {
  ToyTruth::Set result;
  for (size_t i = 0; i < decoding.tokens.size(); ++i)
    if (!decoding.states.masked[0][i] || most-- > 0)
      result.insert(static_cast<int32_t>(i));
  return result;
}

inline ToyTruth::Set firstMasked(const Decoding &decoding, int64_t most) {
  ToyTruth::Set result;
  for (int32_t i : decodedAndFirst(decoding, most))
    if (decoding.states.masked[0][i])
      result.insert(i);
  return result;
}

/// Every fourth step keeps attention over the keys outside of a set; at the
/// others two masked rows attend to those inside.
inline bundle::Manifest partsManifest(std::vector<Positions> inside) {
  bundle::Manifest manifest = denseManifest();
  manifest.reuse.kv = true;
  manifest.reuse.attention = Reuse::Attention::Outside;
  manifest.reuse.inside = static_cast<int64_t>(inside.size()) - 1;
  manifest.reuse.cadence = every(4);
  manifest.positions = std::move(inside);
  manifest.positions.push_back(set(Positions::Kind::Undecoded, 2));
  manifest.passes = {passOn(every(4)), Pass()};
  manifest.passes[1].rows = static_cast<int64_t>(manifest.positions.size()) - 1;
  manifest.rules[0].phases[0].attention = kernelNamed(manifest, "dense_lse");
  return manifest;
}

/// From the first to the last of the first masked positions.
inline std::vector<Positions> hullOfMasked(int64_t count) {
  std::vector<Positions> sets = {set(Positions::Kind::Undecoded, count),
                                 set(Positions::Kind::Hull)};
  sets[1].of = {0};
  return sets;
}

} // namespace heddle::test

#endif // HEDDLE_RUNTIME_TEST_SCHEDULE_PROGRAMCASES_H
