//===- ReferenceExecutor.cpp - A step program without code ----------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Rules and phases are read afresh at every call, straight from the manifest,
// and pairs are counted one by one: nothing here is precomputed that could be
// precomputed wrongly.
//
//===----------------------------------------------------------------------===//

#include "runtime/reference/ReferenceExecutor.h"

#include "bundle/Abi.h"
#include "bundle/IndexLayout.h"
#include "runtime/base/Parallel.h"
#include "runtime/reference/Reference.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <tuple>

using namespace heddle;
using namespace heddle::rt;
using bundle::Phase;
using bundle::Rule;
using bundle::Term;
using bundle::When;

namespace {

bool namesStep(const bundle::Cadence &cadence, int64_t totalSteps,
               int64_t step) {
  std::vector<int64_t> steps = bundle::refreshSteps(cadence, totalSteps);
  return std::find(steps.begin(), steps.end(), step) != steps.end();
}

bool applies(const When &when, int64_t totalSteps, int64_t step) {
  if (when.kind == When::Kind::Otherwise)
    return true;
  if (when.kind == When::Kind::On)
    return namesStep(when.cadence, totalSteps, step);
  std::vector<int64_t> steps = bundle::refreshSteps(when.cadence, totalSteps);
  return steps.empty() || step < steps.front();
}

bool covers(const Rule &rule, int64_t layer, int64_t layers) {
  int64_t first = rule.firstLayer, last = rule.lastLayer;
  first += first < 0 ? layers : 0;
  last += last < 0 ? layers : 0;
  return !rule.isDefault && first <= layer && layer <= last;
}

/// One selection in force.
struct Chosen {
  int64_t keep = 0;
  int64_t groups = 0;
  std::vector<int32_t> indices; ///< [queryHeads x groups x keep]
  std::vector<double> scores;   ///< [queryHeads x groups x n]
};

class Player final : public ReferenceExecutor {
public:
  Player(const bundle::Manifest &manifest, const ModelConfig &config,
         DType dtype)
      : manifest(manifest), config(config), dtype(dtype) {}

  Status beginRun(std::vector<int64_t> runLengths, int64_t steps) override {
    if (runLengths.empty() || steps < 1)
      return Error("a run needs at least one sequence and one step");
    for (int64_t n : runLengths)
      if (n < 1 || n > std::numeric_limits<int32_t>::max())
        return Error("a sequence of " + std::to_string(n) +
                     " tokens is not possible");
    lengths = std::move(runLengths);
    totalSteps = steps;
    chosen.clear();
    return Status::success();
  }

  int64_t runBytes(const std::vector<int64_t> &runLengths) const override {
    double bytes = 0;
    for (const bundle::Selection &selection : manifest.selections)
      for (int64_t n : runLengths) {
        int64_t groups = (n - 1) / selection.group + 1;
        double lists =
            static_cast<double>(config.layers) * config.queryHeads * groups;
        bytes += lists *
                 static_cast<double>(
                     4 * bundle::keepCount(selection.keep, selection.rule, n) +
                     8 * n);
      }
    return static_cast<int64_t>(std::min(bytes, 9e18));
  }

  void beginStep(int64_t next) override {
    step = next;
    counted = {};
  }

  StepCounters counters() const override { return counted; }

  std::vector<SelectionView> selections(int64_t layer,
                                        int64_t sequence) const override;
  Status attend(int64_t layer, const PackedBatch &batch,
                const AttentionTensors &tensors) override;
  Status adopt(int64_t layer, int64_t sequence, int64_t selection,
               std::span<const int32_t> indices) override;
  std::span<const double> scores(int64_t layer, int64_t sequence,
                                 int64_t selection) const override {
    auto found = chosen.find({layer, sequence, selection});
    if (found == chosen.end())
      return {};
    return found->second.scores;
  }

private:
  using Key = std::tuple<int64_t, int64_t, int64_t>;

  const Phase &phaseOf(int64_t layer) const;
  void refresh(const Key &key, const abi::AttentionArgs &args);

  bundle::Manifest manifest;
  ModelConfig config;
  DType dtype;
  std::vector<int64_t> lengths;
  int64_t totalSteps = 0;
  int64_t step = 0;
  StepCounters counted;
  std::map<Key, Chosen> chosen; ///< (layer, sequence, selection)
};

const Phase &Player::phaseOf(int64_t layer) const {
  const Rule *rule = nullptr;
  for (const Rule &candidate : manifest.rules)
    if (candidate.isDefault)
      rule = &candidate;
  for (const Rule &candidate : manifest.rules)
    if (covers(candidate, layer, config.layers))
      rule = &candidate;
  for (const Phase &phase : rule->phases)
    if (applies(phase.when, totalSteps, step))
      return phase;
  return rule->phases.back();
}

std::vector<SelectionView> Player::selections(int64_t layer,
                                              int64_t sequence) const {
  std::vector<SelectionView> views;
  for (size_t s = 0; s < manifest.selections.size(); ++s) {
    auto found = chosen.find({layer, sequence, static_cast<int64_t>(s)});
    if (found != chosen.end())
      views.push_back({static_cast<int64_t>(s), manifest.selections[s].group,
                       found->second.groups, found->second.keep,
                       found->second.indices.data()});
  }
  return views;
}

Status Player::adopt(int64_t layer, int64_t sequence, int64_t selection,
                     std::span<const int32_t> indices) {
  auto found = chosen.find({layer, sequence, selection});
  if (found == chosen.end() || found->second.indices.size() != indices.size())
    return Error("no selection of that shape is in force there");
  found->second.indices.assign(indices.begin(), indices.end());
  return Status::success();
}

void Player::refresh(const Key &key, const abi::AttentionArgs &args) {
  const bundle::Selection &selection = manifest.selections[std::get<2>(key)];
  Chosen next;
  next.keep = bundle::keepCount(selection.keep, selection.rule, args.n);
  next.groups = (args.n + selection.group - 1) / selection.group;
  int64_t lists = config.queryHeads * next.groups;
  next.indices.resize(static_cast<size_t>(lists * next.keep));
  next.scores.resize(static_cast<size_t>(lists * args.n));
  parallelFor(lists, [&](int64_t at, int) {
    int64_t h = at / next.groups, begin = at % next.groups * selection.group;
    int64_t end = std::min(begin + selection.group, args.n);
    std::vector<double> scores = reference::meanProbability(
        reference::headOf(args, h, config.headDim, dtype), begin, end,
        std::span(args.lse + h * args.n, static_cast<size_t>(args.n)));
    std::vector<int32_t> keys = reference::largest(scores, next.keep);
    std::copy(keys.begin(), keys.end(), next.indices.begin() + at * next.keep);
    std::copy(scores.begin(), scores.end(), next.scores.begin() + at * args.n);
  });
  chosen[key] = std::move(next);
}

Status Player::attend(int64_t layer, const PackedBatch &batch,
                      const AttentionTensors &tensors) {
  if (batch.sequences() != static_cast<int64_t>(lengths.size()))
    return Error("the batch does not hold the sequences that the run was begun "
                 "with");
  const Phase &phase = phaseOf(layer);
  const bundle::Kernel &kernel = manifest.kernels[phase.attention];
  for (int64_t s = 0; s < batch.sequences(); ++s) {
    int64_t n = batch.length(s), row = batch.offsets[s];
    if (n != lengths[s])
      return Error("sequence " + std::to_string(s) + " has " +
                   std::to_string(n) + " rows, the run was begun with " +
                   std::to_string(lengths[s]));
    std::vector<float> lse(static_cast<size_t>(config.queryHeads * n));
    abi::AttentionArgs args{};
    auto rowAt = [&](const void *tensor, int64_t stride) {
      return static_cast<const std::byte *>(tensor) +
             row * stride * byteSize(dtype);
    };
    args.query = rowAt(tensors.query, tensors.queryStride);
    args.key = rowAt(tensors.key, tensors.keyStride);
    args.value = rowAt(tensors.value, tensors.valueStride);
    args.lse = lse.data();
    args.n = n;
    args.queryStride = tensors.queryStride;
    args.keyStride = tensors.keyStride;
    args.valueStride = tensors.valueStride;
    args.kvGroup = config.queryHeads / config.kvHeads;
    args.scale =
        static_cast<float>(1 / std::sqrt(static_cast<double>(config.headDim)));
    args.heads = static_cast<uint32_t>(config.queryHeads);

    std::vector<abi::IndexList> lists;
    std::vector<int64_t> groups;
    for (const Term &term : kernel.terms) {
      if (term.kind != Term::Kind::Columns)
        continue;
      auto found = chosen.find({layer, s, term.selection});
      if (found == chosen.end())
        return Error("step " + std::to_string(step) + " reads selection '" +
                     manifest.selections[term.selection].name + "' in layer " +
                     std::to_string(layer) + ", which has not been filled");
      Chosen &list = found->second;
      lists.push_back(
          bundle::int32Lists(list.indices.data(), list.groups, list.keep));
      groups.push_back(manifest.selections[term.selection].group);
    }

    std::vector<int64_t> pairs(static_cast<size_t>(config.queryHeads * n));
    parallelFor(config.queryHeads * n, [&](int64_t at, int) {
      int64_t h = at / n, i = at % n;
      reference::RowResult result = reference::attendRow(
          reference::headOf(args, h, config.headDim, dtype), i,
          reference::pairsOf(kernel.terms, h, lists, groups));
      for (int64_t e = 0; e < config.headDim; ++e)
        reference::store(tensors.output,
                         (row + i) * tensors.outputStride + h * config.headDim +
                             e,
                         dtype, result.output[e]);
      lse[at] = static_cast<float>(result.lse);
      pairs[at] = result.pairs;
    });
    for (int64_t count : pairs)
      counted.pairs += count;
    counted.densePairs += config.queryHeads * n * n;

    for (const Phase::Refresh &renewal : phase.refreshes) {
      const bundle::Selection &selection =
          manifest.selections[renewal.selection];
      if (!namesStep(selection.cadence, totalSteps, step))
        continue;
      refresh({layer, s, renewal.selection}, args);
      counted.scorePairs += config.queryHeads * n * n;
      ++counted.refreshes;
    }
  }
  return Status::success();
}

} // namespace

Result<std::unique_ptr<ReferenceExecutor>>
ReferenceExecutor::create(const bundle::Manifest &manifest,
                          const ModelConfig &config, DType dtype) {
  for (int64_t layer = 0; layer < config.layers; ++layer) {
    auto named = std::count_if(
        manifest.rules.begin(), manifest.rules.end(),
        [&](const Rule &rule) { return covers(rule, layer, config.layers); });
    bool haveDefault =
        std::any_of(manifest.rules.begin(), manifest.rules.end(),
                    [](const Rule &rule) { return rule.isDefault; });
    if (named > 1 || (named == 0 && !haveDefault))
      return Error("layer " + std::to_string(layer) + " of " +
                   std::to_string(config.layers) + " has " +
                   (named ? "several rules" : "no rule") +
                   ", it needs exactly one");
  }
  return std::unique_ptr<ReferenceExecutor>(
      std::make_unique<Player>(manifest, config, dtype));
}
