//===- Simulation.cpp - A run without a model ----------------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tools/explain/Simulation.h"

#include "bundle/program/Program.h"
#include "bundle/program/ProgramChecks.h"
#include "runtime/denoise/CommitRule.h"
#include "runtime/denoise/SequenceRun.h"
#include "runtime/schedule/SequenceRows.h"
#include "tools/explain/RunCost.h"

#include "runtime/sample/Sampler.h"

#include <algorithm>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <vector>

using namespace heddle;
using bundle::CommitRule;
using explain::SimulatedLayer;

namespace {

/// A number in [0, 1) for a position at a step: splitmix64's finaliser (Steele,
/// Lea and Flood 2014) over the three.
double confidenceAt(uint64_t seed, int64_t step, int64_t position) {
  uint64_t z = seed * 0x9E3779B97F4A7C15u +
               static_cast<uint64_t>(step) * 0xD1B54A32D192ED03u +
               static_cast<uint64_t>(position) * 0x8CB92BA72F3D8DD7u;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  return static_cast<double>((z ^ (z >> 31)) >> 11) * 0x1p-53;
}

/// The masked positions that the step may commit, ascending; `active`: whether
/// the row of a position comes out of the last layer. `again`: those whose
/// tokens the step looks at, whether they become others, or masks again.
void findCandidates(const rt::SequenceRun &run, const rt::SequenceRows &rows,
                    const rt::ModelConfig &config,
                    std::span<const uint8_t> active, std::vector<int32_t> &out,
                    std::vector<int32_t> &again) {
  out.clear();
  again.clear();
  const bool edits = run.stepRule().edits();
  if (run.stepRule().byQuota() && run.quota() == 0 &&
      !(edits && run.isExtraPass()))
    return;
  const bool ordered = run.stepRule().kind == CommitRule::Kind::RandomOrder;
  const auto most = ordered ? static_cast<size_t>(run.quota()) : SIZE_MAX;
  auto isActive = [&](int64_t position) {
    return active[static_cast<size_t>(position)] != 0;
  };
  for (int32_t position : run.order()) {
    const bool masked = run.isCandidate(position) && out.size() < most;
    if (!(masked || run.isRevocable(position) || run.isEditable(position)) ||
        !rows.inCommitSet(position) ||
        !(isActive(config.predictingRow(position)) ||
          (rows.alone() && isActive(position))))
      continue;
    (masked ? out : again).push_back(position);
  }
  if (ordered)
    std::sort(out.begin(), out.end());
  if (edits ? out.empty() && !run.isExtraPass() : out.size() < 2)
    again.clear();
}

/// The similarities that the step before a pass found in so many layers, as the
/// log has them or of a run in which all or nothing drifts.
std::vector<std::optional<double>>
similaritiesBefore(const explain::SimulationRequest &request, size_t pass,
                   size_t layers) {
  std::vector<std::optional<double>> found(layers);
  if (request.follow) {
    found = request.follow->passes[pass].counters.similarity;
    found.resize(layers);
  } else if (request.drifts) {
    found.assign(layers, -1);
  }
  return found;
}

/// The layers of a step, and the positions that its passes' rows have.
class LayersOfStep {
public:
  void set(const rt::SequenceRows &rows, std::span<const int32_t> active,
           int64_t layers);

  std::span<const SimulatedLayer> all() const { return own; }
  /// Those that not all layers compute, or of which the run decides.
  const std::vector<int32_t> &partly() const { return unsure; }
  /// Of the active rows those that come out of the last layer.
  std::span<const int32_t> last() const { return own.back().out; }

private:
  std::vector<std::vector<int32_t>> positions; ///< of the step's passes
  std::vector<SimulatedLayer> own;
  std::vector<int32_t> unsure;
};

void LayersOfStep::set(const rt::SequenceRows &rows,
                       std::span<const int32_t> active, int64_t layers) {
  const std::vector<rt::SequenceRows::Part> &parts = rows.partsOfStep();
  positions.assign(parts.size(), {});
  std::vector<uint8_t> isUnsure(active.size(), 0);
  for (size_t i = 0; i < parts.size(); ++i) {
    const rt::SequenceRows::Part &part = parts[i];
    const bool compares = part.pass->comparesContexts();
    size_t next = 0;
    for (size_t row = 0; row < active.size(); ++row) {
      const bool has =
          part.rows.all || (next < part.rows.rows.size() &&
                            part.rows.rows[next] == static_cast<int32_t>(row));
      next += has;
      if (has)
        positions[i].push_back(active[row]);
      isUnsure[row] |= !has || compares;
    }
    for (int32_t row : part.among)
      isUnsure[static_cast<size_t>(row)] = 1;
  }
  unsure.clear();
  for (size_t row = 0; row < active.size(); ++row)
    if (isUnsure[row])
      unsure.push_back(active[row]);
  own.clear();
  std::span<const int32_t> in = active;
  for (int64_t layer = 0; layer < (parts.size() > 1 ? layers : 1); ++layer) {
    const size_t part = rows.partIndex(layer);
    std::span<const int32_t> out = rows.carriesOn(layer) ? in : positions[part];
    own.push_back({parts[part].pass, positions[part],
                   std::ssize(parts[part].among), in, out});
    in = out;
  }
}

/// How many candidates a step commits where the run's confidences decide: of
/// what it commits and revokes, how many more it commits.
int64_t countOf(const CommitRule &rule, double tokensPerStep,
                const bundle::StepPlace &place, int64_t committedInBlock,
                int64_t quota) {
  if (!rt::countsByConfidence(rule) && !rule.revokes())
    return quota;
  if (rule.kind == CommitRule::Kind::Best && !rule.revokes())
    return rule.count;
  auto due = static_cast<int64_t>(tokensPerStep *
                                  static_cast<double>(place.stepInBlock));
  const int64_t sure = std::max<int64_t>(1, due - committedInBlock);
  return rule.byQuota()                        ? std::min(sure, quota)
         : rule.kind == CommitRule::Kind::Best ? std::min(sure, rule.count)
                                               : sure;
}

} // namespace

/// Of the selections that the step refreshes: SimulatedStep::scoring and
/// always.
static Status measure(const bundle::Manifest &manifest,
                      const rt::SequenceRows &rows,
                      std::vector<int64_t> &scoring,
                      std::vector<int64_t> &always) {
  for (size_t i = 0; i < manifest.selections.size(); ++i) {
    const bundle::Selection &selection = manifest.selections[i];
    if (!rows.inStep() || !bundle::includes(selection.cadence, rows.place()))
      continue;
    for (auto [set, size] : {std::pair(selection.rows, &scoring[i]),
                             std::pair(selection.always, &always[i])}) {
      if (set < 0)
        continue;
      Result<rt::SequenceRows::Range> range = rows.rangeOf(set);
      if (!range)
        return range.takeError();
      *size = range->end - range->begin;
    }
    if (scoring[i] == 0) // none of them is visible
      scoring[i] = -1;
  }
  return Status::success();
}

/// Whether a run that was followed has ended where its log does, with the same
/// tokens.
static Status checkEnd(const explain::RunLog &log, const rt::SequenceRun &run,
                       const rt::ModelConfig &config, int64_t passes) {
  if (passes < std::ssize(log.passes))
    return log.unlike(static_cast<size_t>(passes),
                      "stands behind the run's end: here it takes " +
                          explain::counted(passes, "step"));
  // Which token is EOS only a model says.
  if (!run.done() && !(run.stepRule().stopAtEos && config.eosToken < 0))
    return log.unlike(
        static_cast<size_t>(passes) - 1,
        "is the last one, but here the run of " +
            explain::counted(log.lengths.steps, "planned step") +
            " goes on, with " +
            explain::counted(std::ranges::count(run.masked(), uint8_t(1)),
                             "masked position"));
  const std::vector<int32_t> &made = run.tokens();
  for (size_t i = static_cast<size_t>(run.promptLength()); i < made.size(); ++i)
    if (!log.tokens.empty() && run.masked()[i] == 0 && made[i] != log.tokens[i])
      return log.badEnd("has token " + std::to_string(log.tokens[i]) +
                        " at position " + std::to_string(i) +
                        ", where the steps leave token " +
                        std::to_string(made[i]));
  return Status::success();
}

/// Whether the log says what following a run of this schedule goes by.
static Status checkLog(const bundle::Manifest &manifest,
                       const explain::RunLog &log) {
  if (bundle::readsConfidences(manifest) &&
      std::ranges::all_of(log.passes, [](const auto &pass) {
        return pass.predictions.empty();
      }))
    return Error(
        log.name +
        ": the schedule goes by the confidence of earlier predictions, "
        "of which the log says nothing; write it with heddle-run "
        "--steps-json and this schedule");
  if (bundle::readsAttention(manifest) &&
      std::ranges::all_of(log.passes,
                          [](const auto &pass) { return pass.drawn.empty(); }))
    return Error(
        log.name +
        ": the schedule goes by the attention that positions drew, of which "
        "the log says nothing; write it with heddle-run --steps-json and this "
        "schedule");
  if (std::ranges::any_of(log.passes, [&](const auto &pass) {
        return pass.verified.empty() == manifest.commit.verifies();
      }))
    return Error(log.name + ": the log " +
                 (manifest.commit.verifies()
                      ? "does not say how many steps each pass made, though "
                      : "says how many steps each pass made, but not that ") +
                 "the schedule verifies drafts; write it with heddle-run "
                 "--steps-json and this schedule");
  return Status::success();
}

static rt::GenerateOptions
optionsOf(const explain::SimulationRequest &request) {
  rt::GenerateOptions options;
  options.genLength = request.response();
  options.steps = request.steps;
  options.blockLength = request.ofBlock();
  options.sampling.seed = request.seed;
  if (request.eps) {
    options.sampling.timesteps.emplace();
    options.sampling.timesteps->rule = rt::TransferRule::MaskgitPlus;
    options.sampling.timesteps->eps = *request.eps;
  }
  return options;
}

/// Token 0 stands for every token, edited ones are 3 and 0 by turns: neither
/// mask nor EOS.
static rt::ModelConfig configOf(const explain::SimulationRequest &request) {
  rt::ModelConfig config;
  config.maskToken = 1;
  config.eosToken = 2;
  config.shiftedLogits = request.shifted;
  if (request.follow) {
    config.maskToken = request.maskToken;
    config.eosToken = request.eosToken;
  }
  return config;
}

namespace {

/// A run and what its step at hand has. Parts of a step are methods, in the
/// order in which simulate() calls them.
class Simulator {
public:
  Simulator(const bundle::Manifest &manifest,
            const explain::SimulationRequest &request,
            const std::function<void(const explain::SimulatedStep &)> &observer)
      : manifest(manifest), request(request), observer(observer),
        options(optionsOf(request)), config(configOf(request)),
        prompt(static_cast<size_t>(request.prompt), 0),
        run(prompt, options, config, manifest.commit, manifest.datedCommits),
        rows(manifest, request.shifted, request.layers,
             {request.length, request.prompt}),
        drift(manifest, request.layers),
        goesByAttention(bundle::readsAttention(manifest)),
        goesByConfidence(bundle::readsConfidences(manifest)),
        patience(rt::longestIdle(manifest, request.steps)),
        scoring(manifest.selections.size(), -1),
        always(manifest.selections.size(), 0) {}

  Status simulate();

private:
  Status step();
  Status begin();
  Status compareRows();
  Status compareCounts(const rt::StepCounters &counters);
  Status chooseCandidates();
  Status learnLogged();
  void predict();
  Status takeLogged();
  void choose();
  void show();
  Status advance();

  Error unlike(const std::string &what) const {
    return request.follow->unlike(static_cast<size_t>(passes), what);
  }

  const bundle::Manifest &manifest;
  const explain::SimulationRequest &request;
  const std::function<void(const explain::SimulatedStep &)> &observer;
  const rt::GenerateOptions options;
  const rt::ModelConfig config;
  const std::vector<int32_t> prompt;
  rt::SequenceRun run;
  rt::SequenceRows rows;
  bundle::DriftWatch drift;

  // Of the run so far.
  const bool goesByAttention, goesByConfidence;
  const int64_t patience;
  int64_t passes = 0; ///< before this one, each of a step unless it verifies
  int64_t block = 0, committedInBlock = 0;
  int64_t idle = 0;                     ///< steps that could commit nothing
  std::optional<bool> guided;           ///< whether each step runs twice (logs)
  std::vector<double> attention;        ///< that positions drew the step before
  std::vector<int64_t> scoring, always; ///< as SimulatedStep has them

  // Of the step.
  const rt::StepOutcome *logged = nullptr; ///< null: not in `follow`
  std::vector<int32_t> active;
  std::vector<uint8_t> isActive; ///< [length]: comes out of the last layer
  LayersOfStep layers;
  int64_t shadowRows = 0, sequences = 1;
  int64_t logitRows = 0; ///< that the log says, or 0
  rt::Verified verified;
  std::vector<int32_t> candidates, again;
  std::vector<double> confidence; ///< of the candidates
  int64_t quota = 0;
  std::vector<int32_t> commits, revoked;
  std::vector<int32_t> tokens;                     ///< of `commits`
  std::vector<int64_t> steps;                      ///< likewise
  std::vector<std::pair<int32_t, int32_t>> edited; ///< positions and tokens
};

} // namespace

/// The rows that the step has, in all layers.
Status Simulator::begin() {
  if (rows.inStep())
    drift.finish(rows.place(),
                 similaritiesBefore(request, static_cast<size_t>(passes),
                                    drift.layers().size()));
  rt::SequenceState state = run.state();
  state.place = drift.at(run.place());
  state.attention = attention;
  if (Status status = rows.beginStep(state); !status)
    return status.takeError().withContext("step " +
                                          std::to_string(run.place().step));
  if (Status status = measure(manifest, rows, scoring, always); !status)
    return status;
  active.clear();
  isActive.assign(static_cast<size_t>(request.length), 0);
  for (int32_t place : rows.activePlaces())
    active.push_back(rows.positionOf(place));
  layers.set(rows, active, request.layers);
  for (int32_t position : layers.last())
    isActive[static_cast<size_t>(position)] = 1;
  // Beforehand a step takes one token, and a run's may take more.
  const int64_t before = request.follow ? run.commitsBefore() : request.length;
  shadowRows = run.needsShadow(before) ? run.blockEnd() - run.blockBegin() : 0;
  sequences = 1;
  verified = {.copies = 1, .steps = 1};
  logitRows = 0;
  return Status::success();
}

/// Whether the logged step has as many rows, once for each copy and twice if
/// the run was guided.
Status Simulator::compareRows() {
  const int64_t all = logged->rowsComputed;
  if (!logged->verified.empty()) {
    verified = logged->verified.front();
    logitRows = logged->logitRows;
  }
  sequences = verified.copies;
  // Classifier-free guidance runs the sequence a second time at each step, with
  // masks in place of the prompt: the same rows and keys.
  const int64_t expected = sequences * (std::ssize(active) + shadowRows);
  if (!guided && expected > 0 && (all == expected || all == 2 * expected))
    guided = all == 2 * expected;
  if (all > 0 && guided.value_or(false) && all == 2 * expected)
    sequences *= 2;
  else if (all >= 0 && (all != expected || guided.value_or(false)))
    return unlike("computes " + std::to_string(all) + " rows, here it has " +
                  std::to_string((guided.value_or(false) ? 2 : 1) * expected));
  return compareCounts(logged->counters);
}

/// Whether the logged step looked for changes, and in as many layers.
Status Simulator::compareCounts(const rt::StepCounters &counters) {
  const bool compares =
      std::ranges::any_of(rows.partsOfStep(), [](const auto &part) {
        return part.pass->comparesContexts();
      });
  const std::tuple<const char *, int64_t, int64_t> lists[] = {
      {"salient_rows", compares ? request.layers : 0,
       std::ssize(counters.salientRows)},
      {"similarity", std::ssize(drift.layers()),
       std::ssize(counters.similarity)}};
  for (const auto &[name, expected, found] : lists) {
    if ((found > 0) != (expected > 0))
      return unlike(std::string("has ") + (found > 0 ? "" : "no ") + name +
                    ", though here layers compare " +
                    (found > 0 ? "nothing" : "rows"));
    if (found != expected)
      return unlike(std::string("has ") + name + " of " +
                    explain::counted(found, "layer") + ", here they are of " +
                    std::to_string(expected));
  }
  return Status::success();
}

/// What the step may commit, and how much of it.
Status Simulator::chooseCandidates() {
  findCandidates(run, rows, config, isActive, candidates, again);
  if (!run.stepRule().byQuota() || run.quota() > 0)
    idle = candidates.empty() && !run.isExtraPass() ? idle + 1 : 0;
  if (!request.follow && idle > patience)
    return Error("the run stops at step " + std::to_string(run.place().step) +
                 ": of block " + std::to_string(run.place().block + 1) +
                 " no masked position could be committed in " +
                 std::to_string(idle) + " steps");
  if (run.place().block != block) {
    block = run.place().block;
    committedInBlock = 0;
  }
  confidence.clear();
  for (int32_t position : candidates)
    confidence.push_back(
        confidenceAt(request.seed, run.place().step, position));
  quota = std::min(run.quota(), static_cast<int64_t>(candidates.size()));
  return Status::success();
}

/// What the logged step found out for steps behind it.
Status Simulator::learnLogged() {
  // Only LLaDA's own quotas are known, others' draw or go by options; and where
  // layers choose rows, the run decides which are candidates.
  const bool chooses =
      std::ranges::any_of(layers.all(), [](const SimulatedLayer &layer) {
        return layer.pass->exact != bundle::Pass::Exact::All;
      });
  const CommitRule &rule = run.stepRule();
  if (!chooses && request.maskToken >= 0 && !request.eps &&
      !manifest.commit.verifies() && rule.kind == CommitRule::Kind::Quota &&
      !rule.revokes() && !rule.edits() && std::ssize(logged->commits) != quota)
    return unlike("commits " + std::to_string(logged->commits.size()) +
                  " tokens, here it has " + std::to_string(quota));
  if (goesByConfidence && logged->predictions.empty() && !candidates.empty())
    return unlike("does not say how sure it was of what it predicted, by which "
                  "the schedule goes");
  if (goesByAttention && logged->drawn.empty() && !active.empty())
    return unlike("does not say what attention positions drew, by which the "
                  "schedule goes");
  if (!logged->drawn.empty()) {
    attention = logged->drawn.front().attention;
    if (std::ssize(attention) != request.length)
      return unlike("has the attention of " + std::to_string(attention.size()) +
                    " positions, here there are " +
                    std::to_string(request.length));
  }
  for (const rt::Prediction &each : logged->predictions) {
    if (each.position >= request.length ||
        run.masked()[static_cast<size_t>(each.position)] == 0)
      return unlike("predicts position " + std::to_string(each.position) +
                    ", which is not masked");
    run.predict(each.position, each.confidence);
  }
  return Status::success();
}

/// The same of a run that was not made.
void Simulator::predict() {
  for (size_t i = 0; i < candidates.size(); ++i)
    run.predict(candidates[i], confidence[i]);
  if (!goesByAttention || active.empty())
    return;
  attention.assign(static_cast<size_t>(request.length), 0);
  for (int64_t place = 0; place < rows.n(); ++place) {
    const int32_t position = rows.positionOf(static_cast<int32_t>(place));
    attention[static_cast<size_t>(position)] =
        confidenceAt(~request.seed, run.place().step, position);
  }
}

/// What the logged step committed, revoked and edited.
Status Simulator::takeLogged() {
  std::set<int64_t> named;
  for (const rt::Commit &commit : logged->commits) {
    if (!named.insert(commit.position).second)
      return unlike("names position " + std::to_string(commit.position) +
                    " twice");
    const bool inside =
        commit.position >= request.prompt && commit.position < request.length;
    const bool changes = commit.revoked || commit.edited;
    if (!inside ||
        !(commit.revoked ? run.isRevocable(commit.position)
          : commit.edited
              ? run.isEditable(commit.position)
              : run.masked()[static_cast<size_t>(commit.position)] != 0))
      return unlike(
          std::string(commit.revoked  ? "revokes"
                      : commit.edited ? "edits"
                                      : "commits") +
          " position " + std::to_string(commit.position) +
          (changes ? ", whose token is to stay" : ", which is not masked"));
    const auto position = static_cast<int32_t>(commit.position);
    if (commit.edited) {
      edited.emplace_back(position, commit.token);
      continue;
    }
    (commit.revoked ? revoked : commits).push_back(position);
    if (commit.revoked)
      continue;
    tokens.push_back(commit.token);
    steps.push_back(commit.step);
  }
  return Status::success();
}

/// What a step that was not made commits and edits.
void Simulator::choose() {
  std::vector<int64_t> chosen;
  for (size_t i = 0; i < candidates.size(); ++i)
    confidence[i] = run.lifted(candidates[i], confidence[i]);
  if (request.tokensPerStep > 0) {
    quota = countOf(run.stepRule(), request.tokensPerStep, run.place(),
                    committedInBlock, quota);
    chosen = rt::largestConfidence(
        confidence, std::min(quota, static_cast<int64_t>(candidates.size())));
  } else {
    chosen = rt::chooseCommits(run.stepRule(), confidence, quota);
  }
  for (int64_t each : chosen)
    commits.push_back(candidates[static_cast<size_t>(each)]);
  tokens.resize(commits.size(), 0);
  steps.resize(commits.size(), 0);
  // The most passes that there may be: each is to change something.
  if (run.isExtraPass() && !again.empty() && run.isEditable(again.front()))
    edited.emplace_back(
        again.front(),
        run.tokens()[static_cast<size_t>(again.front())] == 0 ? 3 : 0);
}

void Simulator::show() {
  const rt::SequenceRows::Inside &inside = rows.inside();
  const int64_t keysInside = inside.end - inside.begin;
  const bool keeps =
      manifest.reuse.attention == bundle::Reuse::Attention::Outside;
  observer({.place = rows.place(),
            .layers = layers.all(),
            .sequences = sequences,
            .copies = verified.copies,
            .justCommitted = std::ssize(rows.justCommitted()),
            .visible = rows.positions(),
            .keys = keeps && !inside.fresh ? keysInside : rows.n(),
            .merges = keeps && keysInside < rows.n(),
            .refreshable = keeps && keysInside < rows.n()
                               ? std::ssize(rows.refreshable())
                               : 0,
            .scoring = scoring,
            .always = always,
            .active = active,
            .among = layers.partly(),
            .shadowRows = shadowRows,
            .masked = run.masked(),
            .logitRows = logitRows > 0 ? logitRows
                                       : sequences * (std::ssize(candidates) +
                                                      std::ssize(again)),
            .commits = commits,
            .revoked = revoked});
}

/// Makes the step, or those that a logged pass verified.
Status Simulator::advance() {
  const bool several = request.follow && manifest.commit.verifies();
  size_t made = 0;
  for (int64_t step = 0; step < verified.steps && !run.done(); ++step) {
    for (;
         made < commits.size() && (!several || steps[made] == run.place().step);
         ++made)
      run.commit(commits[made], tokens[made]);
    for (int32_t position : revoked)
      run.revoke(position);
    for (const auto &[position, token] : edited)
      run.edit(position, token);
    run.advance();
  }
  if (made < commits.size())
    return unlike("commits at a step that it does not make");
  rows.finishStep();
  return Status::success();
}

Status Simulator::step() {
  logged = request.follow ? &request.follow->passes[static_cast<size_t>(passes)]
                          : nullptr;
  if (Status status = begin(); !status)
    return status;
  if (logged)
    if (Status status = compareRows(); !status)
      return status;
  if (Status status = chooseCandidates(); !status)
    return status;
  commits.clear();
  revoked.clear();
  edited.clear();
  tokens.clear();
  steps.clear();
  if (logged) {
    if (Status status = learnLogged(); !status)
      return status;
    if (Status status = takeLogged(); !status)
      return status;
  } else {
    predict();
    choose();
  }
  committedInBlock += std::ssize(commits) - std::ssize(revoked);
  show();
  return advance();
}

Status Simulator::simulate() {
  const int64_t last = request.follow
                           ? std::ssize(request.follow->passes)
                           : std::max(request.steps + options.genLength,
                                      explain::maxSimulated /
                                          std::max<int64_t>(1, request.length));
  for (; !run.done() && passes < last; ++passes)
    if (Status status = step(); !status)
      return status;
  if (request.follow)
    return checkEnd(*request.follow, run, config, passes);
  if (!run.done())
    return Error("a simulation of more than " + std::to_string(last) +
                 " steps over " + std::to_string(request.length) +
                 " tokens takes too long");
  return Status::success();
}

Status
explain::simulate(const bundle::Manifest &manifest,
                  const SimulationRequest &request,
                  const std::function<void(const SimulatedStep &)> &observer) {
  if (request.length > maxSimulated / std::max<int64_t>(1, request.steps))
    return Error("a simulation of " + std::to_string(request.steps) +
                 " steps over " + std::to_string(request.length) +
                 " tokens takes too long, expected at most " +
                 std::to_string(maxSimulated) + " steps times tokens");
  if (request.follow)
    if (Status status = checkLog(manifest, *request.follow); !status)
      return status;
  if (auto problem = bundle::checkLayers(manifest, request.layers))
    return Error("the schedule " + problem->what);
  return Simulator(manifest, request, observer).simulate();
}
