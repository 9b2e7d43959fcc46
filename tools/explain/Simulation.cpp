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

#include "runtime/sample/Sampler.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <sstream>
#include <string>
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

Result<explain::RunLog> explain::readRunLog(const std::string &text) {
  RunLog log;
  std::istringstream lines(text);
  int64_t number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    if (line.find_first_not_of(" \t\r") == std::string::npos)
      continue;
    nlohmann::json json = nlohmann::json::parse(line, nullptr, false);
    auto bad = [&](const char *what) {
      return Error("line " + std::to_string(number) + " of the log " + what +
                   ", expected what heddle-run --steps-json writes");
    };
    if (!json.is_object())
      return bad("is no JSON object");
    auto numberOf = [](const nlohmann::json &object, const char *name,
                       int64_t missing) {
      auto found = object.find(name);
      return found != object.end() && found->is_number_integer()
                 ? found->get<int64_t>()
                 : missing;
    };
    auto isInt32 = [](int64_t value) {
      return value >= 0 && value <= INT32_MAX;
    };
    // A batch's may say so in any of these first.
    bool several = json.contains("prompt_lengths") &&
                   json["prompt_lengths"].is_array() &&
                   json["prompt_lengths"].size() > 1;
    for (const char *list : {"commits", "verified", "predictions"})
      if (json.contains(list) && json[list].is_array())
        for (const nlohmann::json &each : json[list])
          several |= each.is_object() && numberOf(each, "sequence", 0) > 0;
    if (several)
      return Error("the log is of a run with several prompts, of which one "
                   "can't be followed alone; give heddle-run --steps-json one "
                   "prompt");
    if (json.contains("done")) {
      const nlohmann::json prompts = json.value("prompt_lengths", json);
      const bool one = prompts.is_array() && prompts.size() == 1 &&
                       prompts[0].is_number_integer();
      const RunLog::Lengths lengths = {
          .prompt = one ? prompts[0].get<int64_t>() : 0,
          .genLength = numberOf(json, "gen_length", 0),
          .steps = numberOf(json, "steps", 0),
          .blockLength = numberOf(json, "block_length", 0)};
      const int64_t all[] = {lengths.prompt, lengths.genLength, lengths.steps,
                             lengths.blockLength};
      if (std::ranges::all_of(
              all, [](int64_t each) { return each > 0 && each <= INT32_MAX; }))
        log.lengths = lengths;
      break;
    }
    if (!json.contains("commits") || !json["commits"].is_array())
      return bad("has no commits");
    rt::StepOutcome &made = log.passes.emplace_back();
    const int64_t pass = std::ssize(log.passes);
    if (const int64_t step = numberOf(json, "step", pass); step != pass)
      return Error("line " + std::to_string(number) +
                   " of the log is of step " + std::to_string(step) +
                   ", expected " + std::to_string(pass) +
                   ": each is there once, from 1 on");
    for (const nlohmann::json &commit : json["commits"]) {
      if (!commit.is_object() || numberOf(commit, "sequence", -1) != 0)
        return bad("commits tokens of no sequence");
      const int64_t position = numberOf(commit, "position", -1);
      const int64_t token = numberOf(commit, "token", 0);
      if (!isInt32(position) || !isInt32(token))
        return bad("commits at no position, or no token");
      made.commits.push_back(
          {.position = position,
           .token = static_cast<int32_t>(token),
           .revoked = commit.contains("revoked") && commit["revoked"] == true,
           .edited = commit.contains("edited") && commit["edited"] == true,
           .step = numberOf(commit, "step", 0)});
    }
    made.logitRows = numberOf(json, "logit_rows", -1);
    if (json.contains("verified")) {
      const nlohmann::json &all = json["verified"];
      const bool one = all.is_array() && all.size() == 1 && all[0].is_object();
      const rt::Verified verified = {
          .copies = one ? numberOf(all[0], "copies", 0) : 0,
          .steps = one ? numberOf(all[0], "steps", 0) : 0};
      if (verified.steps < 1 || verified.steps > verified.copies ||
          verified.copies > 1 + bundle::maxDrafts || made.logitRows < 0)
        return bad("verifies no number of copies of the one sequence");
      made.verified = {verified};
    }
    if (json.contains("predictions") && json["predictions"].is_array())
      for (const nlohmann::json &each : json["predictions"]) {
        const int64_t position =
            each.is_object() ? numberOf(each, "position", -1) : -1;
        if (!isInt32(position) || numberOf(each, "sequence", -1) != 0 ||
            !each.contains("confidence") || !each["confidence"].is_number())
          return bad("predicts at no position of the one sequence, or without "
                     "a confidence");
        made.predictions.push_back(
            {0, position, each["confidence"].get<double>()});
      }
    if (json.contains("similarity") && json["similarity"].is_array())
      for (const nlohmann::json &one : json["similarity"]) {
        if (!one.is_number() && !one.is_null())
          return bad("has a similarity that is no number");
        made.counters.similarity.push_back(
            one.is_number() ? std::optional<double>(one.get<double>())
                            : std::nullopt);
      }
    made.rowsComputed = numberOf(json, "rows", -1);
    if (json.contains("rows") && made.rowsComputed < 0)
      return bad("computes no number of rows");
    if (json.contains("salient_rows") && json["salient_rows"].is_array())
      for (const nlohmann::json &rows : json["salient_rows"]) {
        if (!rows.is_number_integer() || !isInt32(rows.get<int64_t>()))
          return bad("has salient rows that are no number of rows");
        made.counters.salientRows.push_back(rows.get<int64_t>());
      }
  }
  if (log.passes.empty())
    return Error("the log has no step, expected what heddle-run --steps-json "
                 "writes");
  return log;
}

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

Status
explain::simulate(const bundle::Manifest &manifest,
                  const SimulationRequest &request,
                  const std::function<void(const SimulatedStep &)> &observer) {
  if (request.length > maxSimulated / std::max<int64_t>(1, request.steps))
    return Error("a simulation of " + std::to_string(request.steps) +
                 " steps over " + std::to_string(request.length) +
                 " tokens takes too long, expected at most " +
                 std::to_string(maxSimulated) + " steps times tokens");
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
  // Token 0 stands for every token, edited ones are 3 and 0 by turns: neither
  // mask nor EOS.
  rt::ModelConfig config;
  config.maskToken = 1;
  config.eosToken = 2;
  config.shiftedLogits = request.shifted;
  if (request.follow) {
    config.maskToken = request.maskToken;
    config.eosToken = request.eosToken;
  }
  const std::vector<int32_t> prompt(static_cast<size_t>(request.prompt), 0);
  rt::SequenceRun run(prompt, options, config, manifest.commit,
                      manifest.datedCommits);
  if (request.follow && bundle::readsConfidences(manifest) &&
      std::ranges::all_of(request.follow->passes, [](const auto &pass) {
        return pass.predictions.empty();
      }))
    return Error("the schedule goes by the confidence of earlier predictions, "
                 "of which the log says nothing; write it with heddle-run "
                 "--steps-json and this schedule");
  if (request.follow &&
      std::ranges::any_of(request.follow->passes, [&](const auto &pass) {
        return pass.verified.empty() == manifest.commit.verifies();
      }))
    return Error(std::string("the log ") +
                 (manifest.commit.verifies()
                      ? "does not say how many steps each pass made, though "
                      : "says how many steps each pass made, but not that ") +
                 "the schedule verifies drafts; write it with heddle-run "
                 "--steps-json and this schedule");
  if (auto problem = bundle::checkLayers(manifest, request.layers))
    return Error("the schedule " + problem->what);
  rt::SequenceRows rows(manifest, request.shifted, request.layers,
                        {request.length, request.prompt});
  bundle::DriftWatch drift(manifest, request.layers);

  std::vector<int32_t> active, candidates, again, commits, revoked;
  std::vector<std::pair<int32_t, int32_t>> edited; // positions and tokens
  LayersOfStep layers;
  std::vector<uint8_t> isActive;
  std::vector<double> confidence;
  const int64_t last =
      request.follow
          ? std::ssize(request.follow->passes)
          : std::max(request.steps + options.genLength,
                     maxSimulated / std::max<int64_t>(1, request.length));
  const int64_t patience = rt::longestIdle(manifest, request.steps);
  std::vector<int64_t> scoring(manifest.selections.size(), -1),
      always(manifest.selections.size(), 0);
  int64_t block = 0, committedInBlock = 0, idle = 0;
  int64_t passes = 0; ///< before this one, each of a step unless it verifies
  for (; !run.done() && passes < last; ++passes) {
    const auto pass = static_cast<size_t>(passes);
    const rt::StepOutcome *logged =
        request.follow ? &request.follow->passes[pass] : nullptr;
    if (rows.inStep())
      drift.finish(rows.place(),
                   similaritiesBefore(request, pass, drift.layers().size()));
    rt::SequenceState state = run.state();
    state.place = drift.at(run.place());
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
    const int64_t before =
        request.follow ? run.commitsBefore() : request.length;
    const int64_t shadowRows =
        run.needsShadow(before) ? run.blockEnd() - run.blockBegin() : 0;
    const int64_t ofEach = std::ssize(active) + shadowRows;
    int64_t sequences = 1;
    rt::Verified verified{.copies = 1, .steps = 1};
    int64_t logitRows = 0;
    if (logged) {
      const int64_t all = logged->rowsComputed;
      if (!logged->verified.empty()) {
        verified = logged->verified.front();
        logitRows = logged->logitRows;
      }
      sequences = verified.copies;
      // Classifier-free guidance runs the sequence a second time, with masks in
      // place of the prompt: the same rows and keys.
      if (all > 0 && all == 2 * sequences * ofEach)
        sequences *= 2;
      else if (all >= 0 && all != sequences * ofEach)
        return Error("step " + std::to_string(run.place().step) +
                     " of the log computes " + std::to_string(all) +
                     " rows, here it has " + std::to_string(ofEach) +
                     ": it is of a run with other lengths or another "
                     "schedule");
    }
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
    int64_t quota =
        std::min(run.quota(), static_cast<int64_t>(candidates.size()));
    if (logged) {
      for (const rt::Prediction &each : logged->predictions) {
        if (each.position >= request.length ||
            run.masked()[static_cast<size_t>(each.position)] == 0)
          return Error("step " + std::to_string(run.place().step) +
                       " of the log predicts position " +
                       std::to_string(each.position) +
                       ", which is not masked: it is of a run with other "
                       "lengths or another schedule");
        run.predict(each.position, each.confidence);
      }
    } else {
      for (size_t i = 0; i < candidates.size(); ++i)
        run.predict(candidates[i], confidence[i]);
    }
    commits.clear();
    revoked.clear();
    edited.clear();
    std::vector<int32_t> tokens; // of `commits`
    std::vector<int64_t> steps;  // likewise
    if (logged) {
      for (const rt::Commit &commit : logged->commits) {
        const bool inside = commit.position >= request.prompt &&
                            commit.position < request.length;
        const bool changes = commit.revoked || commit.edited;
        if (!inside ||
            !(commit.revoked ? run.isRevocable(commit.position)
              : commit.edited
                  ? run.isEditable(commit.position)
                  : run.masked()[static_cast<size_t>(commit.position)] != 0))
          return Error(
              "step " + std::to_string(run.place().step) + " of the log " +
              (commit.revoked  ? "revokes"
               : commit.edited ? "edits"
                               : "commits") +
              " position " + std::to_string(commit.position) +
              (changes ? ", whose token is to stay" : ", which is not masked") +
              ": it is of a run with other lengths or another "
              "schedule");
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
    } else if (request.tokensPerStep > 0) {
      quota = countOf(run.stepRule(), request.tokensPerStep, run.place(),
                      committedInBlock, quota);
      for (int64_t chosen : rt::largestConfidence(
               confidence,
               std::min(quota, static_cast<int64_t>(candidates.size()))))
        commits.push_back(candidates[static_cast<size_t>(chosen)]);
    } else {
      for (int64_t chosen :
           rt::chooseCommits(run.stepRule(), confidence, quota))
        commits.push_back(candidates[static_cast<size_t>(chosen)]);
    }
    tokens.resize(commits.size(), 0);
    steps.resize(commits.size(), 0);
    // The most passes that there may be: each is to change something.
    if (!request.follow && run.isExtraPass() && !again.empty() &&
        run.isEditable(again.front()))
      edited.emplace_back(
          again.front(),
          run.tokens()[static_cast<size_t>(again.front())] == 0 ? 3 : 0);
    committedInBlock += std::ssize(commits) - std::ssize(revoked);
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
    const bool several = request.follow && manifest.commit.verifies();
    size_t made = 0;
    for (int64_t step = 0; step < verified.steps && !run.done(); ++step) {
      for (; made < commits.size() &&
             (!several || steps[made] == run.place().step);
           ++made)
        run.commit(commits[made], tokens[made]);
      for (int32_t position : revoked)
        run.revoke(position);
      for (const auto &[position, token] : edited)
        run.edit(position, token);
      run.advance();
    }
    if (made < commits.size())
      return Error("pass " + std::to_string(passes + 1) +
                   " of the log commits at a step that it does not make: it is "
                   "of a run with other lengths or another schedule");
    rows.finishStep();
  }
  if (request.follow && passes < last)
    return Error("the log has " + std::to_string(last) +
                 " steps, of which the run here takes " +
                 std::to_string(passes) +
                 ": it is of a run with other lengths or another schedule");
  if (!request.follow && !run.done())
    return Error("a simulation of more than " + std::to_string(last) +
                 " steps over " + std::to_string(request.length) +
                 " tokens takes too long");
  return Status::success();
}
