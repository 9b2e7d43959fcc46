//===- ExecutorTest.cpp - Step programs on hand-written kernels -----------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/schedule/Executor.h"

#include "bundle/program/ProgramChecks.h"
#include "runtime/base/Parallel.h"
#include "runtime/reference/Reference.h"
#include "runtime/test/schedule/HandBundle.h"
#include "runtime/test/schedule/Tensors.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

using namespace heddle;
using namespace heddle::rt;
using bundle::Cadence;
using bundle::When;

namespace {

ModelConfig model(int64_t layers) {
  ModelConfig config;
  config.layers = layers;
  config.queryHeads = 4;
  config.kvHeads = 2;
  config.headDim = test::handHeadDim;
  return config;
}

bool contains(const std::string &text, const std::string &part) {
  return text.find(part) != std::string::npos;
}

/// Dense with a refresh of selection 0 on `cadence`, columns otherwise.
bundle::Manifest columnsOn(const Cadence &cadence) {
  bundle::Manifest manifest = test::handManifest();
  manifest.selections[0].cadence = cadence;
  bundle::Phase refreshing;
  refreshing.when = {When::Kind::On, cadence};
  refreshing.attention = test::kernelNamed(manifest, "dense_lse");
  refreshing.refreshes = {{0, test::kernelNamed(manifest, "select16")}};
  bundle::Phase otherwise;
  otherwise.attention = test::kernelNamed(manifest, "columns16");
  manifest.rules[0].phases = {refreshing, otherwise};
  return manifest;
}

std::unique_ptr<ScheduleExecutor> make(const bundle::Manifest &manifest,
                                       const ModelConfig &config) {
  Result<std::unique_ptr<ScheduleExecutor>> result = ScheduleExecutor::create(
      manifest, test::makeHandBundle(test::handManifest()), config, DType::F32);
  EXPECT_TRUE(result) << result.error().text();
  return result ? std::move(*result) : nullptr;
}

std::string createError(const bundle::Manifest &manifest,
                        const ModelConfig &config, DType dtype) {
  Result<std::unique_ptr<ScheduleExecutor>> result = ScheduleExecutor::create(
      manifest, test::makeHandBundle(test::handManifest()), config, dtype);
  EXPECT_FALSE(result);
  return result ? "" : result.error().text();
}

/// Runs all steps with the same tensors; returns the counters of each.
std::vector<StepCounters> execute(ScheduleExecutor &executor,
                                  const ModelConfig &config,
                                  const std::vector<int64_t> &lengths,
                                  int64_t steps) {
  std::mt19937 random(3);
  PackedBatch batch = test::packed(lengths);
  test::Tensors tensors(config, batch.rows(), 5, DType::F32, random);
  std::vector<std::byte> output;
  std::vector<StepCounters> result;
  test::States states(test::shapesOf(lengths));
  Status begun = executor.beginRun(states.shapes, steps, steps);
  EXPECT_TRUE(static_cast<bool>(begun)) << begun.error().text();
  for (int64_t step = 1; begun && step <= steps; ++step) {
    auto active = executor.beginStep(states.all(step, steps));
    EXPECT_TRUE(active && (*active)->offsets == batch.offsets &&
                (*active)->positions == batch.positions);
    for (int64_t layer = 0; layer < config.layers; ++layer) {
      Status status =
          test::executeLayer(executor, layer, batch, tensors.into(output));
      EXPECT_TRUE(static_cast<bool>(status)) << status.error().text();
    }
    result.push_back(executor.counters());
  }
  return result;
}

} // namespace

TEST(Executor, RefreshesAtThePublishedSteps) {
  // T = 64, window 0.3 T, 8 refreshes: PulseCol, equation 8.
  Cadence cadence;
  cadence.kind = Cadence::Kind::Uniform;
  cadence.fraction = {3, 10};
  cadence.count = 8;
  ModelConfig config = model(2);
  auto executor = make(columnsOn(cadence), config);
  ASSERT_TRUE(executor);
  std::vector<int64_t> refreshed;
  std::vector<StepCounters> steps = execute(*executor, config, {9, 20}, 64);
  constexpr int64_t heads = 4, layers = 2, dense = 9 * 9 + 20 * 20;
  constexpr int64_t kept = 9 * 4 + 20 * 10;
  for (size_t t = 0; t < steps.size(); ++t) {
    EXPECT_EQ(steps[t].densePairs, layers * heads * dense);
    EXPECT_EQ(steps[t].attendedKeys, layers * (9 + 20));
    EXPECT_EQ(steps[t].scoredKeys, steps[t].refreshes ? layers * (9 + 20) : 0);
    if (steps[t].refreshes == 0) {
      EXPECT_EQ(steps[t].pairs, layers * heads * kept);
      EXPECT_EQ(steps[t].scorePairs, 0);
      continue;
    }
    refreshed.push_back(static_cast<int64_t>(t) + 1);
    EXPECT_EQ(steps[t].refreshes, layers * 2);
    EXPECT_EQ(steps[t].pairs, layers * heads * dense);
    EXPECT_EQ(steps[t].scorePairs, layers * heads * dense);
  }
  EXPECT_EQ(refreshed, (std::vector<int64_t>{1, 3, 6, 8, 11, 13, 16, 19}));
}

/// Drift in `measured` layers of three, the last of which refreshes columns. In
/// these layers rows 0 and 1 of each response stand still, the others turn at
/// `speeds` [measured][sequences]; the prompt and other layers are random. How
/// many refreshes came before the period was over.
static int64_t
refreshesByDrift(const std::vector<int64_t> &measured,
                 const std::vector<std::vector<double>> &speeds) {
  Cadence cadence;
  cadence.kind = Cadence::Kind::Drift;
  cadence.fraction = {9, 10};
  cadence.period = 6;
  cadence.layer = measured.back() == 2 ? -1 : measured.back();
  const ModelConfig config = model(3);
  bundle::Manifest manifest = columnsOn(cadence);
  for (size_t i = 0; i + 1 < measured.size(); ++i) {
    cadence.layer = measured[i];
    bundle::Pass pass;
    pass.when = {{bundle::When::Kind::On, cadence}};
    manifest.passes.push_back(pass);
  }
  if (!manifest.passes.empty())
    manifest.passes.emplace_back();
  setMeasures(manifest);
  auto executor = make(manifest, config);
  EXPECT_TRUE(executor);
  if (!executor)
    return 0;
  executor->setTracing(true);
  const std::vector<SequenceShape> shapes = {{9, 4}, {20, 6}};
  constexpr int64_t steps = 24;
  // Of so many rows all but two turn.
  auto similarityOf = [&](size_t s, size_t i, int64_t since) {
    const auto rows =
        static_cast<double>(shapes[s].length - shapes[s].promptLength);
    return (2 + (rows - 2) * std::cos(speeds[i][s] * double(since - 1))) / rows;
  };
  const int64_t width = config.kvHeads * config.headDim;
  std::mt19937 random(3);
  const PackedBatch batch = test::packed({9, 20});
  test::Tensors tensors(config, batch.rows(), 5, DType::F32, random);
  std::normal_distribution<float> normal;
  int64_t early = 0;
  for (int run = 0; run < 2; ++run) { // nothing is left of the run before
    test::States states(shapes);
    EXPECT_TRUE(executor->beginRun(shapes, steps, steps));
    struct Watched {
      int64_t latest = 0;
      bool drifted = false;
    };
    std::vector<std::vector<Watched>> watched(
        shapes.size(), std::vector<Watched>(measured.size()));
    early = 0;
    for (int64_t step = 1; step <= steps; ++step) {
      EXPECT_TRUE(executor->beginStep(states.all(step, steps)));
      for (int64_t layer = 0; layer < config.layers; ++layer) {
        std::vector<float> values(static_cast<size_t>(batch.rows() * width));
        for (float &each : values)
          each = normal(random);
        for (size_t l = 0; l < measured.size(); ++l)
          for (size_t s = 0; s < shapes.size() && layer == measured[l]; ++s)
            for (int64_t i = shapes[s].promptLength; i < shapes[s].length;
                 ++i) {
              const bool turns = i - shapes[s].promptLength > 1;
              const double angle = turns ? speeds[l][s] * double(step) : 0;
              float *row = values.data() + (batch.offsets[s] + i) * width;
              std::fill_n(row, width, 0.0f);
              row[0] = static_cast<float>(3 * std::cos(angle));
              row[5] = static_cast<float>(3 * std::sin(angle));
            }
        std::vector<std::byte> output;
        AttentionTensors view = tensors.into(output);
        view.value = values.data();
        view.valueStride = width;
        EXPECT_TRUE(test::executeLayer(*executor, layer, batch, view));
      }
      const auto &similarity = executor->counters().similarity;
      EXPECT_EQ(similarity.size(), shapes.size() * measured.size());
      for (size_t s = 0; s < shapes.size(); ++s) {
        bool due = false;
        for (size_t i = 0; i < measured.size(); ++i) {
          Watched &of = watched[s][i];
          // What the step before found.
          const std::optional<double> found =
              similarity[s * measured.size() + i];
          if (step == 1 || step - 1 <= of.latest + 1)
            EXPECT_FALSE(found);
          else
            EXPECT_NEAR(found.value_or(9),
                        similarityOf(s, i, step - 1 - of.latest), 1e-6);
          early += of.drifted && !due && step - of.latest < 6;
          due |= of.latest == 0 || of.drifted || step - of.latest == 6;
          if (due)
            of.latest = step;
          // The step after a refresh is the reference.
          of.drifted = step > of.latest + 1 &&
                       similarityOf(s, i, step - of.latest) < 0.9;
        }
        for (const LayerTrace &trace : executor->trace())
          if (trace.sequence == static_cast<int64_t>(s))
            EXPECT_EQ(!trace.refreshed.empty(), due)
                << "step " << step << ", sequence " << s;
      }
    }
  }
  EXPECT_GE(executor->runBytes(shapes),
            int64_t(sizeof(float)) * width * (5 + 14) * std::ssize(measured));
  return early;
}

TEST(Executor, RefreshesWhenTheResponseHasDrifted) {
  EXPECT_EQ(refreshesByDrift({2}, {{0.3, 0.02}}), 5)
      << "of the first sequence, every fourth step";
  EXPECT_EQ(refreshesByDrift({1}, {{0.3, 0.02}}), 5);
}

// A step of one layer's cadence is one of those behind it, not of those before.
TEST(Executor, RefreshesWhenAnEarlierLayerHasDrifted) {
  EXPECT_EQ(refreshesByDrift({0, 2}, {{0.3, 0.02}, {0.02, 0.02}}), 5);
  EXPECT_EQ(refreshesByDrift({0, 1}, {{0.02, 0.02}, {0.3, 0.02}}), 4)
      << "of the second layer, between those of the first";
}

namespace {

/// Elements of rows that change from step to step, each sequence at a speed.
struct Changing {
  Changing(const PackedBatch &batch, int64_t width, std::mt19937 &random)
      : width(width) {
    std::normal_distribution<float> normal;
    for (std::vector<float> *each : {&still, &moving})
      for (int64_t i = 0; i < batch.rows() * width; ++i)
        each->push_back(normal(random));
  }
  /// Those of some rows of the batch.
  std::vector<float> at(std::span<const int64_t> rows, double time) const {
    std::vector<float> elements;
    for (int64_t row : rows)
      for (int64_t e = row * width; e < (row + 1) * width; ++e)
        elements.push_back(still[static_cast<size_t>(e)] +
                           static_cast<float>(time) *
                               moving[static_cast<size_t>(e)]);
    return elements;
  }
  int64_t width;
  std::vector<float> still, moving;
};

/// Of a row the weights of each head, added up over the keys that stand at the
/// same position modulo the head dim.
std::vector<double> weightsByClass(const ModelConfig &config,
                                   std::span<const float> query,
                                   const std::vector<double> &keys) {
  const int64_t dim = config.headDim, kvWidth = config.kvHeads * dim;
  const int64_t n = std::ssize(keys) / kvWidth;
  std::vector<double> sums(static_cast<size_t>(config.queryHeads * dim));
  for (int64_t h = 0; h < config.queryHeads; ++h) {
    const int64_t first = h * config.kvHeads / config.queryHeads * dim;
    std::vector<double> weights(static_cast<size_t>(n));
    double all = 0;
    for (int64_t j = 0; j < n; ++j) {
      double logit = 0;
      for (int64_t e = 0; e < dim; ++e)
        logit += double(query[size_t(h * dim + e)]) *
                 keys[size_t(j * kvWidth + first + e)];
      all += weights[size_t(j)] = std::exp(logit / std::sqrt(double(dim)));
    }
    for (int64_t j = 0; j < n; ++j)
      sums[size_t(h * dim + j % dim)] += weights[size_t(j)] / all;
  }
  return sums;
}

double cosineOf(const std::vector<double> &a, const std::vector<double> &b) {
  double ab = 0, aa = 0, bb = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    ab += a[i] * b[i];
    aa += a[i] * a[i];
    bb += b[i] * b[i];
  }
  return ab / std::sqrt(aa * bb);
}

} // namespace

// Of the second layer of two; all rows at a cadence's steps, else the
// response's over cached keys.
TEST(Executor, MeasuresDriftOfWhatRowsAttendTo) {
  Cadence cadence;
  cadence.kind = Cadence::Kind::Drift;
  cadence.attention = true;
  cadence.fraction = {9, 10};
  cadence.period = 7;
  const ModelConfig config = model(2);
  bundle::Manifest manifest = test::handManifest();
  for (bundle::Selection &selection : manifest.selections)
    selection.cadence = cadence;
  manifest.positions.emplace_back().kind = bundle::Positions::Kind::Response;
  bundle::Pass whole, rest;
  whole.when = {{When::Kind::On, cadence}};
  rest.rows = 0;
  manifest.passes = {whole, rest};
  manifest.reuse.kv = true;
  setMeasures(manifest);
  auto executor = make(manifest, config);
  ASSERT_TRUE(executor);
  const std::vector<SequenceShape> shapes = {{9, 4}, {27, 6}};
  const std::vector<double> speeds = {0.4, 0.01};
  constexpr int64_t steps = 24;
  const int64_t kvWidth = config.kvHeads * config.headDim;
  const int64_t width = config.queryHeads * config.headDim;
  std::mt19937 random(3);
  const PackedBatch everything = test::packed({9, 27});
  const Changing queries(everything, width, random);
  const Changing keys(everything, kvWidth, random);
  int64_t early = 0;
  for (int run = 0; run < 2; ++run) { // nothing is left of the run before
    test::States states(shapes);
    ASSERT_TRUE(executor->beginRun(shapes, steps, steps));
    struct Watched {
      int64_t latest = 0;
      std::optional<double> found;
      std::vector<double> keys; ///< cached, [positions x kv width]
      std::vector<std::vector<double>> reference;
    };
    std::vector<Watched> watched(shapes.size());
    early = 0;
    for (int64_t step = 1; step <= steps; ++step) {
      auto begun = executor->beginStep(states.all(step, steps));
      ASSERT_TRUE(begun);
      const PackedBatch batch = **begun;
      std::vector<float> q, k;
      for (size_t s = 0; s < shapes.size(); ++s) {
        std::vector<int64_t> rows; // of all
        for (int64_t i = batch.offsets[s]; i < batch.offsets[s + 1]; ++i)
          rows.push_back(everything.offsets[s] + batch.positions[i]);
        const double time = speeds[s] * double(step);
        const std::vector<float> ofQ = queries.at(rows, time);
        const std::vector<float> ofK = keys.at(rows, time);
        q.insert(q.end(), ofQ.begin(), ofQ.end());
        k.insert(k.end(), ofK.begin(), ofK.end());
      }
      std::vector<float> output(q.size());
      AttentionTensors view;
      view.query = q.data();
      view.key = view.value = k.data();
      view.output = output.data();
      view.queryStride = view.outputStride = width;
      view.keyStride = view.valueStride = kvWidth;
      view.queryHeads = config.queryHeads;
      view.kvHeads = config.kvHeads;
      view.headDim = config.headDim;
      for (int64_t layer = 0; layer < config.layers; ++layer)
        ASSERT_TRUE(test::executeLayer(*executor, layer, batch, view));
      ASSERT_EQ(executor->counters().similarity.size(), shapes.size());
      int64_t pairs = 0;
      for (size_t s = 0; s < shapes.size(); ++s) {
        Watched &of = watched[s];
        const int64_t n = shapes[s].length, prompt = shapes[s].promptLength;
        // What the step before found.
        const std::optional<double> similarity =
            executor->counters().similarity[s];
        ASSERT_EQ(similarity.has_value(), of.found.has_value());
        if (of.found)
          EXPECT_NEAR(*similarity, *of.found, 1e-5);
        const bool drifted = of.found && *of.found < 0.9;
        const bool due = step == 1 || drifted || step - of.latest == 7;
        early += drifted && step - of.latest < 7;
        const int64_t rows = batch.offsets[s + 1] - batch.offsets[s];
        EXPECT_EQ(rows, due ? n : n - prompt) << step << ", " << s;
        of.keys.resize(static_cast<size_t>(n * kvWidth));
        std::vector<std::vector<double>> now;
        for (int64_t i = batch.offsets[s]; i < batch.offsets[s + 1]; ++i)
          std::copy_n(k.begin() + i * kvWidth, kvWidth,
                      of.keys.begin() + batch.positions[i] * kvWidth);
        for (int64_t i = batch.offsets[s]; i < batch.offsets[s + 1]; ++i)
          if (batch.positions[i] >= prompt)
            now.push_back(weightsByClass(
                config, std::span(q).subspan(size_t(i * width), size_t(width)),
                of.keys));
        of.found.reset();
        if (due) {
          of.latest = step;
          of.reference.clear();
          continue;
        }
        pairs += config.queryHeads * rows * n;
        if (of.reference.empty()) {
          of.reference = std::move(now);
          continue;
        }
        double sum = 0;
        for (size_t i = 0; i < now.size(); ++i)
          sum += cosineOf(now[i], of.reference[i]);
        of.found = sum / double(now.size());
      }
      EXPECT_EQ(executor->counters().lsePairs, pairs) << step;
    }
  }
  EXPECT_GT(early, 2) << "of the first sequence";
  EXPECT_GE(executor->runBytes(shapes), // the reference, and values of classes
            int64_t(sizeof(float)) * (width * (5 + 21) + kvWidth * (9 + 27)));
}

TEST(Executor, PicksTheFirstPhaseThatHolds) {
  // Window before step 5, dense at 5, columns later; layer 2 differs.
  Cadence once;
  once.kind = Cadence::Kind::At;
  once.step = 5;
  bundle::Manifest manifest = columnsOn(once);
  bundle::Phase before;
  before.when = {When::Kind::Before, once};
  before.attention = test::kernelNamed(manifest, "window6");
  auto &phases = manifest.rules[0].phases;
  phases.insert(phases.begin() + 1, before);
  bundle::Rule last;
  last.isDefault = false;
  last.firstLayer = last.lastLayer = -1;
  last.phases.emplace_back().attention =
      test::kernelNamed(manifest, "sinks3_lse");
  manifest.rules.push_back(last);

  ModelConfig config = model(3);
  auto executor = make(manifest, config);
  ASSERT_TRUE(executor);
  std::vector<StepCounters> steps = execute(*executor, config, {20}, 9);
  constexpr int64_t heads = 4, n = 20, sinks = n * 3;
  constexpr int64_t window = 7 * n - 2 * (3 + 2 + 1);
  for (int64_t t = 1; t <= 9; ++t) {
    int64_t expected = t < 5 ? window : t == 5 ? n * n : n * 10;
    EXPECT_EQ(steps[t - 1].pairs, heads * (2 * expected + sinks)) << t;
    EXPECT_EQ(steps[t - 1].refreshes, t == 5 ? 2 : 0) << t;
  }
}

TEST(Executor, HasMemoryForTheLayersThatReuse) {
  bundle::Manifest manifest = test::handManifest();
  manifest.reuse = {true, bundle::Reuse::Attention::Output, true};
  bundle::Pass whole;
  whole.when = {
      {When::Kind::On, Cadence{.kind = Cadence::Kind::Every, .period = 4}}};
  manifest.passes = {whole, bundle::Pass()};
  ModelConfig config = model(5);
  config.hidden = 64;
  auto bytes = [&] {
    auto executor = make(manifest, config);
    return executor ? executor->runBytes({{32, 5}}) : 0;
  };
  const int64_t all = bytes();
  manifest.layeredReuses = {{{{0, 1}, {-1, -1}}, {.kv = true}}};
  // Attention's and the FFN's outputs of 32 rows in each of three layers.
  EXPECT_EQ(all - bytes(), 3 * 2 * 32 * config.hidden * 4);
  // A model that has not so many layers.
  manifest.passes[1].layers = {{4, 5}};
  manifest.passes.emplace_back();
  EXPECT_TRUE(contains(createError(manifest, config, DType::F32),
                       "recompute all names layers(4 to 5), the model has "
                       "layers 0 to 4"));
}

namespace {
/// columnsOn() of which only some layers refresh.
bundle::Manifest columnsIn(const std::vector<int64_t> &layers,
                           const Cadence &cadence) {
  bundle::Manifest manifest = columnsOn(cadence);
  for (int64_t layer : layers) {
    bundle::Rule rule = manifest.rules[0];
    rule.isDefault = false;
    rule.firstLayer = rule.lastLayer = layer;
    manifest.rules.push_back(rule);
  }
  manifest.rules[0].phases.erase(manifest.rules[0].phases.begin());
  return manifest;
}

/// Attention in float64 over the keys that a list names, against what was
/// computed: the largest difference.
double errorOver(const std::vector<int32_t> &lists, int64_t keep,
                 int64_t groups, const AttentionTensors &tensors, int64_t n) {
  heddle::abi::AttentionArgs args{};
  args.query = tensors.query;
  args.key = tensors.key;
  args.value = tensors.value;
  args.queryStride = tensors.queryStride;
  args.keyStride = tensors.keyStride;
  args.valueStride = tensors.valueStride;
  args.n = args.rows = n;
  args.kvGroup = tensors.queryHeads / tensors.kvHeads;
  args.scale = static_cast<float>(1 / std::sqrt(double(tensors.headDim)));
  double worst = 0;
  for (int64_t h = 0; h < tensors.queryHeads; ++h) {
    reference::Head head =
        reference::headOf(args, h, tensors.headDim, DType::F32);
    for (int64_t row = 0; row < n; ++row) {
      auto list = lists.begin() + (h * groups + row / 16) * keep;
      auto result = reference::attendRow(head, row, [&](int64_t, int64_t key) {
        return std::find(list, list + keep, key) != list + keep;
      });
      for (int64_t e = 0; e < tensors.headDim; ++e) {
        double found = reference::load(
            tensors.output,
            row * tensors.outputStride + h * tensors.headDim + e, DType::F32);
        // Not a number where nothing was written.
        double error = std::abs(found - result.output[e]);
        worst = error <= worst ? worst : error;
      }
    }
  }
  return worst;
}
} // namespace

/// Layers 0 and 3 of 6 refresh at steps 1, 4 and 7: the others are sparse then,
/// too, by lists that are a layer's of the same step.
TEST(Executor, LayersReadWhatTheNearestOneBeforeHasChosen) {
  Cadence cadence;
  cadence.kind = Cadence::Kind::Every;
  cadence.period = 3;
  ModelConfig config = model(6);
  auto executor = make(columnsIn({0, 3}, cadence), config);
  ASSERT_TRUE(executor);
  constexpr int64_t n = 37, steps = 8, heads = 4;
  test::States states(test::shapesOf({n}));
  ASSERT_TRUE(executor->beginRun(states.shapes, steps, steps));
  std::mt19937 random(5);
  std::vector<int32_t> lists[2];
  for (int64_t step = 1; step <= steps; ++step) {
    const bool refreshes = step % 3 == 1;
    auto active = executor->beginStep(states.all(step, steps));
    ASSERT_TRUE(active);
    int64_t keep = 0;
    for (int64_t layer = 0; layer < config.layers; ++layer) {
      SCOPED_TRACE("step " + std::to_string(step) + ", layer " +
                   std::to_string(layer));
      test::Tensors tensors(config, n, 5, DType::F32, random);
      std::vector<std::byte> output;
      AttentionTensors view = tensors.into(output);
      ASSERT_TRUE(test::executeLayer(*executor, layer, **active, view));
      const bool chooses = layer == 0 || layer == 3;
      auto views = executor->selections(layer, 0);
      ASSERT_TRUE(views);
      ASSERT_EQ(views->size(), chooses ? 1u : 0u);
      std::vector<int32_t> &list = lists[layer >= 3];
      if (chooses) {
        const SelectionView &own = views->front();
        keep = own.keep;
        std::vector<int32_t> now(own.indices,
                                 own.indices + heads * own.groups * keep);
        EXPECT_EQ(now == list, !refreshes);
        list = std::move(now);
      }
      if (chooses && refreshes) {
        std::vector<int32_t> all;
        for (int64_t i = 0; i < heads * 3 * n; ++i)
          all.push_back(static_cast<int32_t>(i % n));
        EXPECT_LT(errorOver(all, n, 3, view, n), 1e-5);
      } else {
        EXPECT_LT(errorOver(list, keep, 3, view, n), 1e-5);
      }
    }
    const StepCounters counted = executor->counters();
    EXPECT_EQ(counted.refreshes, refreshes ? 2 : 0);
    EXPECT_EQ(counted.scorePairs, refreshes ? 2 * heads * n * n : 0);
    EXPECT_EQ(counted.pairs, refreshes ? heads * n * (2 * n + 4 * keep)
                                       : heads * n * 6 * keep);
  }
  EXPECT_NE(lists[0], lists[1]);
}

TEST(Executor, ListsTakeMemoryInLayersThatRefreshThem) {
  Cadence always;
  ModelConfig config = model(6);
  const std::vector<SequenceShape> shapes = test::shapesOf({37});
  auto all = make(columnsOn(always), config);
  auto some = make(columnsIn({0, 3}, always), config);
  auto one = make(columnsIn({0}, always), config);
  ASSERT_TRUE(all && some && one);
  const int64_t layer = some->runBytes(shapes) - one->runBytes(shapes);
  // 4 heads, 3 groups of 16 rows, half of 37 keys in 4 bytes each.
  EXPECT_GE(layer, 4 * 3 * 18 * 4);
  EXPECT_EQ(all->runBytes(shapes), some->runBytes(shapes) + 4 * layer);
}

TEST(Executor, RefusesLayersThatNoneBeforeChoosesFor) {
  Cadence always;
  // The last layer but five comes after layer 3 in deep models alone.
  bundle::Manifest shallow = columnsIn({3}, always);
  bundle::Rule reader = shallow.rules[0];
  reader.isDefault = false;
  reader.firstLayer = reader.lastLayer = -6;
  shallow.rules.push_back(reader);
  shallow.rules[0].phases[0].attention = test::kernelNamed(shallow, "dense");
  EXPECT_TRUE(make(shallow, model(10)));
  EXPECT_TRUE(contains(
      createError(shallow, model(6), DType::F32),
      "layer 0 of a model of 6 layers reads selection 'groups16', which "
      "neither it nor a layer before it refreshes"));
  // The first step is the default rule's own.
  bundle::Manifest late = columnsIn({0}, always);
  Cadence second;
  second.kind = Cadence::Kind::At;
  second.step = 2;
  late.selections[0].cadence = late.rules[1].phases[0].when.cadence = second;
  late.rules[1].phases[1].attention = test::kernelNamed(late, "dense");
  auto executor = make(late, model(2));
  ASSERT_TRUE(executor);
  Status begun = executor->beginRun(test::shapesOf({20}), 4, 4);
  ASSERT_FALSE(begun);
  EXPECT_TRUE(
      contains(begun.error().text(), "with 4 steps, step 1 reads selection"));
  EXPECT_TRUE(contains(begun.error().text(), "in layer 1"));
}

TEST(Executor, SharesOfSinksAreOfEachSequence) {
  bundle::Manifest manifest = test::handManifest();
  manifest.rules[0].phases[0].attention =
      test::kernelNamed(manifest, "share_lse");
  ModelConfig config = model(1);
  constexpr int64_t heads = 4;
  // A tenth, but three at least, as the kernel has three sinks besides.
  const std::pair<int64_t, int64_t> counts[] = {{1, 1},  {9, 3},  {39, 3},
                                                {40, 4}, {49, 4}, {64, 6}};
  for (auto [n, sinks] : counts) {
    auto executor = make(manifest, config);
    ASSERT_TRUE(executor);
    EXPECT_EQ(execute(*executor, config, {n}, 1)[0].pairs, heads * n * sinks)
        << n;
  }
  auto executor = make(manifest, config);
  ASSERT_TRUE(executor);
  EXPECT_EQ(execute(*executor, config, {64, 9, 45}, 1)[0].pairs,
            heads * (64 * 6 + 9 * 3 + 45 * 4));
}

TEST(Executor, ShowsSelections) {
  Cadence first;
  first.kind = Cadence::Kind::First;
  first.count = 1;
  ModelConfig config = model(1);
  auto executor = make(columnsOn(first), config);
  ASSERT_TRUE(executor);
  ASSERT_TRUE(executor->beginRun({{40, 0}}, 4, 4));
  ASSERT_EQ(executor->selections(0, 0)->size(), 1u); // selection 1 is not kept
  EXPECT_EQ(executor->selections(0, 0)->at(0).indices, nullptr);
  execute(*executor, config, {40}, 4);
  SelectionView view = executor->selections(0, 0)->at(0);
  EXPECT_EQ(view.group, 16);
  EXPECT_EQ(view.groups, 3);
  EXPECT_EQ(view.keep, 20);
  ASSERT_NE(view.indices, nullptr);
  for (int64_t list = 0; list < 4 * 3; ++list)
    for (int64_t k = 0; k < 20; ++k) {
      int32_t key = view.indices[list * 20 + k];
      EXPECT_TRUE(key >= 0 && key < 40);
      EXPECT_TRUE(k == 0 || view.indices[list * 20 + k - 1] < key);
    }
  EXPECT_TRUE(executor->selections(1, 0)->empty());
  EXPECT_TRUE(executor->selections(0, 1)->empty());
}

/// What is drafted of a sequence attends over the sequence's lists.
TEST(Executor, DraftsReadTheListsOfTheirSequence) {
  Cadence odd;
  odd.kind = Cadence::Kind::Every;
  odd.period = 2;
  const ModelConfig config = model(2);
  auto executor = make(columnsOn(odd), config);
  ASSERT_TRUE(executor);
  constexpr int64_t n = 40, heads = 4, keep = 20;
  const int64_t one = executor->runBytes({{n, 0}});
  test::States states({{n, 0}, {n, 0, -1, 0}, {n, 0}});
  const int64_t lists = 2 * heads * 3 * keep * 4; // of two layers
  EXPECT_EQ(executor->runBytes({{n, 0}, {n, 0}}) -
                executor->runBytes({{n, 0}, {n, 0, -1, 0}}),
            lists);
  EXPECT_GT(one, lists);
  ASSERT_TRUE(executor->beginRun(states.shapes, 4, 4));
  std::mt19937 random(2);
  for (int64_t step = 1; step <= 2; ++step) {
    states.done[1] = step == 1;
    auto batch = executor->beginStep(states.all(step, 4));
    ASSERT_TRUE(batch) << batch.error().text();
    test::Tensors tensors(config, (*batch)->rows(), 5, DType::F32, random);
    std::vector<std::byte> output;
    for (int64_t layer = 0; layer < config.layers; ++layer) {
      Status status =
          test::executeLayer(*executor, layer, **batch, tensors.into(output));
      ASSERT_TRUE(status) << status.error().text();
    }
  }
  EXPECT_EQ(executor->counters().pairs, 2 * 3 * heads * n * keep);
  // Views are good until the next call.
  auto entries = [&](int64_t sequence) {
    auto views = executor->selections(1, sequence);
    EXPECT_TRUE(views && (*views)[0].indices);
    const int32_t *list = (*views)[0].indices;
    return std::vector<int32_t>(list, list + heads * 3 * keep);
  };
  EXPECT_EQ(entries(1), entries(0));
  EXPECT_NE(entries(2), entries(0));
  auto refused = executor->beginStep(states.all(3, 4));
  ASSERT_FALSE(refused);
  EXPECT_TRUE(
      contains(refused.error().text(),
               "step 3 of sequence 1: selection 'groups16' is refreshed "
               "at a step that was drafted, which reads the lists of "
               "sequence 0"))
      << refused.error().text();
}

TEST(Executor, RefusesModelsThatTheBundleDoesNotFit) {
  bundle::Manifest manifest = test::handManifest();
  ModelConfig config = model(2);
  config.headDim = 64;
  std::string text = createError(manifest, config, DType::F32);
  EXPECT_TRUE(contains(text, "f32 and a head dim of 64")) << text;
  EXPECT_TRUE(contains(text, "f32 with 8, bf16 with 8")) << text;
  text = createError(manifest, model(2), DType::F16);
  EXPECT_TRUE(contains(text, "f16")) << text;

  bundle::Rule rule = manifest.rules[0];
  rule.isDefault = false;
  rule.firstLayer = rule.lastLayer = 7;
  manifest.rules.push_back(rule);
  text = createError(manifest, model(2), DType::F32);
  EXPECT_TRUE(contains(text, "7")) << text;
}

TEST(Executor, RefusesRunsThatReadWhatNothingFilled) {
  Cadence late;
  late.kind = Cadence::Kind::At;
  late.step = 3;
  auto executor = make(columnsOn(late), model(1));
  ASSERT_TRUE(executor);
  Status status = executor->beginRun({{8, 0}}, 10, 10);
  ASSERT_FALSE(status);
  EXPECT_TRUE(contains(status.error().text(), "step 1 reads selection "
                                              "'groups16' in layer 0"))
      << status.error().text();
}

TEST(Executor, RefusesLengthsAndStepsOutOfRange) {
  auto executor = make(test::handManifest(), model(1));
  ASSERT_TRUE(executor);
  EXPECT_FALSE(executor->beginRun({}, 4, 4));
  EXPECT_FALSE(executor->beginRun({{4, 0}, {0, 0}}, 4, 4));
  EXPECT_FALSE(executor->beginRun({{4, 5}}, 4, 4));
  EXPECT_FALSE(executor->beginRun({{4, 0}}, 0, 0));
  EXPECT_FALSE(executor->beginRun({{4, 0}}, int64_t(1) << 40, 4));
  Status status = executor->beginRun({{int64_t(1) << 31, 0}}, 4, 4);
  ASSERT_FALSE(status);
  EXPECT_TRUE(contains(status.error().text(), "32-bit"));
}

TEST(Executor, RefusesListsThatMemoryCannotHold) {
  Cadence every;
  every.kind = Cadence::Kind::Every;
  every.period = 1;
  auto executor = make(columnsOn(every), model(32));
  ASSERT_TRUE(executor);
  // Half of 50 million keys for 3.1 million groups, 4 heads and 32 layers.
  Status status = executor->beginRun({{50'000'000, 0}}, 4, 4);
  ASSERT_FALSE(status);
  EXPECT_TRUE(contains(status.error().text(), "index lists"))
      << status.error().text();
}

TEST(Executor, SaysWhatARunTakes) {
  Cadence every;
  every.kind = Cadence::Kind::Every;
  every.period = 2;
  auto executor = make(columnsOn(every), model(2));
  ASSERT_TRUE(executor);
  setThreadCount(2);
  // Two layers, one list of 4 heads x 7 groups x 50 keys each; log-sum-exp of
  // 4 heads; 2 workers with 100 floats, in whole cache lines.
  EXPECT_EQ(executor->runBytes({{100, 0}}),
            2 * ((4 * 7 * 50 * 4 + 63) / 64 * 64) + 4 * 100 * 4 + 2 * 448);
  setThreadCount(0);
}

TEST(Executor, RefusesCallsOutOfOrder) {
  Cadence first;
  first.kind = Cadence::Kind::First;
  first.count = 1;
  ModelConfig config = model(2);
  auto executor = make(columnsOn(first), config);
  ASSERT_TRUE(executor);
  std::mt19937 random(1);
  PackedBatch batch = test::packed({8});
  test::States states({{8, 0}});
  test::Tensors tensors(config, 8, 0, DType::F32, random);
  std::vector<std::byte> output;
  auto execute = [&](int64_t layer) {
    return test::executeLayer(*executor, layer, batch, tensors.into(output));
  };
  EXPECT_FALSE(executor->beginStep(states.all(1, 2))) << "no run";
  EXPECT_FALSE(execute(0)) << "no run";
  ASSERT_TRUE(executor->beginRun(states.shapes, 2, 2));
  EXPECT_FALSE(execute(0)) << "no step";
  EXPECT_FALSE(executor->beginStep({})) << "no states";
  ASSERT_TRUE(executor->beginStep(states.all(2, 2)));
  EXPECT_FALSE(execute(0)) << "step 1 was left out";
  ASSERT_TRUE(executor->beginStep(states.all(1, 2)));
  EXPECT_FALSE(execute(1)) << "layer 0 comes first";
  EXPECT_FALSE(executor->attend(0, batch, tensors.into(output)))
      << "values come first";
  ASSERT_TRUE(executor->values(0));
  EXPECT_FALSE(
      executor->queriesAndKeys(0, test::packed({4, 4}), tensors.into(output)))
      << "other sequences";
  for (int wrong = 0; wrong < 2; ++wrong) {
    ASSERT_TRUE(executor->beginStep(states.all(1, 2)));
    ASSERT_TRUE(executor->values(0));
    AttentionTensors given = tensors.into(output);
    if (wrong == 0)
      given.dtype = DType::BF16;
    else
      given.outputStride = 8;
    EXPECT_FALSE(executor->queriesAndKeys(0, batch, given));
  }
  ASSERT_TRUE(executor->beginStep(states.all(1, 2)));
  EXPECT_TRUE(static_cast<bool>(execute(0)));
  EXPECT_FALSE(execute(2)) << "no such layer";
  EXPECT_TRUE(static_cast<bool>(execute(1)));
  EXPECT_FALSE(execute(2)) << "the step is over";
}

TEST(Executor, FollowsALargerThreadCount) {
  ModelConfig config = model(1);
  auto executor = make(test::handManifest(), config);
  ASSERT_TRUE(executor);
  std::mt19937 random(1);
  PackedBatch batch = test::packed({70});
  test::States states({{70, 0}});
  test::Tensors tensors(config, 70, 0, DType::F32, random);
  std::vector<std::byte> one, many;
  setThreadCount(1);
  ASSERT_TRUE(executor->beginRun(states.shapes, 2, 2));
  ASSERT_TRUE(executor->beginStep(states.all(1, 2)));
  ASSERT_TRUE(test::executeLayer(*executor, 0, batch, tensors.into(one)));
  setThreadCount(5);
  ASSERT_TRUE(executor->beginStep(states.all(2, 2)));
  ASSERT_TRUE(test::executeLayer(*executor, 0, batch, tensors.into(many)));
  setThreadCount(0);
  EXPECT_EQ(one, many);
}
