//===- VerifyTest.cpp - Drafted steps against steps one by one ------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Fakes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <tuple>

using namespace heddle;
using namespace heddle::rt;
using namespace heddle::rt::test;

namespace {

using Kind = bundle::CommitRule::Kind;
using Prompts = std::vector<std::vector<int32_t>>;
const Prompts raggedPrompts = {{1, 2, 3}, {9}, {5, 6, 7, 8, 30, 31, 0}};

/// What a run did.
struct Did {
  /// By sequence and step of it: position, token, confidence.
  std::map<std::pair<int64_t, int64_t>,
           std::vector<std::tuple<int64_t, int32_t, double>>>
      commits;
  std::vector<std::vector<Verified>> verified; ///< [forward passes]
  std::vector<std::vector<int32_t>> sequences;
  std::vector<int64_t> rows; ///< [forward passes]
  int64_t passes = 0;
  std::string error;
};

Did runOf(FakeModel &model, const bundle::Manifest &program,
          const Prompts &prompts, const GenerateOptions &options,
          int64_t stopAfter = -1) {
  FakeExecutor executor;
  executor.program = program;
  Did run;
  Result<Generation> result = generate(
      model, executor, prompts, options, [&](const StepRecord &record) {
        for (const Commit &commit : record.commits) {
          run.commits[{commit.sequence, commit.step}].emplace_back(
              commit.position, commit.token, commit.confidence);
          // A mask that was drawn may be another token at the pass's next step.
          if (commit.token != FakeModel::mask)
            EXPECT_EQ(record.tokens[commit.sequence][commit.position],
                      commit.token);
        }
        run.verified.emplace_back(record.verified.begin(),
                                  record.verified.end());
        run.rows.push_back(record.rowsComputed);
        run.passes = record.step;
        return record.step != stopAfter;
      });
  if (result)
    run.sequences = result->sequences;
  else
    run.error = result.error().text();
  return run;
}

bundle::Manifest programOf(Kind kind, int64_t drafts, int64_t count = 0) {
  bundle::Manifest program;
  program.commit.kind = kind;
  program.commit.count = count;
  program.commit.drafts = drafts;
  return program;
}

GenerateOptions optionsOf(int64_t length, int64_t block, int64_t steps) {
  return {.genLength = length,
          .steps = steps,
          .blockLength = block,
          .sampling = {}};
}

/// Steps of each sequence that are made together; fails where a pass has too
/// many copies, or rows that no copy has.
void checkPasses(const Did &run, const Prompts &prompts,
                 const GenerateOptions &options, int64_t drafts) {
  std::vector<int64_t> made(prompts.size(), 0);
  const int64_t halves = options.sampling.cfgScale > 0 ? 2 : 1;
  for (size_t pass = 0; pass < run.verified.size(); ++pass) {
    int64_t rows = 0;
    for (const Verified &each : run.verified[pass]) {
      EXPECT_GE(each.steps, 1);
      EXPECT_LE(each.steps, each.copies);
      EXPECT_LE(each.copies, 1 + drafts);
      made[each.sequence] += each.steps;
      rows += each.copies *
              (std::ssize(prompts[each.sequence]) + options.genLength);
    }
    EXPECT_EQ(run.rows[pass], halves * rows);
  }
  for (const auto &[place, commits] : run.commits)
    EXPECT_LE(place.second, made[place.first]);
}

/// The same run step by step and with drafts; the forward passes of both.
std::pair<int64_t, int64_t> compare(FakeModel model, bundle::Manifest program,
                                    const GenerateOptions &options,
                                    const Prompts &prompts = raggedPrompts) {
  const int64_t drafts = std::exchange(program.commit.drafts, 0);
  FakeModel again = model;
  const Did expected = runOf(model, program, prompts, options);
  EXPECT_EQ(expected.error, "");
  program.commit.drafts = drafts;
  const Did found = runOf(again, program, prompts, options);
  EXPECT_EQ(found.error, "");
  EXPECT_EQ(found.sequences, expected.sequences);
  EXPECT_EQ(found.commits, expected.commits);
  EXPECT_LE(found.passes, expected.passes);
  checkPasses(found, prompts, options, drafts);
  return {found.passes, expected.passes};
}

TEST(Verify, MakesTheStepsOfTheSameScheduleInFewerPasses) {
  for (float told : {0.0f, 0.1f, 0.4f, 1.0f})
    for (int64_t drafts : {1, 2, 5})
      for (auto [kind, count] :
           {std::pair(Kind::Quota, 0), std::pair(Kind::Even, 0),
            std::pair(Kind::Best, 1), std::pair(Kind::Best, 3),
            std::pair(Kind::Timesteps, 0)})
        for (auto [length, block, steps] :
             {std::tuple(12, 12, 12), std::tuple(12, 4, 12),
              std::tuple(12, 4, 6), std::tuple(12, 12, 5), std::tuple(1, 1, 1),
              std::tuple(6, 3, 10)}) {
          SCOPED_TRACE(std::to_string(told) + " told, " +
                       std::to_string(drafts) + " drafts, kind " +
                       std::to_string(int(kind)) + ", " +
                       std::to_string(length) + " tokens in " +
                       std::to_string(steps) + " steps");
          FakeModel model;
          model.told = told;
          const auto [passes, all] =
              compare(model, programOf(kind, drafts, count),
                      optionsOf(length, block, steps));
          // What no token changes is as drafted: but for the first pass of a
          // block, of which nothing was predicted, each makes all that it can.
          if (told == 0 && kind == Kind::Quota && length == block)
            EXPECT_EQ(passes, 1 + (all - 1 + drafts) / (1 + drafts));
          if (told == 1 && kind == Kind::Best && count == 1)
            EXPECT_GT(passes, all / 2);
        }
}

TEST(Verify, GoesByTheNoiseOfEachStep) {
  for (double temperature : {0.0, 0.05, 1.0})
    for (double guidance : {0.0, 0.7})
      for (bool masks : {false, true}) {
        FakeModel model;
        model.told = 0.1f;
        model.drawsMasks = masks;
        GenerateOptions options = optionsOf(12, 6, 12);
        options.sampling.temperature = temperature;
        options.sampling.cfgScale = guidance;
        options.sampling.seed = 7;
        compare(model, programOf(Kind::Quota, 3), options);
      }
}

/// What a step drafts stands near what the steps behind it draft.
TEST(Verify, LiftsConfidencesAsEachStepDoes) {
  for (float told : {0.0f, 0.1f, 1.0f})
    for (Kind kind : {Kind::Quota, Kind::Best})
      for (int64_t near : {1, 3, 50}) {
        SCOPED_TRACE(std::to_string(told) + " told, near " +
                     std::to_string(near));
        FakeModel model;
        model.told = told;
        bundle::Manifest program = programOf(kind, 3, 1);
        program.commit.near = near;
        const auto [passes, all] =
            compare(model, program, optionsOf(12, 12, 12));
        if (told == 0)
          EXPECT_EQ(passes, 1 + (all - 1 + 3) / (1 + 3));
      }
}

TEST(Verify, StepsByTimesThatCommitNothingTakeNoPass) {
  for (TransferRule rule : {TransferRule::MaskgitPlus, TransferRule::Entropy})
    for (double noise : {0.0, 0.3})
      for (float told : {0.0f, 0.1f}) {
        FakeModel model;
        model.info.shiftedLogits = true;
        model.told = told;
        GenerateOptions options = optionsOf(12, 12, 12);
        options.sampling.timesteps = TimestepOptions{.rule = rule};
        options.sampling.timesteps->ruleTemperature = noise;
        const auto [passes, all] =
            compare(model, programOf(Kind::Quota, 3), options);
        // The first step commits nothing; with no token that tells, all hold.
        if (told == 0)
          EXPECT_LT(2 * passes, all);
      }
}

/// Steps with rules of their own, the first EOS, and fewest passes of a block.
TEST(Verify, FollowsTheScheduleOfEachStep) {
  for (bool narrows : {false, true})
    for (float told : {0.0f, 0.2f}) {
      FakeModel model;
      model.told = told;
      bundle::Manifest program = programOf(Kind::Quota, 4);
      program.commit.stopAtEos = true;
      program.commit.narrows = narrows;
      program.commit.leastPasses = 3;
      bundle::DatedCommit first;
      bundle::When &when = first.when.emplace_back();
      when.kind = bundle::When::Kind::On;
      when.cadence.kind = bundle::Cadence::Kind::First;
      when.cadence.count = 1;
      when.cadence.inBlock = true;
      first.rule.kind = Kind::Best;
      first.rule.count = 2;
      program.datedCommits = {first};
      for (int32_t eos = 0; eos < 12; ++eos) {
        model.info.eosToken = eos;
        compare(model, program, optionsOf(24, 8, 12));
        compare(model, program, optionsOf(8, 4, 2));
      }
    }
}

/// What is drafted reads lists, so that no copy stands at a step that makes
/// some, nor beside it.
TEST(Verify, StepsThatRefreshSelectionsAreMadeAlone) {
  FakeModel model;
  model.told = 0;
  bundle::Manifest program = programOf(Kind::Quota, 3);
  bundle::Selection &selection = program.selections.emplace_back();
  selection.cadence.kind = bundle::Cadence::Kind::Every;
  selection.cadence.period = 5;
  const GenerateOptions options = optionsOf(12, 12, 12);
  compare(model, program, options);
  const Did run = runOf(model, program, {{1, 2}}, options);
  std::vector<std::pair<int64_t, int64_t>> passes;
  for (const std::vector<Verified> &each : run.verified)
    passes.emplace_back(each[0].copies, each[0].steps);
  // Steps 1; 2 to 5; 6; 7 to 10; 11; 12.
  EXPECT_EQ(passes, (std::vector<std::pair<int64_t, int64_t>>{
                        {1, 1}, {4, 4}, {1, 1}, {4, 4}, {1, 1}, {1, 1}}));
}

TEST(Verify, ASequenceDoesNotDependOnItsBatch) {
  FakeModel model;
  model.told = 0.2f;
  const bundle::Manifest program = programOf(Kind::Quota, 3);
  const GenerateOptions options = optionsOf(12, 6, 12);
  const Did together = runOf(model, program, raggedPrompts, options);
  for (size_t s = 0; s < raggedPrompts.size(); ++s) {
    const Did alone = runOf(model, program, {raggedPrompts[s]}, options);
    EXPECT_EQ(alone.sequences[0], together.sequences[s]);
    for (size_t pass = 0; pass < alone.verified.size(); ++pass) {
      const std::vector<Verified> &all = together.verified[pass];
      const auto own =
          std::find_if(all.begin(), all.end(), [&](const Verified &each) {
            return each.sequence == static_cast<int64_t>(s);
          });
      ASSERT_NE(own, all.end());
      EXPECT_EQ(own->steps, alone.verified[pass][0].steps);
      EXPECT_EQ(own->copies, alone.verified[pass][0].copies);
    }
  }
}

TEST(Verify, AnInterruptedRunHasWhatWasMade) {
  FakeModel model;
  model.told = 0;
  const GenerateOptions options = optionsOf(12, 12, 12);
  const Did run =
      runOf(model, programOf(Kind::Quota, 3), raggedPrompts, options, 2);
  ASSERT_EQ(run.passes, 2);
  for (const std::vector<int32_t> &sequence : run.sequences)
    EXPECT_EQ(std::count(sequence.begin(), sequence.end(), FakeModel::mask),
              12 - 1 - 4);
}

TEST(Verify, MemoryIsThatOfAllCopies) {
  FakeModel model;
  FakeExecutor executor;
  executor.program = programOf(Kind::Quota, 3);
  executor.bytes = int64_t(1) << 60;
  Result<Generation> run =
      generate(model, executor, Prompts{{1, 2}}, optionsOf(16, 4, 16), nullptr);
  ASSERT_FALSE(run);
  EXPECT_NE(run.error().text().find(
                "generating 1 sequences of 72 positions in all, 4 copies of "
                "each to verify drafts, needs 1.2 EB"),
            std::string::npos)
      << run.error().text();
  EXPECT_NE(run.error().text().find("fewer drafts"), std::string::npos);
  const std::vector<SequenceShape> shapes = sequenceShapes(
      {2, 5}, {.genLength = 8, .sampling = {.cfgScale = 1}}, executor.program);
  ASSERT_EQ(shapes.size(), 16u);
  EXPECT_EQ(shapes[3].length, 10);
  EXPECT_EQ(shapes[4].length, 13);
  EXPECT_EQ(shapes[3].driftsAs, -1);
  EXPECT_EQ(shapes[15].driftsAs, 7);
  EXPECT_EQ(shapes[4].readsAs, -1);
  EXPECT_EQ(shapes[7].readsAs, 4);
  EXPECT_EQ(shapes[11].readsAs, 8);
}

TEST(Verify, RefusesWhatNoPredictionTells) {
  FakeModel model;
  GenerateOptions options = optionsOf(8, 8, 8);
  options.sampling.remasking = Remasking::Random;
  const std::string said = "which positions a step commits is drawn for each (";
  Did run = runOf(model, programOf(Kind::Quota, 1), raggedPrompts, options);
  EXPECT_NE(run.error.find(said + "remasking random)"), std::string::npos)
      << run.error;
  options.sampling.remasking = Remasking::LowConfidence;
  options.sampling.timesteps.emplace();
  run = runOf(model, programOf(Kind::Quota, 1), raggedPrompts, options);
  EXPECT_NE(run.error.find(said + "alg origin)"), std::string::npos)
      << run.error;
  EXPECT_EQ(
      runOf(model, programOf(Kind::Even, 1), raggedPrompts, options).error, "");
}

/// A row of a copy that comes to nothing may have what it has.
TEST(Verify, LogitsOfStepsThatAreMadeMustBeNumbers) {
  FakeModel model;
  model.brokenAt = 2;
  const Did run = runOf(model, programOf(Kind::Quota, 2), raggedPrompts,
                        optionsOf(8, 8, 8));
  EXPECT_NE(run.error.find("the logits of sequence 0, position "),
            std::string::npos)
      << run.error;
}

} // namespace
