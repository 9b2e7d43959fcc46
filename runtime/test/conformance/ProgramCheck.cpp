//===- ProgramCheck.cpp - A whole step program ----------------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "bundle/program/Program.h"
#include "bundle/program/ProgramChecks.h"
#include "runtime/reference/ReferenceExecutor.h"
#include "runtime/schedule/Executor.h"
#include "runtime/test/conformance/Conformance.h"
#include "runtime/test/schedule/Tensors.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <set>

using namespace heddle;
using namespace heddle::conformance;

/// The fewest layers of which every rule gets one and that have all layers that
/// rows and reuse name, or 0.
static int64_t layersFor(const bundle::Manifest &manifest) {
  constexpr int64_t most = 128;
  for (int64_t layers = 1; layers <= most; ++layers) {
    Result<std::vector<size_t>> rules = bundle::rulesOfLayers(manifest, layers);
    if (rules && !bundle::checkLayers(manifest, layers) &&
        std::set<size_t>(rules->begin(), rules->end()).size() ==
            manifest.rules.size())
      return layers;
  }
  return 0;
}

/// Every list holds the keys or blocks of largest score, but for scores that
/// rounding may have exchanged. Not for lists of two spans, which only the
/// select kernel's own check tells apart.
static void compareLists(const rt::SelectionView &view,
                         std::span<const double> scores, double tolerance,
                         const std::string &where, Finding &finding) {
  auto n = static_cast<int64_t>(scores.size()) / (view.lists * view.groups);
  for (int64_t list = 0; list < view.lists * view.groups; ++list) {
    std::vector<bool> kept(static_cast<size_t>(n));
    for (int64_t k = 0; k < view.keep; ++k) {
      int32_t key = view.indices[list * view.keep + k];
      if (key < 0 || key >= n || kept[key])
        return finding.fail(where + ": a list holds key " +
                            std::to_string(key) + " twice or out of range");
      kept[key] = true;
    }
    double least = std::numeric_limits<double>::infinity(), most = 0;
    for (int64_t key = 0; key < n; ++key) {
      double score = scores[list * n + key];
      if (kept[key])
        least = std::min(least, score);
      else
        most = std::max(most, score);
    }
    if (least < most * (1 - tolerance))
      return finding.fail(where + ": a key of score " + std::to_string(least) +
                          " is kept, one of score " + std::to_string(most) +
                          " is not");
  }
}

/// Rows whose attention or FFN only one of two executors computes in the layer
/// that they executed last. Saliency compares a cosine with a threshold, which
/// rounding may take to the other side. Where it does, other rows may be asked
/// for, too: all of a sequence for one that is salient, and none without one.
static int64_t rowsApart(const rt::ScheduleExecutor &a,
                         const rt::ScheduleExecutor &b) {
  int64_t apart = 0;
  for (size_t i = 0; i < std::min(a.trace().size(), b.trace().size()); ++i) {
    auto only = [&](auto... fields) {
      std::vector<int32_t> rows;
      for (std::vector<int32_t> rt::LayerTrace::*each : {fields...}) {
        const std::vector<int32_t> &one = a.trace()[i].*each;
        const std::vector<int32_t> &two = b.trace()[i].*each;
        std::set_symmetric_difference(one.begin(), one.end(), two.begin(),
                                      two.end(), std::back_inserter(rows));
      }
      std::sort(rows.begin(), rows.end());
      rows.erase(std::unique(rows.begin(), rows.end()), rows.end());
      return static_cast<int64_t>(rows.size());
    };
    const int64_t exact =
        only(&rt::LayerTrace::exactRows, &rt::LayerTrace::ffnRows);
    apart += exact > 0 ? exact : only(&rt::LayerTrace::queryRows);
  }
  return apart;
}

static std::string describe(const rt::StepCounters &counters) {
  return std::to_string(counters.pairs) + " pairs, " +
         std::to_string(counters.scorePairs) + " score pairs, " +
         std::to_string(counters.refreshes) + " refreshes, " +
         std::to_string(counters.keyRows) + " rows of K, " +
         std::to_string(counters.ffnRows) + " of the FFN";
}

Finding conformance::checkProgram(const bundle::Bundle &bundle, rt::DType dtype,
                                  int64_t headDim, const Options &options) {
  Finding finding;
  constexpr int64_t steps = 10;
  const std::vector<rt::SequenceShape> shapes = {
      {17, 5}, {1, 0}, {130, 70}, {64, 0}};
  rt::ModelConfig config;
  config.layers = layersFor(bundle.manifest());
  if (config.layers == 0) {
    finding.fail("no number of layers gives every rule a layer");
    return finding;
  }
  config.kvHeads = 2;
  config.queryHeads = 4;
  config.headDim = headDim;
  config.hidden = config.queryHeads * headDim;

  auto executor = rt::ScheduleExecutor::create(bundle, config, dtype);
  auto reference =
      rt::ReferenceExecutor::create(bundle.manifest(), config, dtype);
  if (!executor || !reference) {
    finding.fail("the step program is refused: " +
                 (!executor ? executor.error() : reference.error()).text());
    return finding;
  }
  test::States states(shapes);
  Status begun = (*executor)->beginRun(states.shapes, steps, steps);
  if (begun)
    begun = (*reference)->beginRun(states.shapes, steps, steps);
  if (!begun) {
    finding.fail("a run is refused: " + begun.error().text());
    return finding;
  }

  (*executor)->setTracing(true);
  (*reference)->setTracing(true);
  std::mt19937 random(static_cast<uint32_t>(options.seed));
  std::mt19937 sureness(static_cast<uint32_t>(options.seed) + 1);
  double allowed = allowedError(dtype, 0);
  for (int64_t step = 1; step <= steps; ++step) {
    // The first masked position becomes a token.
    for (size_t s = 0; s < shapes.size(); ++s) {
      auto first = std::find(states.masked[s].begin(), states.masked[s].end(),
                             uint8_t(1));
      states.next[s].clear();
      if (first != states.masked[s].end())
        states.next[s].push_back(
            static_cast<int32_t>(first - states.masked[s].begin()));
    }
    // The step before predicted some of them.
    for (std::vector<double> &each : states.confidence)
      for (double &confidence : each)
        if (sureness() % 2)
          confidence = static_cast<double>(sureness() % 8);
    auto rows = (*executor)->beginStep(states.all(step, steps));
    auto same = (*reference)->beginStep(states.all(step, steps));
    if (!rows || !same) {
      finding.fail("step " + std::to_string(step) + " is refused: " +
                   (!rows ? rows.error() : same.error()).text());
      return finding;
    }
    const rt::PackedBatch &batch = **rows;
    for (int64_t layer = 0; layer < config.layers; ++layer) {
      ++finding.cases;
      std::string where = "step " + std::to_string(step) + " of " +
                          std::to_string(steps) + ", layer " +
                          std::to_string(layer);
      nowTesting(where);
      test::Tensors tensors(config, batch.rows(), 8, dtype, random);
      std::vector<std::byte> found, expected;
      Status one =
          test::executeLayer(**executor, layer, batch, tensors.into(found));
      Status two =
          test::executeLayer(**reference, layer, batch, tensors.into(expected));
      if (!one || !two) {
        finding.fail(where + ": " + (!one ? one : two).error().text());
        return finding;
      }
      // Where one keeps a row's context that the other recomputes, they differ.
      const int64_t apart = rowsApart(**executor, **reference);
      if (apart == 0)
        finding.measure(tensors.distance(found, expected), allowed, where);
      for (int64_t s = 0; s < batch.sequences(); ++s) {
        auto views = (*executor)->selections(layer, s);
        if (!views) {
          finding.fail(where + ": " + views.error().text());
          return finding;
        }
        for (const rt::SelectionView &view : *views) {
          if (!view.indices)
            continue;
          if (bundle.manifest().selections[view.selection].isolation ==
              bundle::Selection::Isolation::None)
            compareLists(view, (*reference)->scores(layer, s, view.selection),
                         allowed, where + ", sequence " + std::to_string(s),
                         finding);
          std::span<const int32_t> indices(
              view.indices,
              static_cast<size_t>(view.lists * view.groups * view.keep));
          Status adopted =
              (*reference)->adopt(layer, s, view.selection, indices);
          if (!adopted)
            finding.fail(where + ": " + adopted.error().text());
        }
      }
      if (!finding.ok())
        return finding;
      // From here on the two would execute different rows.
      if (apart > 0) {
        if (apart > 2 + batch.rows() / 16)
          finding.fail(where + ": " + std::to_string(apart) +
                       " rows are computed by one executor only");
        return finding;
      }
    }
    std::string a = describe((*executor)->counters());
    std::string b = describe((*reference)->counters());
    if (a != b)
      finding.fail("step " + std::to_string(step) + ": the executor counts " +
                   a + "; there are " + b);
    for (size_t s = 0; s < shapes.size(); ++s)
      for (int32_t position : states.next[s])
        states.commit(s, position, step);
  }
  return finding;
}
