//===- ModelEngine.cpp - Steps of a model under a schedule ----------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/denoise/ModelEngine.h"

#include "bundle/program/Program.h"
#include "bundle/program/ProgramChecks.h"
#include "runtime/base/Parallel.h"
#include "runtime/denoise/CommitRule.h"
#include "runtime/denoise/Denoise.h"
#include "runtime/denoise/SequenceRun.h"
#include "runtime/sample/LogitRow.h"

#include <algorithm>
#include <cassert>

namespace heddle::rt {

using CommitKind = bundle::CommitRule::Kind;

namespace {

/// Slots of a sequence in a batch.
int64_t copiesOf(const bundle::Manifest &schedule) {
  return 1 + schedule.commit.drafts +
         (anyCommit(schedule, &bundle::CommitRule::hasShadow) ? 1 : 0);
}

class ModelEngine final : public StepEngine {
public:
  ModelEngine(Model &model, ScheduleExecutor &executor)
      : model(model), executor(executor) {}

  const ModelConfig &config() const override { return model.config(); }
  DType dtype() const override { return model.dtype(); }
  Status beginRun(std::span<const std::vector<int32_t>> prompts,
                  const GenerateOptions &options) override;
  Status step(const StepPlace &place, StepOutcome *outcome) override;
  bool finished() const override {
    return std::all_of(runs.begin(), runs.end(),
                       [](const SequenceRun &run) { return run.done(); });
  }
  Result<std::vector<std::vector<int32_t>>> tokens() override {
    std::vector<std::vector<int32_t>> result;
    for (const SequenceRun &run : runs)
      result.push_back(run.tokens());
    return result;
  }

private:
  /// A position whose row goes through the LM head: a masked one, or one whose
  /// token may become another one, or a mask again.
  struct Candidate {
    int64_t slot; ///< of the batch's sequences
    int64_t position;
    int64_t row;        ///< of the batch, that predicts it
    bool again = false; ///< there is a token
    double present = 0; ///< its probability, if it may become a mask
  };

  void draftSteps();
  bool refreshes(const SequenceRun &run) const;
  bool draftStep(SequenceRun &run, std::span<const Draw> predicted) const;
  std::vector<SequenceState> states() const;
  int64_t activeRow(int64_t slot, int64_t position) const;
  Status collectCandidates();
  Status forward();
  void dropEnded();
  bool mayRevoke(const Candidate &candidate) const {
    return candidate.again &&
           runOf(candidate.slot)->isRevocable(candidate.position);
  }
  bool byEntropy(const Candidate &candidate) const {
    return !candidate.again &&
           runOf(candidate.slot)->stepRule().kind == CommitKind::Entropy;
  }
  Draw draw(Candidate &candidate, std::span<float> logits,
            std::span<const float> unconditional) const;
  Draw lookedAt(const Candidate &candidate, std::span<float> logits,
                std::span<const float> unconditional) const;
  double orderOf(const SequenceRun &run, int64_t position,
                 const Draw &draw) const;
  /// Candidates that follow each other: [begin, end).
  struct Range {
    size_t begin = 0, end = 0;
  };
  Status makeSteps(StepOutcome *outcome);
  Status checkDraws(int64_t sequence, Range range) const;
  void remember(int64_t sequence, Range range, StepOutcome *outcome);
  void commit(int64_t sequence, Range range);
  Status fillTrace(int64_t slot, int64_t step, SequenceTrace &trace) const;
  Status checkMemory() const;

  int64_t count() const { return std::ssize(runs); }
  /// Conditional sequences of the batch.
  int64_t slots() const { return count() * copies; }
  /// The sequence that a slot is of: as it is, or as it is drafted to become;
  /// null of a slot without rows.
  const SequenceRun *runOf(int64_t slot) const {
    const int64_t s = slot / copies, copy = slot % copies;
    if (copy == 0)
      return runs[s].done() ? nullptr : &runs[s];
    if (shapes[slot].isShadow())
      return !runs[s].done() && runs[s].needsShadow() ? &runs[s] : nullptr;
    return copy <= std::ssize(ahead[s]) ? &ahead[s][copy - 1] : nullptr;
  }

  Model &model;
  ScheduleExecutor &executor;

  // The run.
  GenerateOptions options;
  /// The same as options.sampling with the confidence of thresholds, which are
  /// of probabilities, and of those who go by an order and draw no other.
  SampleOptions byProbability;
  bool guided = false; ///< classifier-free guidance
  std::vector<SequenceRun> runs;
  int64_t drafts = 0; ///< steps that are drafted of each at most
  int64_t copies = 1; ///< slots of each: itself, its drafts, its shadow
  /// [sequences]: as they are after the next step, after the two next ones and
  /// so on, if each commits what is drafted.
  std::vector<std::vector<SequenceRun>> ahead;
  /// [sequences][length]: the latest predictions; token -1 where there is none.
  /// Empty without drafts.
  std::vector<std::vector<Draw>> predicted;
  std::vector<int64_t> idle; ///< steps without a candidate, one after the other
  int64_t patience = 0;      ///< idle steps after which no candidate will come

  // The batch: slots of conditional sequences, each before its drafts or its
  // shadow, then, if guided, as many unconditional ones.
  std::vector<SequenceShape> shapes;
  const PackedBatch *batch = nullptr; ///< active rows, the executor's
  std::vector<int32_t> packed;        ///< [batch->rows()]: their tokens

  std::vector<Candidate> candidates; ///< by slot, then by position
  std::vector<Draw> draws;           ///< [candidates]
  int64_t logitRows = 0;             ///< through the LM head
  std::vector<Commit> commits;
};

Status ModelEngine::checkMemory() const {
  int64_t rows = 0;
  for (const SequenceShape &shape : shapes)
    rows += shape.mostRows();
  int64_t samplerRows =
      model.config().vocabSize * int64_t(sizeof(float)) * threadCount();
  const int64_t sequences = std::ssize(shapes) / (guided ? 2 : 1) / copies;
  std::string what = "generating " + std::to_string(sequences) +
                     " sequences of " + std::to_string(rows) +
                     " positions in all";
  if (drafts > 0)
    what +=
        ", " + std::to_string(1 + drafts) + " copies of each to verify drafts,";
  return model.checkMemory(
      model.activationBytes(rows) + executor.runBytes(shapes) + samplerRows,
      what,
      std::string("use a shorter gen-length or prompt, ") +
          (drafts > 0 ? "fewer drafts" : "") + (drafts > 0 ? ", " : "") +
          "or fewer prompts at a time");
}

Status ModelEngine::beginRun(std::span<const std::vector<int32_t>> prompts,
                             const GenerateOptions &runOptions) {
  options = runOptions;
  const bundle::Manifest &schedule = executor.manifest();
  const bool alone =
      std::any_of(schedule.passes.begin(), schedule.passes.end(),
                  [](const bundle::Pass &pass) { return pass.alone; });
  if (model.config().shiftedLogits && !alone && !seesPrompt(schedule))
    return Error(
        "the schedule '" + schedule.schedule +
        "' never shows the prompt (visible: " +
        definitionOf(schedule, schedule.visible) +
        "), whose last row predicts the response's first position in this "
        "model; add `positions decoded` to what is visible");
  auto anyOf = [&](std::initializer_list<CommitKind> kinds) {
    return anyCommit(schedule, [&](const bundle::CommitRule &rule) {
      return std::find(kinds.begin(), kinds.end(), rule.kind) != kinds.end();
    });
  };
  // A block that lasts until it is full must not draw masks for ever. Nor one
  // that goes by an order: what was passed over would stay the next. Nor where
  // rows may be the block's alone, or nothing is decoded behind EOS: what was
  // passed over would stay in front. Nor may an edit make a mask of a token,
  // nor what has seen none draw one.
  if (endsWhenFull(schedule.commit, schedule.datedCommits) ||
      anyCommit(schedule, &bundle::CommitRule::edits) ||
      schedule.commit.renoises || anyOf({CommitKind::RandomOrder}) ||
      schedule.visible >= 0 || !schedule.passes.empty() ||
      anyCommit(schedule, &bundle::CommitRule::narrows))
    options.sampling.forbiddenToken = model.config().maskToken;
  guided = options.sampling.cfgScale > 0;
  if (Status status = checkSchedule(schedule, options); !status)
    return status;
  const std::vector<int32_t> special = model.config().specialTokens();
  if (schedule.commit.renoises &&
      model.config().vocabSize <= std::ssize(special))
    return Error("the schedule '" + schedule.schedule +
                 "' puts noise in the place of masks (`renoise`), and the "
                 "model's vocabulary has special tokens alone, " +
                 std::to_string(model.config().vocabSize) +
                 "; leave `renoise` out");
  byProbability = options.sampling;
  byProbability.remasking = Remasking::LowConfidence;
  if (byProbability.timesteps)
    byProbability.timesteps->rule = TransferRule::MaskgitPlus;
  runs.clear();
  drafts = schedule.commit.drafts;
  copies = copiesOf(schedule);
  ahead.clear();
  ahead.resize(prompts.size());
  predicted.clear();
  idle.assign(prompts.size(), 0);
  patience = longestIdle(executor.manifest(), options.steps);
  std::vector<int64_t> lengths;
  for (const std::vector<int32_t> &prompt : prompts)
    lengths.push_back(static_cast<int64_t>(prompt.size()));
  shapes = sequenceShapes(lengths, options, schedule);
  executor.endRun(); // its memory is free again
  if (Status status = checkMemory(); !status)
    return status;
  for (const std::vector<int32_t> &prompt : prompts)
    runs.emplace_back(prompt, options, model.config(), schedule.commit,
                      schedule.datedCommits);
  if (drafts > 0)
    for (const SequenceRun &run : runs)
      predicted.emplace_back(run.tokens().size(), Draw{-1, 0});
  executor.setTracing(options.trace);
  executor.setMaps({});
  return executor.beginRun(shapes, options.steps,
                           options.steps /
                               (options.genLength / options.blockLength));
}

/// Fills in `ahead`. What is drafted reads the lists that the sequence has, so
/// that steps which make others are made alone.
void ModelEngine::draftSteps() {
  for (int64_t s = 0; s < count(); ++s) {
    ahead[s].clear();
    if (drafts == 0 || runs[s].done() || refreshes(runs[s]))
      continue;
    ahead[s].reserve(drafts);
    while (std::ssize(ahead[s]) < drafts) {
      SequenceRun next = ahead[s].empty() ? runs[s] : ahead[s].back();
      if (!draftStep(next, predicted[s]) || next.done() || refreshes(next))
        break;
      ahead[s].push_back(std::move(next));
    }
  }
}

/// Whether the next step of a sequence is one of some selection's.
bool ModelEngine::refreshes(const SequenceRun &run) const {
  const std::vector<bundle::Selection> &selections =
      executor.manifest().selections;
  return std::any_of(selections.begin(), selections.end(),
                     [&](const bundle::Selection &each) {
                       return bundle::includes(each.cadence, run.place());
                     });
}

/// Makes the next step of a sequence as if it predicted what was predicted
/// last. False if nothing was of some position that it may commit: of a block
/// that no step has decoded yet.
bool ModelEngine::draftStep(SequenceRun &run,
                            std::span<const Draw> predictions) const {
  std::vector<int32_t> positions;
  std::vector<double> confidence;
  if (!run.stepRule().byQuota() || run.quota() > 0)
    for (int32_t position : run.order()) {
      if (!run.isCandidate(position))
        continue;
      const Draw &draw = predictions[position];
      if (draw.token < 0)
        return false;
      positions.push_back(position);
      confidence.push_back(orderOf(run, position, draw));
    }
  const int64_t quota = std::min<int64_t>(run.quota(), positions.size());
  for (int64_t each : chooseCommits(run.stepRule(), confidence, quota))
    run.commit(positions[each], predictions[positions[each]].token);
  run.advance();
  return true;
}

/// What the schedule is told of the sequences, guidance's included.
std::vector<SequenceState> ModelEngine::states() const {
  std::vector<SequenceState> result;
  for (int64_t i = 0; i < std::ssize(shapes); ++i) {
    const SequenceRun *run = runOf(i % slots());
    result.push_back(run ? run->state()
                         : SequenceState{.place = {}, .done = true});
  }
  return result;
}

Status ModelEngine::step(const StepPlace &place, StepOutcome *outcome) {
  if (options.maps.cells > 0)
    executor.setMaps((place.step - 1) % options.mapEvery == 0 ? options.maps
                                                              : MapOptions());
  draftSteps();
  if (Status status = executor.beginStep(states()).moveTo(batch); !status)
    return status;
  if (Status status = collectCandidates(); !status)
    return status;
  if (Status status = forward(); !status)
    return status;
  dropEnded();
  if (outcome) {
    for (const SequenceRun &run : runs)
      outcome->blocks.push_back(run.done() ? -1 : run.place().block);
    outcome->rowsComputed = batch->rows();
    outcome->logitRows = logitRows;
    outcome->counters = executor.counters();
    std::span<const AttentionMap> maps = executor.maps();
    outcome->maps.assign(maps.begin(), maps.end());
    // The executor numbers sequences by slot. Each run is its own one: sets go
    // by attention where keys are kept (R24), and neither drafts nor shadows
    // are there (M10, M12), so that no run has copies. Those of
    // guidance stand behind all runs, and go by these (Attended.md).
    for (size_t s = 0; s < runs.size(); ++s)
      if (const std::span<const double> drew =
              executor.attention(static_cast<int64_t>(s));
          !drew.empty() && batch->offsets[s] < batch->offsets[s + 1]) {
        assert(copies == 1 && "attention of a copy, not of the run");
        outcome->drawn.push_back(
            {static_cast<int64_t>(s), {drew.begin(), drew.end()}});
      }
  }
  if (Status status = makeSteps(outcome); !status)
    return status;
  if (outcome)
    outcome->commits = commits;
  return Status::success();
}

/// Makes of each sequence the step that the pass has computed, and those behind
/// it as long as the sequence has become what was drafted.
Status ModelEngine::makeSteps(StepOutcome *outcome) {
  commits.clear();
  Range range;
  for (int64_t s = 0; s < count(); ++s) {
    SequenceRun &run = runs[s];
    if (run.done())
      continue;
    int64_t copy = 0;
    for (bool holds = true; holds; ++copy) {
      const int64_t slot = s * copies + copy;
      const auto isBefore = [](const Candidate &each, int64_t of) {
        return each.slot < of;
      };
      range.begin = std::lower_bound(candidates.begin(), candidates.end(), slot,
                                     isBefore) -
                    candidates.begin();
      range.end = std::lower_bound(candidates.begin() + range.begin,
                                   candidates.end(), slot + 1, isBefore) -
                  candidates.begin();
      if (Status status = checkDraws(s, range); !status)
        return status;
      remember(s, range, outcome);
      const int64_t step = run.place().step;
      commit(s, range);
      if (outcome && options.trace)
        if (Status status =
                fillTrace(slot, step, outcome->traces.emplace_back());
            !status)
          return status;
      run.advance();
      holds = !run.done() && copy < std::ssize(ahead[s]) &&
              run.tokens() == ahead[s][copy].tokens();
    }
    if (outcome && drafts > 0)
      outcome->verified.push_back({s, 1 + std::ssize(ahead[s]), copy});
  }
  return Status::success();
}

/// What the batch's slot computed, of a step that was made.
Status ModelEngine::fillTrace(int64_t slot, int64_t step,
                              SequenceTrace &trace) const {
  trace.sequence = slot / copies;
  trace.step = step;
  trace.length = std::ssize(runs[trace.sequence].tokens());
  std::span<const int32_t> visible = executor.visible(slot);
  trace.visible.assign(visible.begin(), visible.end());
  for (const LayerTrace &layer : executor.trace()) {
    if (layer.sequence != slot)
      continue;
    trace.layers.push_back(layer);
    if (layer.refreshed.empty())
      continue;
    Result<std::vector<SelectionView>> views =
        executor.selections(layer.layer, slot);
    if (!views)
      return views.takeError();
    for (const SelectionView &view : *views) {
      if (std::find(layer.refreshed.begin(), layer.refreshed.end(),
                    view.selection) == layer.refreshed.end())
        continue;
      const int32_t *list = view.indices;
      for (int64_t head = 0; head < view.lists; ++head) {
        SequenceTrace::Refreshed &refreshed = trace.refreshed.emplace_back();
        refreshed.layer = layer.layer;
        refreshed.head = head;
        refreshed.selection = view.selection;
        for (int64_t group = 0; group < view.groups; ++group) {
          refreshed.lists.emplace_back(list, list + view.keep);
          list += view.keep;
        }
      }
    }
  }
  for (const Candidate &candidate : candidates)
    if (candidate.slot == slot)
      trace.logits.push_back(batch->positions[candidate.row]);
  // Positions 0 and 1 may share a predicting row.
  trace.logits.erase(std::unique(trace.logits.begin(), trace.logits.end()),
                     trace.logits.end());
  return Status::success();
}

/// Rows that a layer has let end, of either half under guidance, predict
/// nothing.
void ModelEngine::dropEnded() {
  size_t left = 0;
  for (size_t c = 0; c < candidates.size(); ++c) {
    const Candidate &each = candidates[c];
    auto comesOut = [&](int64_t slot) {
      return executor.predicts(slot, each.row - batch->offsets[each.slot]);
    };
    if (!comesOut(each.slot) || (guided && !comesOut(each.slot + slots())))
      continue;
    candidates[left] = candidates[c];
    draws[left++] = draws[c];
  }
  candidates.resize(left);
  draws.resize(left);
}

/// Draws of rows whose logits were not finite have no token.
Status ModelEngine::checkDraws(int64_t sequence, Range range) const {
  for (size_t c = range.begin; c < range.end; ++c)
    if (draws[c].token < 0)
      return notFinite("sequence " + std::to_string(sequence) + ", position " +
                           std::to_string(candidates[c].position),
                       model.dtype());
  return Status::success();
}

/// The active row at a position of a slot, if it comes out of the last layer,
/// or -1.
int64_t ModelEngine::activeRow(int64_t slot, int64_t position) const {
  auto first = batch->positions.begin() + batch->offsets[slot];
  auto last = batch->positions.begin() + batch->offsets[slot + 1];
  auto found = std::lower_bound(first, last, position);
  return found != last && *found == position &&
                 executor.predicts(slot, found - first)
             ? found - batch->positions.begin()
             : -1;
}

Status ModelEngine::collectCandidates() {
  candidates.clear();
  for (int64_t slot = 0; slot < slots(); ++slot) {
    const SequenceRun *of = runOf(slot);
    if (!of || shapes[slot].isShadow())
      continue;
    const bool edits = of->stepRule().edits();
    if (of->stepRule().byQuota() && of->quota() == 0 &&
        !(edits && of->isExtraPass()))
      continue;
    const SequenceRun &run = *of;
    const bool ordered = run.stepRule().kind == CommitKind::RandomOrder;
    const size_t first = candidates.size();
    const int64_t most = ordered ? run.quota() : INT64_MAX;
    bool open = run.isExtraPass(); // the sampler may leave all for later
    int64_t masked = 0;
    for (int64_t i : run.order()) {
      const bool again = run.isRevocable(i) || run.isEditable(i);
      if (masked == most && !again)
        continue;
      if (i >= std::min(run.blockEnd(), run.textEnd()) ||
          !(run.masked()[i] || again) || !executor.inCommitSet(slot, i))
        continue;
      const bool byShadow = again && run.stepRule().hasShadow();
      int64_t row = activeRow(byShadow ? slot + 1 : slot,
                              model.config().predictingRow(i));
      if (row < 0 && executor.predictsAlone(slot))
        row = activeRow(slot, i);
      if (row < 0)
        continue;
      open |= !again;
      masked += run.isCandidate(i);
      if (again || run.isCandidate(i))
        candidates.push_back({slot, i, row, again});
    }
    // With one candidate fewer than one token is revoked. Edits need one, but
    // where there is none any more.
    if (edits ? masked == 0 && !run.isExtraPass() : masked < 2)
      candidates.erase(
          std::remove_if(candidates.begin() + first, candidates.end(),
                         [](const Candidate &each) { return each.again; }),
          candidates.end());
    if (ordered)
      std::sort(candidates.begin() + first, candidates.end(),
                [](const Candidate &a, const Candidate &b) {
                  return a.position < b.position;
                });
    const int64_t s = slot / copies;
    if (slot % copies != 0)
      continue; // a draft may come to nothing
    // A later step may name other positions; but not for ever.
    idle[s] = open ? 0 : idle[s] + 1;
    if (idle[s] > patience)
      return Error("sequence " + std::to_string(s) + " had " +
                   std::to_string(idle[s]) +
                   " steps in which none of the masked positions of block " +
                   std::to_string(run.place().block + 1) +
                   " could be committed: they are not visible, or the schedule "
                   "computes none of the rows that predict them (" +
                   (model.config().shiftedLogits
                        ? "in this model each position's is the row before it"
                        : "in this model each position's is its own") +
                   "), or its commit rule admits none of them");
  }
  draws.assign(candidates.size(), Draw{.token = -1, .confidence = 0});
  return Status::success();
}

Status ModelEngine::forward() {
  packed.clear();
  for (int64_t i = 0; i < batch->sequences(); ++i) {
    const SequenceRun *run = runOf(i % slots());
    for (int64_t row = batch->offsets[i]; row < batch->offsets[i + 1]; ++row) {
      int64_t position = batch->positions[row];
      // Guidance's sequences have no prompt to see, shadows no token.
      packed.push_back(shapes[i].isShadow() ||
                               (i >= slots() && position < run->promptLength())
                           ? model.config().maskToken
                           : run->input(position));
    }
  }
  LogitRequest request;
  request.unit = guided ? 2 : 1;
  logitRows = static_cast<int64_t>(candidates.size()) * request.unit;
  for (const Candidate &candidate : candidates) {
    request.rows.push_back(candidate.row);
    if (guided) // its row stands as far behind as all conditional rows
      request.rows.push_back(candidate.row + batch->offsets[slots()]);
  }
  // Where the most probable token and its probability are all that counts.
  const SampleOptions &sampling = options.sampling;
  const bool asksMore = std::any_of(candidates.begin(), candidates.end(),
                                    [&](const Candidate &each) {
                                      return mayRevoke(each) || byEntropy(each);
                                    });
  if (model.givesBest() && !asksMore && !guided && !sampling.timesteps &&
      sampling.temperature == 0 &&
      sampling.remasking == Remasking::LowConfidence &&
      !sampling.logitsEosInf && !sampling.confidenceEosEotInf) {
    request.barred = sampling.forbiddenToken;
    request.best = [&](int64_t first, int64_t count, const Best *rows) {
      for (int64_t i = 0; i < count; ++i)
        draws[first + i] = {rows[i].token, rows[i].probability};
    };
  }
  const int64_t vocab = model.config().vocabSize;
  request.consume = [&](int64_t first, int64_t count, const float *logits) {
    // The sampler edits its row; the model's memory is not ours to edit.
    thread_local std::vector<float> row;
    for (int64_t i = 0; i < count; i += request.unit) {
      const float *source = logits + i * vocab;
      row.assign(source, source + vocab);
      std::span<const float> unconditional;
      if (guided)
        unconditional = std::span(source + vocab, vocab);
      int64_t c = (first + i) / request.unit;
      draws[c] = draw(candidates[c], row, unconditional);
    }
  };
  return model.forward(*batch, packed, executor, request);
}

/// What a row's logits, which are changed, say of the token that is there.
Draw ModelEngine::lookedAt(const Candidate &candidate, std::span<float> logits,
                           std::span<const float> unconditional) const {
  const int32_t token = runOf(candidate.slot)->tokens()[candidate.position];
  return byProbability.timesteps
             ? lookAgainByTimesteps(logits, byProbability, token)
             : lookAgain(logits, unconditional, byProbability, token);
}

/// What a row's logits, which are changed, say of the position.
Draw ModelEngine::draw(Candidate &candidate, std::span<float> logits,
                       std::span<const float> unconditional) const {
  const SequenceRun &run = *runOf(candidate.slot);
  const int64_t step = run.place().step, position = candidate.position;
  const bool edits = run.isEditable(position);
  if (mayRevoke(candidate)) {
    thread_local std::vector<float> copy;
    if (edits)
      copy.assign(logits.begin(), logits.end());
    const Draw present =
        lookedAt(candidate, edits ? std::span(copy) : logits, unconditional);
    candidate.present = present.confidence;
    if (!edits)
      return present;
  }
  const SampleOptions &sampling =
      run.stepRule().hasModelsConfidence() && !candidate.again
          ? options.sampling
          : byProbability;
  Draw drawn = sampling.timesteps
                   ? drawByTimesteps(logits, sampling, step, position)
                   : drawToken(logits, unconditional, sampling, step, position);
  if (byEntropy(candidate) && drawn.token >= 0) {
    const float reference = logits[argmax(logits)];
    drawn.confidence = negativeEntropy(logits, reference,
                                       sumOfExponentials(logits, reference));
  }
  return drawn;
}

/// What the step's rule takes for the confidence of a candidate. Only the
/// model's own rule adds noise: a threshold is one of the confidence itself.
double ModelEngine::orderOf(const SequenceRun &run, int64_t position,
                            const Draw &draw) const {
  const double confidence = run.lifted(position, draw.confidence);
  if (!options.sampling.timesteps || run.stepRule().kind != CommitKind::Quota)
    return confidence;
  return transferKey(options.sampling, confidence, run.place().step, position);
}

/// Keeps what the step at hand predicts of a sequence. A row that has ended
/// predicts nothing: what was last predicted of its position stays.
void ModelEngine::remember(int64_t sequence, Range range,
                           StepOutcome *outcome) {
  const bool tells = outcome && bundle::readsConfidences(executor.manifest());
  for (size_t c = range.begin; c < range.end; ++c) {
    const Candidate &each = candidates[c];
    if (each.again)
      continue;
    runs[sequence].predict(each.position, draws[c].confidence);
    if (drafts > 0)
      predicted[sequence][each.position] = draws[c];
    if (tells)
      outcome->predictions.push_back(
          {sequence, each.position, draws[c].confidence});
  }
}

/// Commits of a sequence what its rule takes of the candidates.
void ModelEngine::commit(int64_t s, Range range) {
  std::vector<size_t> masked, tokens;
  std::vector<double> confidence, probability;
  SequenceRun &run = runs[s];
  const auto before = std::ssize(commits);
  for (size_t c = range.begin; c < range.end; ++c)
    if (!candidates[c].again) {
      masked.push_back(c);
      confidence.push_back(orderOf(run, candidates[c].position, draws[c]));
    }
  const bundle::CommitRule &rule = run.stepRule();
  const int64_t quota = std::min<int64_t>(run.quota(), confidence.size());
  const std::vector<int64_t> chosen = chooseCommits(rule, confidence, quota);
  auto add = [&](Commit commit) {
    commit.sequence = s;
    commit.step = run.place().step;
    commits.push_back(commit);
  };
  // A step that commits nothing leaves all as it is, unless all is committed.
  const bool edits = !chosen.empty() || run.isExtraPass();
  for (size_t c = range.begin; c < range.end; ++c) {
    if (!candidates[c].again)
      continue;
    const int64_t position = candidates[c].position;
    const Draw &draw = draws[c];
    if (edits && isReplaced(rule, run.tokens()[position], draw)) {
      run.edit(position, draw.token);
      add({.position = position,
           .token = draw.token,
           .confidence = draw.confidence,
           .edited = true});
    } else {
      tokens.push_back(c);
      probability.push_back(candidates[c].present);
    }
  }
  for (int64_t each : chosen) {
    const Draw &draw = draws[masked[each]];
    const int64_t position = candidates[masked[each]].position;
    run.commit(position, draw.token);
    add({.position = position,
         .token = draw.token,
         .confidence = draw.confidence});
  }
  for (int64_t each : chooseRevoked(rule, probability, std::ssize(chosen),
                                    run.commitsBefore())) {
    const int64_t position = candidates[tokens[each]].position;
    run.revoke(position);
    add({.position = position,
         .token = model.config().maskToken,
         .confidence = probability[each],
         .revoked = true});
  }
  std::sort(
      commits.begin() + before, commits.end(),
      [](const Commit &a, const Commit &b) { return a.position < b.position; });
}

} // namespace

std::vector<SequenceShape>
sequenceShapes(const std::vector<int64_t> &promptLengths,
               const GenerateOptions &options,
               const bundle::Manifest &schedule) {
  std::vector<SequenceShape> shapes;
  for (int half = 0; half < (options.sampling.cfgScale > 0 ? 2 : 1); ++half)
    for (int64_t before = std::ssize(shapes); int64_t prompt : promptLengths)
      for (int64_t own = std::ssize(shapes), copy = 0;
           copy < copiesOf(schedule); ++copy) {
        const int64_t shadow =
            copy > schedule.commit.drafts ? options.blockLength : 0;
        shapes.push_back({prompt + options.genLength + shadow, prompt,
                          half ? std::ssize(shapes) - before : -1,
                          copy && !shadow ? own : -1, shadow});
      }
  return shapes;
}

std::unique_ptr<StepEngine> makeModelEngine(Model &model,
                                            ScheduleExecutor &executor) {
  return std::make_unique<ModelEngine>(model, executor);
}

} // namespace heddle::rt
