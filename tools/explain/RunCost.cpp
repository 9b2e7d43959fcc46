//===- RunCost.cpp - What a run costs beside a dense one ------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tools/explain/RunCost.h"

#include "bundle/program/Program.h"
#include "runtime/cache/IndexLists.h"
#include "runtime/denoise/CommitRule.h"
#include "runtime/sample/Sampler.h"
#include "runtime/sample/Timesteps.h"
#include "tools/explain/Explain.h"
#include "tools/explain/KeptPairs.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <numeric>
#include <span>
#include <utility>

using namespace heddle;
using namespace heddle::bundle;
using namespace heddle::explain;

namespace {

/// Adds up a run's steps.
class Counter {
public:
  Counter(const Manifest &manifest, const RunCostRequest &request,
          std::vector<size_t> ruleOfLayer)
      : manifest(manifest), request(request), shape(request.shape),
        ruleOfLayer(std::move(ruleOfLayer)) {
    for (const Rule &rule : manifest.rules)
      phases.push_back(phasesOfSteps(rule, request.run.steps, blockSteps()));
    for (const Rule &rule : manifest.rules)
      for (const Phase &phase : rule.phases)
        for (const Phase::Measure &each : phase.measures)
          weighs |= each.kernel >= 0;
    for (const Selection &selection : manifest.selections)
      due.push_back(
          includesSteps(selection.cadence, request.run.steps, blockSteps()));
    cost.rowsOfPass.assign(manifest.passes.size(), {INT64_MAX, 0});
    cost.visible = {INT64_MAX, 0};
  }

  void add(const SimulatedStep &step);
  RunCost take() { return std::move(cost); }

private:
  /// Of all sequences.
  struct LayerRows {
    int64_t exact = 0;
    int64_t salient = 0;
    int64_t ended = 0;  ///< of the step's rows, before the layer: by choice
    int64_t ending = 0; ///< in it
  };

  int64_t blockSteps() const { return request.run.blockSteps(); }
  /// Tabulated where the place is a planned one: a random cadence would draw
  /// its steps each time.
  bool isPlanned(const StepPlace &place) const {
    return place.step <= request.run.steps && !place.afterEos &&
           plannedPlace(place.step, request.run.steps, blockSteps()) == place;
  }
  size_t phaseOf(size_t rule, const StepPlace &place) const {
    return isPlanned(place) ? phases[rule][static_cast<size_t>(place.step - 1)]
                            : phaseAt(manifest.rules[rule], place);
  }
  bool refreshes(int64_t selection, const StepPlace &place) const {
    auto index = static_cast<size_t>(selection);
    return isPlanned(place)
               ? due[index][static_cast<size_t>(place.step - 1)]
               : includes(manifest.selections[index].cadence, place);
  }
  /// Whether a layer compares contexts: for itself, or for the next one.
  bool compares(const SimulatedStep &step, int64_t layer) const;
  int64_t refreshedRows(const SimulatedStep &step, int64_t layer) const;
  LayerRows rowsOf(const SimulatedStep &step, int64_t layer,
                   const LayerRows &before) const;
  Kept keptBy(size_t kernel, const SimulatedStep &step,
              std::span<const int32_t> of, int64_t rows);
  LayerStep layerStep(const SimulatedStep &step, size_t rule, int64_t layer,
                      const LayerRows &rows);
  void addScoring(const Phase &phase, const SimulatedStep &step,
                  LayerStep &layer) const;
  void addMeasures(const Phase &phase, const SimulatedStep &step, int64_t layer,
                   int64_t exact, Work &work);
  void addShadow(const SimulatedStep &step, LayerStep &layer) const;
  StepKind &kindOf(const SimulatedStep &step);

  const Manifest &manifest;
  const RunCostRequest &request;
  const ModelShape &shape;
  const std::vector<size_t> ruleOfLayer;
  std::vector<std::vector<size_t>> phases; ///< [rule][step - 1]
  std::vector<std::vector<bool>> due;      ///< [selection][step - 1]
  bool weighs = false; ///< some layer attends once more for what it measures
  /// What a kernel kept of the rows that were counted last: steps in turn have
  /// the same rows, and a window with gaps has many runs of keys.
  struct Counted {
    std::vector<int32_t> visible, rows;
    std::vector<int64_t> always;
    Kept kept{};
  };
  /// By kernel, and by the number of rows, which differs from layer to layer.
  std::map<std::pair<size_t, size_t>, Counted> counted;
  std::map<std::vector<int64_t>, size_t> kinds;
  RunCost cost;
};

bool Counter::compares(const SimulatedStep &step, int64_t layer) const {
  return step.layer(layer).pass->comparesContexts() ||
         (layer + 1 < shape.layers &&
          reuseOf(manifest, layer, shape.layers).keepsContext() &&
          step.layer(layer + 1).pass->exact == Pass::Exact::Salient);
}

/// Rows that a layer computes exactly, and those that it finds to have changed.
Counter::LayerRows Counter::rowsOf(const SimulatedStep &step, int64_t layer,
                                   const LayerRows &before) const {
  const SimulatedLayer &here = step.layer(layer);
  const Pass &pass = *here.pass;
  // Of one sequence. What was chosen from before is chosen from again.
  const int64_t ended = (before.ended + before.ending) / step.sequences;
  const int64_t own = std::max<int64_t>(0, std::ssize(here.rows) - ended);
  const int64_t among = std::max<int64_t>(0, here.among - ended);
  const int64_t all = step.sequences * own;
  LayerRows rows{all, all, step.sequences * ended, 0};
  if (compares(step, layer)) {
    const RunLog *log = request.run.follow.get();
    auto at = static_cast<size_t>(step.place.step - 1);
    if (log && layer < std::ssize(log->passes[at].counters.salientRows))
      rows.salient =
          log->passes[at].counters.salientRows[static_cast<size_t>(layer)];
    else
      rows.salient = std::llround(
          request.salientShare *
          static_cast<double>(step.sequences * (pass.comparesContexts()
                                                    ? std::ssize(here.in)
                                                    : own)));
  }
  if (pass.exact == Pass::Exact::Salient)
    rows.exact = std::min<int64_t>(
        all, layer == 0 ? step.sequences * step.justCommitted : before.salient);
  if (pass.exact == Pass::Exact::LeastSimilar && layer > 0) {
    auto kept = static_cast<int64_t>(static_cast<__int128>(pass.keep.num) *
                                     among / pass.keep.den);
    rows.exact =
        step.sequences * (own - among + std::min<int64_t>(kept, among));
    if (!reuseOf(manifest, layer, shape.layers).carries())
      rows.ending = all - rows.exact;
  }
  return rows;
}

/// Of one head, for `rows` of the rows `of` some positions in all sequences.
Kept Counter::keptBy(size_t index, const SimulatedStep &step,
                     std::span<const int32_t> of, int64_t rows) {
  const auto n = static_cast<int64_t>(step.visible.size());
  const auto own = std::ssize(of);
  const Kernel &kernel = manifest.kernels[index];
  if (kernel.terms.empty())
    return {rows * step.keys};
  Counted &last = counted[{index, of.size()}];
  if (!std::ranges::equal(last.rows, of) ||
      !std::ranges::equal(last.visible, step.visible) ||
      !std::ranges::equal(last.always, step.always))
    last = {{step.visible.begin(), step.visible.end()},
            {of.begin(), of.end()},
            {step.always.begin(), step.always.end()},
            keptPairs(kernel, manifest,
                      {.length = request.run.length,
                       .prompt = request.run.prompt,
                       .visible = step.visible,
                       .rows = of,
                       .always = step.always})};
  Kept kept = last.kept;
  if (kept.even) {
    kept.pairs = kept.pairs / own * rows;
  } else {
    kept.pairs *= step.sequences;
    // Which rows these are, the run decides: each as the widest one at most.
    if (rows < step.sequences * own) {
      kept.exact = false;
      kept.pairs = std::min(kept.pairs, rows * n);
    }
  }
  return kept;
}

void Counter::addScoring(const Phase &phase, const SimulatedStep &step,
                         LayerStep &layer) const {
  const auto n = static_cast<int64_t>(step.visible.size());
  const int64_t active = step.sequences * std::ssize(step.active);
  bool scored = false; // by log-sum-exps
  for (const Phase::Refresh &refresh : phase.refreshes) {
    if (!refreshes(refresh.selection, step.place))
      continue;
    const Selection &selection =
        manifest.selections[static_cast<size_t>(refresh.selection)];
    scored |= readsLse(selection.scorer);
    layer.scored = step.sequences * n;
    layer.scoreGroup = selection.group;
    layer.scoreTasks =
        step.sequences *
        (shape.heads / selection.headsPerList(shape.heads, shape.kvHeads)) *
        (std::max<int64_t>(n - 1, 0) / selection.group + 1);
    layer.scoresBlocks = selection.kind == Selection::Kind::Blocks;
    const int64_t rows =
        step.scoring.empty()
            ? -1
            : step.scoring[static_cast<size_t>(refresh.selection)];
    const int64_t pairs = step.sequences * shape.heads *
                          selection.scoringRows(rows < 0 ? n : rows) * n;
    layer.work.scorePairs += pairs;
    if (!readsLse(selection.scorer))
      layer.logitPairs += pairs;
    const int64_t prompt =
        std::lower_bound(step.visible.begin(), step.visible.end(),
                         request.run.prompt) -
        step.visible.begin();
    const int64_t before =
        rt::blockSpans(selection, n, prompt).boundary * selection.group;
    for (const Phase::Scoring &scoring : refresh.scorings)
      if (!scoring.ofResponse || before > 0)
        layer.work.lsePairs +=
            shape.heads * active * (scoring.ofResponse ? n - before : n);
  }
  if (scored && phase.scoring >= 0)
    layer.work.lsePairs += shape.heads * active * n;
}

/// What is measured by a kernel attends once more, of the sequence that goes by
/// what it finds.
void Counter::addMeasures(const Phase &phase, const SimulatedStep &step,
                          int64_t layer, int64_t exact, Work &work) {
  for (const Phase::Measure &each : phase.measures) {
    const int64_t measured =
        each.cadence.layer + (each.cadence.layer < 0 ? shape.layers : 0);
    if (each.kernel < 0 || measured != layer || exact == 0 ||
        includes(each.cadence, step.place))
      continue;
    const Kept kept = keptBy(static_cast<size_t>(each.kernel), step,
                             step.layer(layer).rows, exact);
    work.lsePairs += shape.heads * kept.pairs / step.sequences;
    if (!kept.exact && cost.certainty == Certainty::Exact)
      cost.certainty = Certainty::AtMost;
  }
}

/// Of one sequence, rows that attend to the keys outside of a set at a step
/// that does not keep it of all.
int64_t Counter::refreshedRows(const SimulatedStep &step, int64_t layer) const {
  const Ratio keep = manifest.reuse.keep;
  return layer == 0 ? step.refreshable
                    : static_cast<int64_t>(static_cast<__int128>(keep.num) *
                                           step.refreshable / keep.den);
}

LayerStep Counter::layerStep(const SimulatedStep &step, size_t rule,
                             int64_t layer, const LayerRows &rows) {
  const Reuse &reuse = reuseOf(manifest, layer, shape.layers);
  const SimulatedLayer &here = step.layer(layer);
  const int64_t active = step.sequences * std::ssize(step.active);
  const int64_t in = step.sequences * std::ssize(here.in) - rows.ended;
  const int64_t out = std::max<int64_t>(
      0, step.sequences * std::ssize(here.out) - rows.ended - rows.ending);
  const Phase &phase = manifest.rules[rule].phases[phaseOf(rule, step.place)];
  const auto kernel = static_cast<size_t>(phase.attention);
  const int64_t refreshed = refreshedRows(step, layer);
  LayerStep result;
  result.rows = out;
  result.visible =
      step.sequences * (refreshed > 0 ? std::ssize(step.visible) : step.keys);
  result.compares =
      compares(step, layer) ||
      (layer > 0 && (here.pass->comparesValues() ||
                     (reuse.refreshesByValues() && step.refreshable > 0)));
  bool propagates = reuse.attention == Reuse::Attention::Propagated &&
                    rows.exact > 0 && rows.exact < active;
  // Of both sequences that a step of guidance has, one may have no such row.
  if (propagates && step.sequences > 1 && here.pass->comparesContexts())
    cost.certainty = std::max(cost.certainty, Certainty::AtMost);
  Work &work = result.work;
  work.queryRows = propagates ? in : rows.exact;
  work.keyRows = rows.exact;
  work.valueRows =
      here.pass->comparesValues()
          ? std::max<int64_t>(0, step.sequences * std::ssize(here.rows) -
                                     rows.ended)
          : rows.exact;
  work.projectedRows =
      reuse.attention == Reuse::Attention::Output ? rows.exact : out;
  work.ffnRows = !reuse.ffn                      ? out
                 : here.pass->comparesContexts() ? rows.salient
                                                 : rows.exact;
  result.attended = work.queryRows;
  result.merged = step.merges ? active : 0;
  if (result.attended > 0) {
    Kept kept =
        keptBy(kernel, step, propagates ? here.in : here.rows, result.attended);
    work.pairs =
        shape.heads * (kept.pairs + step.sequences * refreshed *
                                        (std::ssize(step.visible) - step.keys));
    if (!kept.exact && cost.certainty == Certainty::Exact)
      cost.certainty = Certainty::AtMost;
  }
  // Parts of the keys have kernels for some rows.
  result.whole =
      !step.merges && result.attended == step.sequences * request.run.length &&
      std::ranges::count_if(manifest.kernels[kernel].terms, readsList) <= 1;
  for (const Term &term : manifest.kernels[kernel].terms) {
    using Pattern = LayerStep::Pattern;
    if (!readsList(term)) {
      if (result.pattern == Pattern::Dense)
        result.pattern = Pattern::Band;
      continue;
    }
    result.pattern =
        term.kind == Term::Kind::Columns ? Pattern::Columns : Pattern::Blocks;
    result.group =
        manifest.selections[static_cast<size_t>(term.selection)].group;
  }
  addScoring(phase, step, result);
  if (phase.rollout >= 0 && rows.exact > 0) {
    // Of one sequence, which both halves of a guided one go by.
    // They may differ in rows that were found to have changed.
    if (step.sequences > 1 && here.pass->comparesContexts())
      cost.certainty = Certainty::About;
    const int64_t n = std::ssize(step.visible);
    work.scorePairs += shape.heads * (rows.exact / step.sequences) * n;
    result.scored = n;
    result.scoreGroup = groupOfAll;
    result.scoreTasks = shape.heads;
  }
  addMeasures(phase, step, layer, rows.exact, work);
  addShadow(step, result);
  return result;
}

/// The rows of shadows, each of which has all keys of its sequence but one, and
/// all of its own.
void Counter::addShadow(const SimulatedStep &step, LayerStep &layer) const {
  const int64_t rows = step.sequences * step.shadowRows;
  const int64_t keys = std::ssize(step.visible) + step.shadowRows;
  if (rows == 0)
    return;
  layer.rows += rows;
  layer.attended += rows;
  layer.visible += step.sequences * keys;
  layer.work.pairs += shape.heads * rows * (keys - 1);
  for (int64_t Work::*of : {&Work::queryRows, &Work::keyRows, &Work::valueRows,
                            &Work::projectedRows, &Work::ffnRows})
    layer.work.*of += rows;
}

/// The kind of a step, a new one if there was none like it.
StepKind &Counter::kindOf(const SimulatedStep &step) {
  const std::vector<size_t> passes = passesAt(manifest, step.place);
  std::vector<int64_t> key(passes.begin(), passes.end());
  key.push_back(-1);
  for (size_t rule = 0; rule < manifest.rules.size(); ++rule)
    key.push_back(static_cast<int64_t>(phaseOf(rule, step.place)));
  for (size_t i = 0; i < manifest.selections.size(); ++i)
    key.push_back(refreshes(static_cast<int64_t>(i), step.place));
  const bool merges = step.merges && step.keys < std::ssize(step.visible);
  const bool keeps = step.merges && !merges;
  key.push_back(merges ? 1 : keeps ? 2 : 0);
  key.push_back(step.shadowRows > 0);
  auto [found, isNew] = kinds.emplace(std::move(key), cost.kinds.size());
  if (!isNew)
    return cost.kinds[found->second];
  std::string what;
  for (size_t pass : passes)
    what += (what.empty() ? "computes " : " and ") +
            passText(manifest, manifest.passes[pass]);
  if (!passes.empty())
    what += "; ";
  std::vector<std::string> patterns, refreshed;
  auto note = [](std::vector<std::string> &list, std::string text) {
    if (std::ranges::find(list, text) == list.end())
      list.push_back(std::move(text));
  };
  for (size_t rule = 0; rule < manifest.rules.size(); ++rule) {
    if (std::ranges::find(ruleOfLayer, rule) == ruleOfLayer.end())
      continue;
    const Phase &phase = manifest.rules[rule].phases[phaseOf(rule, step.place)];
    note(patterns,
         words(manifest.kernels[static_cast<size_t>(phase.attention)].terms,
               manifest));
    for (const Phase::Refresh &refresh : phase.refreshes)
      if (refreshes(refresh.selection, step.place))
        note(refreshed,
             manifest.selections[static_cast<size_t>(refresh.selection)].name);
  }
  for (size_t i = 0; i < patterns.size(); ++i)
    what += (i ? " and " : "") + patterns[i];
  for (size_t i = 0; i < refreshed.size(); ++i)
    what += (i ? " and " : "; refreshes ") + refreshed[i];
  if (merges || keeps)
    what += (merges ? " inside of " : "; keeps attention outside of ") +
            toString(manifest, manifest.reuse.inside) +
            (merges ? ", merged with what is kept" : "") +
            (merges && manifest.reuse.refreshed >= 0
                 ? ", refreshed for " + refreshedText(manifest, manifest.reuse)
                 : "");
  if (step.shadowRows > 0)
    what += "; a shadow of the block";
  StepKind &kind = cost.kinds.emplace_back();
  kind.what = std::move(what);
  return kind;
}

void Counter::add(const SimulatedStep &step) {
  auto widen = [](RowCount &count, int64_t rows) {
    count = {std::min(count.least, rows), std::max(count.most, rows)};
  };
  widen(cost.visible, std::ssize(step.visible));
  const Pass *last = nullptr;
  for (const SimulatedLayer &layer : step.layers) {
    if (manifest.passes.empty() || layer.pass == last)
      continue;
    last = layer.pass;
    widen(cost.rowsOfPass[static_cast<size_t>(last - manifest.passes.data())],
          std::ssize(layer.rows));
  }
  Cost all;
  Seconds seconds;
  auto addLayers = [&](const LayerStep &layer, int64_t times) {
    all += explain::costOf(shape, layer) * times;
    seconds += secondsOfLayer(request.machine, shape, layer) *
               static_cast<double>(times);
  };
  bool differ = step.layers.size() > 1 || !manifest.layeredReuses.empty() ||
                weighs || refreshedRows(step, 0) != refreshedRows(step, 1);
  bool compared = false;
  for (const SimulatedLayer &layer : step.layers) {
    differ |= layer.pass->exact != Pass::Exact::All;
    compared |= layer.pass->comparesContexts();
  }
  LayerRows rows;
  if (differ || request.run.follow) {
    for (int64_t layer = 0; layer < shape.layers; ++layer) {
      rows = rowsOf(step, layer, rows);
      addLayers(
          layerStep(step, ruleOfLayer[static_cast<size_t>(layer)], layer, rows),
          1);
    }
  } else {
    rows = rowsOf(step, 0, {});
    for (size_t rule = 0; rule < manifest.rules.size(); ++rule)
      if (int64_t layers =
              std::count(ruleOfLayer.begin(), ruleOfLayer.end(), rule))
        addLayers(layerStep(step, rule, 0, rows), layers);
  }
  // Which rows go on is seen in the run, and so what it commits.
  if (rows.ended + rows.ending > 0 && !request.run.follow)
    cost.certainty = Certainty::About;
  if (compared && !request.run.follow)
    cost.certainty =
        std::max(cost.certainty, request.salientShare < 1 ? Certainty::About
                                                          : Certainty::AtMost);
  all += explain::costOf(shape, {.work = {.logitRows = step.logitRows}});
  seconds += secondsOfHead(request.machine, shape, step.logitRows);
  StepKind &kind = kindOf(step);
  kind.steps.push_back(step.place.step);
  kind.cost += all;
  kind.seconds += seconds;
  cost.run += all;
  cost.seconds += seconds;
  cost.ofStep.push_back(all.work);
  ++cost.steps;
  cost.sequences = std::max(cost.sequences, step.sequences / step.copies);
}

/// Whether it can matter which tokens are committed, not only how many.
bool dependsOnOrder(const Manifest &manifest) {
  return std::ranges::any_of(manifest.positions, [](const Positions &set) {
    switch (set.kind) {
    case Positions::Kind::All:
    case Positions::Kind::Prompt:
    case Positions::Kind::Response:
    case Positions::Kind::Block:
    case Positions::Kind::BeforeBlock:
    case Positions::Kind::FromBlock:
      return false;
    default:
      return true;
    }
  });
}

/// Rows through the LM head at each step of a dense run: what of a block is
/// masked, unless nothing of it is due.
std::vector<int64_t> denseLogitRows(const SimulationRequest &run) {
  std::vector<int64_t> rows;
  if (run.eps) {
    int64_t masked = run.response();
    for (int64_t step = 1; step <= run.steps; ++step) {
      int64_t quota = rt::transferQuota(masked, step, run.steps, *run.eps);
      rows.push_back(quota > 0 ? masked : 0);
      masked -= quota;
    }
    return rows;
  }
  for (int64_t i = 0; i < run.blocks(); ++i) {
    int64_t masked = run.ofBlock();
    for (int64_t quota : rt::commitQuotas(masked, run.blockSteps())) {
      rows.push_back(quota > 0 ? masked : 0);
      masked -= quota;
    }
  }
  return rows;
}

/// A run whose steps all compute all rows needs no simulation.
void addWholeSteps(const Manifest &manifest, const RunCostRequest &request,
                   Counter &counter) {
  std::vector<int32_t> all(static_cast<size_t>(request.run.length));
  std::iota(all.begin(), all.end(), 0);
  const Pass everything;
  const SimulatedLayer layer{&everything, all, 0, all, all};
  int64_t step = 0;
  DriftWatch drift(manifest, request.shape.layers);
  const std::vector<std::optional<double>> similarities(
      drift.layers().size(),
      request.run.drifts ? std::optional<double>(-1) : std::nullopt);
  for (int64_t logitRows : denseLogitRows(request.run)) {
    const StepPlace place = drift.at(
        plannedPlace(++step, request.run.steps, request.run.blockSteps()));
    counter.add({.place = place,
                 .layers = {&layer, 1},
                 .visible = all,
                 .keys = std::ssize(all),
                 .active = all,
                 .logitRows = logitRows});
    drift.finish(place, similarities);
  }
}

Result<RunCost> simulateCost(const Manifest &manifest,
                             const RunCostRequest &request) {
  Result<std::vector<size_t>> rules =
      rulesOfLayers(manifest, request.shape.layers);
  if (!rules)
    return rules.takeError();
  Counter counter(manifest, request, std::move(*rules));
  // How many positions are in the sets that selections name only a simulation
  // knows.
  const bool namesSets = std::any_of(
      manifest.selections.begin(), manifest.selections.end(),
      [](const Selection &each) { return each.rows >= 0 || each.always >= 0; });
  if (manifest.computesAll() && !namesSets && !request.run.follow) {
    addWholeSteps(manifest, request, counter);
    return counter.take();
  }
  Status status =
      simulate(manifest, request.run,
               [&](const SimulatedStep &step) { counter.add(step); });
  if (!status)
    return status.takeError();
  return counter.take();
}

/// Whether attention may change at a step that refreshes no selection.
bool changesBetweenRefreshes(const Manifest &manifest) {
  return std::ranges::any_of(manifest.rules, [&](const Rule &rule) {
    return std::ranges::any_of(rule.phases, [&](const Phase &phase) {
      return phase.when.kind != When::Kind::Otherwise &&
             std::ranges::none_of(
                 manifest.selections, [&](const Selection &selection) {
                   return selection.cadence == phase.when.cadence;
                 });
    });
  });
}

} // namespace

RunCost heddle::explain::costOfDense(const RunCostRequest &request,
                                     std::span<const int64_t> lengths) {
  const ModelShape &shape = request.shape;
  int64_t rows = 0, pairs = 0;
  for (int64_t n : lengths) {
    rows += n;
    pairs += shape.heads * n * n;
  }
  const LayerStep layer = {.work = {.queryRows = rows,
                                    .keyRows = rows,
                                    .valueRows = rows,
                                    .pairs = pairs,
                                    .projectedRows = rows,
                                    .ffnRows = rows},
                           .rows = rows,
                           .visible = rows,
                           .attended = rows,
                           .whole = true};
  RunCost cost;
  for (int64_t each : denseLogitRows(request.run)) {
    const int64_t logitRows = each * std::ssize(lengths);
    cost.run += explain::costOf(shape, {.work = {.logitRows = logitRows}});
    cost.seconds += secondsOfHead(request.machine, shape, logitRows);
    ++cost.steps;
  }
  const int64_t times = shape.layers * cost.steps;
  cost.run += explain::costOf(shape, layer) * times;
  cost.seconds += secondsOfLayer(request.machine, shape, layer) *
                  static_cast<double>(times);
  return cost;
}

Result<RunCost> heddle::explain::costOf(const Manifest &manifest,
                                        const RunCostRequest &request) {
  Result<RunCost> cost = simulateCost(manifest, request);
  if (!cost)
    return cost;
  if (!request.run.follow) {
    // Where a step may revoke, how many tokens it keeps goes by confidence,
    // too: one at least, or with one candidate none is revoked.
    const bool byConfidence = anyCommit(manifest, rt::countsByConfidence) ||
                              anyCommit(manifest, &CommitRule::revokes) ||
                              anyCommit(manifest, &CommitRule::stopAtEos);
    if (byConfidence)
      cost->ofSteps =
          request.run.tokensPerStep > 1 ? Certainty::About : Certainty::AtMost;
    // Further passes are taken to be as many as may be. What is edited counts
    // as committed then, of which there may be more than in the simulation.
    if (anyCommit(manifest, [](const CommitRule &rule) {
          return rule.furtherPasses > 0;
        }))
      cost->ofSteps = std::max(cost->ofSteps, Certainty::AtMost);
    cost->certainty = std::max(cost->certainty, cost->ofSteps);
    if (anyCommit(manifest, &CommitRule::edits) &&
        std::ranges::any_of(manifest.positions, [](const Positions &set) {
          return set.kind == Positions::Kind::Committed;
        }))
      cost->certainty = Certainty::About;
    const bool byDraws =
        request.run.drawn && anyCommit(manifest, [](const CommitRule &rule) {
          return rule.kind == CommitRule::Kind::Quota;
        });
    if (byDraws || readsAttention(manifest))
      cost->certainty = Certainty::About;
    if (!driftsOf(manifest).empty()) {
      cost->certainty = Certainty::About;
      RunCostRequest most = request;
      most.run.drifts = true;
      Result<RunCost> again = simulateCost(manifest, most);
      if (!again)
        return again;
      cost->mostOperations = operationsOf(request.shape, again->run.work);
    }
    if (const int64_t drafts = manifest.commit.drafts; drafts > 0) {
      cost->certainty = Certainty::About;
      cost->mostOperations = static_cast<double>(1 + drafts) *
                             operationsOf(request.shape, cost->run.work);
    }
    if (dependsOnOrder(manifest))
      for (uint64_t seed : {2, 3}) {
        RunCostRequest other = request;
        other.run.seed = seed;
        Result<RunCost> again = simulateCost(manifest, other);
        if (!again)
          return again;
        if (again->ofStep != cost->ofStep)
          cost->certainty = Certainty::About;
        if (again->steps != cost->steps)
          cost->ofSteps = Certainty::About;
      }
  }
  // Copies at steps of several kinds are taken to be like the first. Where a
  // selection is refreshed there are none.
  else if (manifest.commit.verifies() && changesBetweenRefreshes(manifest))
    cost->certainty = Certainty::About;
  const std::vector<int64_t> lengths(static_cast<size_t>(cost->sequences),
                                     request.run.length);
  RunCost dense = costOfDense(request, lengths);
  cost->dense = dense.run;
  cost->denseSeconds = dense.seconds;
  return cost;
}

std::string heddle::explain::idleStepsText(const Manifest &manifest,
                                           int64_t tokens) {
  const int64_t least = manifest.commit.leastPasses;
  if (least <= tokens)
    return "";
  return "a block takes at least " + std::to_string(least) +
         " steps, but it has " + counted(tokens, "token") +
         ": later steps find nothing to commit";
}

const char *heddle::explain::boundText(Certainty certainty) {
  return certainty == Certainty::AtMost  ? "at most "
         : certainty == Certainty::About ? "about "
                                         : "";
}

const char *heddle::explain::speedBoundText(Certainty certainty) {
  return certainty == Certainty::AtMost ? "at least " : boundText(certainty);
}

std::string heddle::explain::counted(int64_t count, const std::string &what) {
  return std::to_string(count) + " " + what + (count == 1 ? "" : "s");
}

std::string heddle::explain::percentOf(double of, double all) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.1f%%", all > 0 ? 100 * of / all : 0);
  return text;
}

std::string heddle::explain::shareText(const ModelShape &shape, const Cost &run,
                                       const Cost &dense, Certainty certainty) {
  auto share = [&](Part part) {
    return percentOf(amountOf(run.work, part), amountOf(dense.work, part));
  };
  auto wide = [](int64_t rows) { return static_cast<double>(rows); };
  std::string text =
      "of a dense run: operations " + std::string(boundText(certainty)) +
      percentOf(operationsOf(shape, run.work),
                operationsOf(shape, dense.work)) +
      ", bytes " + percentOf(sumOf(run.bytes), sumOf(dense.bytes)) + "; rows " +
      share(Part::Qkv) + " (QKV), " +
      percentOf(wide(run.work.queryRows), wide(dense.work.queryRows)) +
      " (attention), " + share(Part::Ffn) + " (FFN), " + share(Part::Head) +
      " (LM head); attention " + share(Part::Attention) + " of the pairs";
  if (amountOf(run.work, Part::Scoring) > 0)
    text +=
        ", scoring another " + percentOf(amountOf(run.work, Part::Scoring),
                                         amountOf(dense.work, Part::Attention));
  return text;
}
