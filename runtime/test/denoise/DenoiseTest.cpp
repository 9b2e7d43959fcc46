//===- DenoiseTest.cpp - The loop against a plain reading of its rules ----===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Fakes.h"

#include <cmath>
#include <gtest/gtest.h>
#include <map>

using namespace heddle;
using namespace heddle::rt;
using namespace heddle::rt::test;

namespace {

using Tokens = std::vector<int32_t>;
using Prompts = std::vector<Tokens>;

/// What a step committed in one sequence: position -> token, confidence.
using StepCommits = std::map<int64_t, std::pair<int32_t, double>>;

/// One sequence alone, at temperature 0, as the reference is written: every
/// row computed, confidence -infinity where a position may not be committed.
std::vector<StepCommits> plainLoop(const FakeModel &model, const Tokens &prompt,
                                   const GenerateOptions &options,
                                   Tokens &sequence) {
  const int64_t promptLength = static_cast<int64_t>(prompt.size());
  const int64_t vocab = model.info.vocabSize;
  sequence = prompt;
  sequence.resize(promptLength + options.genLength, FakeModel::mask);
  int64_t blocks = options.genLength / options.blockLength;
  int64_t stepsPerBlock = options.steps / blocks;
  std::vector<StepCommits> all;
  for (int64_t block = 0; block < blocks; ++block) {
    int64_t end = promptLength + (block + 1) * options.blockLength;
    int64_t masked = std::count(sequence.begin() + end - options.blockLength,
                                sequence.begin() + end, FakeModel::mask);
    for (int64_t i = 0; i < stepsPerBlock; ++i) {
      int64_t quota = masked / stepsPerBlock + (i < masked % stepsPerBlock);
      Tokens unconditional = sequence;
      std::fill_n(unconditional.begin(), promptLength, FakeModel::mask);
      std::vector<std::pair<double, int32_t>> drawn;
      for (int64_t p = 0; p < end; ++p) {
        std::vector<double> logits(vocab);
        for (int64_t v = 0; v < vocab; ++v) {
          float l = model.logit(sequence, p, v);
          if (options.sampling.cfgScale > 0) {
            float u = model.logit(unconditional, p, v);
            l = u + static_cast<float>(options.sampling.cfgScale + 1) * (l - u);
          }
          logits[v] = l;
        }
        auto best = std::max_element(logits.begin(), logits.end());
        double sum = 0;
        for (double l : logits)
          sum += std::exp(l - *best);
        bool open = sequence[p] == FakeModel::mask;
        drawn.push_back(
            {open ? 1 / sum : -INFINITY,
             open ? static_cast<int32_t>(best - logits.begin()) : sequence[p]});
      }
      StepCommits commits;
      for (int64_t k = 0; k < quota; ++k) {
        int64_t best = -1;
        for (int64_t p = 0; p < end; ++p)
          if (!commits.count(p) &&
              (best < 0 || drawn[p].first > drawn[best].first))
            best = p;
        commits[best] = {drawn[best].second, drawn[best].first};
      }
      for (auto [p, commit] : commits)
        sequence[p] = commit.first;
      all.push_back(commits);
    }
  }
  return all;
}

GenerateOptions makeOptions(int64_t gen, int64_t block, int64_t steps) {
  return {
      .genLength = gen, .steps = steps, .blockLength = block, .sampling = {}};
}

struct Outcome {
  Generation generation;
  std::vector<std::vector<StepCommits>> commits; ///< [sequence][step]
  std::vector<StepRecord> records;               ///< their tokens dangle
};

Outcome runAll(FakeModel &model, const Prompts &prompts,
               const GenerateOptions &options, int64_t stopAfter = -1) {
  FakeExecutor executor;
  Outcome run;
  run.commits.resize(prompts.size());
  Result<Generation> result = generate(
      model, executor, prompts, options, [&](const StepRecord &record) {
        for (auto &sequence : run.commits)
          sequence.emplace_back();
        for (const Commit &commit : record.commits) {
          bool fresh =
              run.commits[commit.sequence]
                  .back()
                  .insert({commit.position, {commit.token, commit.confidence}})
                  .second;
          EXPECT_TRUE(fresh) << "committed twice in one step";
          EXPECT_EQ(record.tokens[commit.sequence][commit.position],
                    commit.token);
        }
        EXPECT_TRUE(std::is_sorted(record.commits.begin(), record.commits.end(),
                                   [](const Commit &a, const Commit &b) {
                                     return std::pair(a.sequence, a.position) <
                                            std::pair(b.sequence, b.position);
                                   }));
        run.records.push_back(record);
        return record.step != stopAfter;
      });
  EXPECT_TRUE(result) << result.error().text();
  if (result)
    run.generation = *result;
  return run;
}

const Prompts raggedPrompts = {{1, 2, 3}, {9}, {5, 6, 7, 8, 30, 31, 0}};

TEST(Generate, AgreesWithThePlainLoop) {
  for (bool drawsMasks : {false, true})
    for (double cfgScale : {0.0, 0.7})
      for (auto [gen, block, steps] :
           {std::tuple(12, 12, 12), std::tuple(12, 4, 12), std::tuple(12, 4, 6),
            std::tuple(12, 12, 5), std::tuple(10, 5, 4), std::tuple(6, 3, 10),
            std::tuple(1, 1, 1), std::tuple(8, 8, 1)}) {
        FakeModel model;
        model.drawsMasks = drawsMasks;
        GenerateOptions options = makeOptions(gen, block, steps);
        options.sampling.cfgScale = cfgScale;
        Outcome run = runAll(model, raggedPrompts, options);
        ASSERT_EQ(run.records.size(), static_cast<size_t>(steps));
        for (size_t s = 0; s < raggedPrompts.size(); ++s) {
          Tokens expected;
          std::vector<StepCommits> commits =
              plainLoop(model, raggedPrompts[s], options, expected);
          EXPECT_EQ(run.generation.sequences[s], expected);
          for (int64_t step = 0; step < steps; ++step) {
            const StepCommits &got = run.commits[s][step];
            ASSERT_EQ(got.size(), commits[step].size());
            for (auto [position, commit] : commits[step]) {
              ASSERT_TRUE(got.count(position)) << "step " << step + 1;
              EXPECT_EQ(got.at(position).first, commit.first);
              EXPECT_NEAR(got.at(position).second, commit.second, 1e-12);
            }
          }
        }
      }
}

TEST(Generate, FillsEveryPosition) {
  for (Remasking remasking : {Remasking::LowConfidence, Remasking::Random})
    for (double temperature : {0.0, 1.0}) {
      FakeModel model;
      GenerateOptions options = makeOptions(12, 4, 6);
      options.sampling.remasking = remasking;
      options.sampling.temperature = temperature;
      Outcome run = runAll(model, raggedPrompts, options);
      EXPECT_TRUE(run.generation.complete);
      for (size_t s = 0; s < raggedPrompts.size(); ++s) {
        const Tokens &tokens = run.generation.sequences[s];
        const Tokens &prompt = raggedPrompts[s];
        EXPECT_EQ(tokens.size(), prompt.size() + 12);
        EXPECT_TRUE(std::equal(prompt.begin(), prompt.end(), tokens.begin()));
        EXPECT_EQ(std::count(tokens.begin(), tokens.end(), FakeModel::mask), 0);
      }
    }
}

TEST(Generate, OnlyTheCurrentBlockIsCommitted) {
  FakeModel model;
  GenerateOptions options = makeOptions(12, 4, 6);
  Outcome run = runAll(model, raggedPrompts, options);
  for (size_t s = 0; s < raggedPrompts.size(); ++s)
    for (int64_t step = 0; step < 6; ++step) {
      EXPECT_EQ(run.commits[s][step].size(), 2u);
      for (auto &[position, commit] : run.commits[s][step]) {
        int64_t inResponse =
            position - static_cast<int64_t>(raggedPrompts[s].size());
        EXPECT_EQ(inResponse / 4, step / 2);
      }
    }
}

TEST(Generate, ASequenceDoesNotDependOnTheOthersNorOnThreads) {
  for (double temperature : {0.0, 0.8})
    for (double cfgScale : {0.0, 1.0}) {
      GenerateOptions options = makeOptions(12, 4, 6);
      options.sampling.temperature = temperature;
      options.sampling.cfgScale = cfgScale;
      options.sampling.seed = 123;
      FakeModel together;
      Outcome all = runAll(together, raggedPrompts, options);
      for (size_t s = 0; s < raggedPrompts.size(); ++s)
        for (int threads : {1, 4}) {
          setThreadCount(threads);
          FakeModel model;
          model.tileUnits = threads;
          Outcome alone = runAll(model, {raggedPrompts[s]}, options);
          EXPECT_EQ(alone.generation.sequences[0], all.generation.sequences[s]);
          EXPECT_EQ(alone.commits[0], all.commits[s]);
        }
      setThreadCount(0);
    }
}

TEST(Generate, TheSeedCounts) {
  GenerateOptions options = makeOptions(12, 12, 12);
  options.sampling.temperature = 1;
  FakeModel model;
  std::vector<Tokens> results;
  for (uint64_t seed : {1, 2, 1}) {
    options.sampling.seed = seed;
    results.push_back(
        runAll(model, {{1, 2, 3}}, options).generation.sequences[0]);
  }
  EXPECT_EQ(results[0], results[2]);
  EXPECT_NE(results[0], results[1]);
}

TEST(Generate, OnlyRowsThatMayBeCommittedGoThroughTheHead) {
  FakeModel model;
  // Quotas of each block of 2 over 5 steps: 1 1 0 0 0.
  GenerateOptions options = makeOptions(4, 2, 10);
  Outcome run = runAll(model, {{1, 2, 3}, {9}}, options);
  EXPECT_EQ(model.forwards, 10);
  // Sequence 1 starts at packed row 7.
  EXPECT_EQ(model.requested[0], (std::vector<int64_t>{3, 4, 8, 9}));
  EXPECT_EQ(model.requested[1].size(), 2u);
  for (int64_t step : {2, 3, 4, 7, 8, 9}) {
    EXPECT_TRUE(model.requested[step].empty()) << step;
    EXPECT_EQ(run.records[step].logitRows, 0);
    EXPECT_TRUE(run.commits[0][step].empty());
  }
  EXPECT_EQ(model.requested[5], (std::vector<int64_t>{5, 6, 10, 11}));
  EXPECT_EQ(run.records[0].logitRows, 4);
  EXPECT_EQ(run.records[5].block, 1);
  for (const StepRecord &record : run.records) {
    EXPECT_EQ(record.rowsComputed, 12);
    EXPECT_EQ(record.totalSteps, 10);
    EXPECT_EQ(record.counters.pairs, 10 * record.step);
    EXPECT_GE(record.seconds, 0);
  }
}

TEST(Generate, GuidanceDoublesTheBatchWithMaskedPrompts) {
  FakeModel model;
  FakeExecutor executor;
  GenerateOptions options = makeOptions(2, 2, 2);
  options.sampling.cfgScale = 1;
  Prompts prompts = {{1, 2, 3}, {9}};
  int64_t rows = 0, logitRows = 0;
  ASSERT_TRUE(generate(model, executor, prompts, options,
                       [&](const StepRecord &record) {
                         rows = record.rowsComputed;
                         logitRows = record.logitRows;
                         return true;
                       }));
  ASSERT_EQ(executor.shapes.size(), 4u);
  for (int64_t s = 0; s < 4; ++s) {
    EXPECT_EQ(executor.shapes[s].length, s % 2 ? 3 : 5);
    EXPECT_EQ(executor.shapes[s].promptLength, s % 2 ? 1 : 3);
  }
  EXPECT_EQ(model.batches[0].offsets, (std::vector<int64_t>{0, 5, 8, 13, 16}));
  constexpr int32_t m = FakeModel::mask;
  EXPECT_EQ(model.packed[0],
            (Tokens{1, 2, 3, m, m, 9, m, m, m, m, m, m, m, m, m, m}));
  // The response is the same in both; only the prompt is hidden.
  Tokens &second = model.packed[1];
  EXPECT_TRUE(
      std::equal(second.begin() + 3, second.begin() + 5, second.begin() + 11));
  EXPECT_NE(std::count(second.begin() + 3, second.begin() + 5, m), 2);
  EXPECT_EQ(model.units[0], 2);
  EXPECT_EQ(model.requested[0],
            (std::vector<int64_t>{3, 11, 4, 12, 6, 14, 7, 15}));
  EXPECT_EQ(rows, 16);
  EXPECT_EQ(logitRows, 4);
}

TEST(Generate, TheExecutorSeesEveryStepOnce) {
  FakeModel model;
  FakeExecutor executor;
  ASSERT_TRUE(
      generate(model, executor, raggedPrompts, makeOptions(8, 4, 4), nullptr));
  ASSERT_EQ(executor.places.size(), 4u);
  for (int64_t step = 1; step <= 4; ++step)
    for (const bundle::StepPlace &place : executor.places[step - 1])
      EXPECT_EQ(place, (bundle::StepPlace{.step = step,
                                          .totalSteps = 4,
                                          .block = (step - 1) / 2,
                                          .stepInBlock = 1 + (step - 1) % 2,
                                          .blockSteps = 2}));
  EXPECT_EQ(executor.totalSteps, 4);
  EXPECT_EQ(executor.blockSteps, 2);
  ASSERT_EQ(executor.shapes.size(), 3u);
  EXPECT_EQ(executor.shapes[2].length, 15);
}

/// A rule that commits what is surer than 0.15: one or a few tokens a step.
bundle::Manifest aboveABit() {
  bundle::Manifest manifest;
  manifest.commit.kind = bundle::CommitRule::Kind::Above;
  manifest.commit.ratio = {3, 20};
  return manifest;
}

// Whichever token ends a sequence, it ends each where it would end alone.
// Returns how many took all planned steps.
static int64_t expectEachEndsAlone(const bundle::Manifest &program,
                                   int64_t blockLength) {
  const GenerateOptions options = makeOptions(12, blockLength, 12);
  int64_t early = 0, late = 0;
  for (int32_t eos = 0; eos < FakeModel::mask; ++eos) {
    auto run = [&](const Prompts &prompts) {
      FakeModel model;
      model.info.eosToken = eos;
      FakeExecutor executor;
      executor.program = program;
      Result<Generation> result =
          generate(model, executor, prompts, options, nullptr);
      EXPECT_TRUE(result) << result.error().text();
      return result ? std::move(*result) : Generation();
    };
    const Generation together = run(raggedPrompts);
    EXPECT_EQ(together.sequences.size(), raggedPrompts.size());
    EXPECT_TRUE(together.complete);
    int64_t steps = 0;
    for (size_t s = 0; s < raggedPrompts.size(); ++s) {
      const Generation alone = run({raggedPrompts[s]});
      EXPECT_EQ(alone.sequences[0], together.sequences[s])
          << "token " << eos << ", sequence " << s;
      steps = std::max(steps, alone.stepsDone);
      (alone.stepsDone < options.steps ? early : late) += 1;
    }
    EXPECT_EQ(together.stepsDone, steps) << "token " << eos;
  }
  EXPECT_GT(early, 0);
  return late;
}

TEST(Generate, EndsEachSequenceAtItsOwnEos) {
  bundle::Manifest program;
  program.commit.stopAtEos = true;
  EXPECT_GT(expectEachEndsAlone(program, 4), 0);
}

// Sequences of a batch find EOS at different steps, and with it the rule that
// their steps go by.
TEST(Generate, FollowsEachSequencesOwnEos) {
  bundle::Manifest program;
  program.commit.kind = bundle::CommitRule::Kind::Best;
  program.commit.count = 2;
  program.commit.stopAtEos = program.commit.narrows = true;
  bundle::DatedCommit dated;
  dated.when = {{bundle::When::Kind::On, {}}};
  dated.when[0].cadence.kind = bundle::Cadence::Kind::Every;
  dated.when[0].cadence.period = 3;
  dated.when[0].cadence.afterEos = true;
  dated.rule.kind = bundle::CommitRule::Kind::Best;
  dated.rule.count = 1;
  program.datedCommits = {dated};
  expectEachEndsAlone(program, 12);
}

TEST(Generate, AnEosThatWasFoundStays) {
  for (bool narrows : {false, true}) {
    bundle::Manifest program = aboveABit();
    program.commit.ratio = {4, 25};
    program.commit.revokeBelow = {1, 1};
    program.commit.stopAtEos = true;
    program.commit.narrows = narrows;
    expectEachEndsAlone(program, 12);
    program.commit.revokeBelow = {};
    program.commit.editAbove = {1, 1000};
    program.commit.furtherPasses = 2;
    expectEachEndsAlone(program, 4);
  }
}

TEST(Generate, WithAThresholdEachSequenceHasItsOwnPlace) {
  GenerateOptions options = makeOptions(12, 4, 12);
  std::vector<Tokens> alone;
  for (const Tokens &prompt : raggedPrompts) {
    FakeModel model;
    FakeExecutor executor;
    executor.program = aboveABit();
    Result<Generation> result =
        generate(model, executor, Prompts{prompt}, options, nullptr);
    ASSERT_TRUE(result) << result.error().text();
    alone.push_back(result->sequences[0]);
  }
  FakeModel model;
  FakeExecutor executor;
  executor.program = aboveABit();
  std::vector<std::vector<int64_t>> blocks; // [steps][sequences]
  Result<Generation> result = generate(
      model, executor, raggedPrompts, options, [&](const StepRecord &record) {
        blocks.emplace_back(record.blocks.begin(), record.blocks.end());
        EXPECT_GT(std::count(record.blocks.begin(), record.blocks.end(),
                             record.block),
                  0);
        for (int64_t block : record.blocks)
          EXPECT_TRUE(block == -1 || block >= record.block);
        return true;
      });
  ASSERT_TRUE(result) << result.error().text();
  EXPECT_EQ(result->sequences, alone);
  EXPECT_TRUE(result->complete);
  ASSERT_EQ(blocks.size(), executor.places.size());
  bool ended = false;
  for (size_t step = 0; step < blocks.size(); ++step) {
    ASSERT_EQ(blocks[step].size(), raggedPrompts.size());
    for (size_t s = 0; s < blocks[step].size(); ++s) {
      ended |= blocks[step][s] < 0;
      if (blocks[step][s] >= 0)
        EXPECT_EQ(blocks[step][s], executor.places[step][s].block);
    }
  }
  EXPECT_TRUE(ended) << "one sequence is done before the others";
  EXPECT_LT(result->stepsDone, 12) << "some steps commit several tokens";
  bool apart = false;
  for (const std::vector<bundle::StepPlace> &places : executor.places)
    for (const bundle::StepPlace &place : places)
      apart |= place.block != places.front().block;
  EXPECT_TRUE(apart);
  for (const Tokens &tokens : result->sequences)
    EXPECT_EQ(std::count(tokens.begin(), tokens.end(), FakeModel::mask), 0);
}

/// One sequence alone under `commit above(r) revoke(below = q)`, as the Spec
/// has it; what becomes a mask again is a commit of the mask.
std::vector<StepCommits> plainRevoking(const FakeModel &model,
                                       const Tokens &prompt,
                                       const GenerateOptions &options,
                                       double above, double below,
                                       Tokens &sequence) {
  const auto start = static_cast<int64_t>(prompt.size());
  sequence = prompt;
  sequence.resize(prompt.size() + options.genLength, FakeModel::mask);
  std::vector<StepCommits> all;
  for (int64_t first = start; first < std::ssize(sequence);
       first += options.blockLength) {
    const int64_t end = first + options.blockLength;
    while (std::count(sequence.begin() + first, sequence.begin() + end,
                      FakeModel::mask)) {
      StepCommits commits, doubts;
      std::pair<double, int64_t> best = {-1, 0};
      for (int64_t p = first; p < end; ++p) {
        std::vector<double> chances;
        double sum = 0;
        for (int64_t v = 0; v < model.info.vocabSize; ++v)
          sum += chances.emplace_back(std::exp(model.logit(sequence, p, v)));
        const auto likely = std::max_element(chances.begin(), chances.end());
        const bool open = sequence[p] == FakeModel::mask;
        const double chance =
            (open ? *likely : chances[static_cast<size_t>(sequence[p])]) / sum;
        const auto token = static_cast<int32_t>(likely - chances.begin());
        if (open && chance > best.first)
          best = {chance, p};
        if (open)
          commits[p] = {token, chance};
        else if (chance < below)
          doubts[p] = {FakeModel::mask, chance};
      }
      std::erase_if(commits, [&](const auto &each) {
        return each.second.second < above && each.first != best.second;
      });
      for (size_t left = commits.size(); left > 1 && !doubts.empty(); --left) {
        auto worst = std::min_element(
            doubts.begin(), doubts.end(), [](const auto &a, const auto &b) {
              return a.second.second < b.second.second;
            });
        commits.insert(*worst);
        doubts.erase(worst);
      }
      for (auto [p, commit] : commits)
        sequence[p] = commit.first;
      all.push_back(commits);
    }
  }
  return all;
}

bundle::Manifest revoking(bundle::Ratio below) {
  bundle::Manifest manifest = aboveABit();
  manifest.commit.ratio = {4, 25};
  manifest.commit.revokeBelow = below;
  return manifest;
}

TEST(Generate, RevokesAsThePlainLoopDoes) {
  int64_t revoked = 0, restored = 0;
  for (bundle::Ratio below : {bundle::Ratio{1, 50}, bundle::Ratio{1, 1}})
    for (int64_t block : {4, 8, 24}) {
      FakeModel model;
      FakeExecutor executor;
      executor.program = revoking(below);
      const GenerateOptions options = makeOptions(24, block, 24);
      std::vector<std::vector<StepCommits>> got(raggedPrompts.size());
      Result<Generation> result =
          generate(model, executor, raggedPrompts, options,
                   [&](const StepRecord &record) {
                     for (auto &sequence : got)
                       sequence.emplace_back();
                     for (const Commit &each : record.commits) {
                       got[each.sequence].back()[each.position] = {
                           each.token, each.confidence};
                       EXPECT_EQ(each.revoked, each.token == FakeModel::mask);
                       EXPECT_EQ(record.tokens[each.sequence][each.position],
                                 each.token);
                     }
                     return true;
                   });
      ASSERT_TRUE(result) << result.error().text();
      EXPECT_TRUE(result->complete);
      EXPECT_LE(result->stepsDone, 24) << "each step leaves fewer masks";
      for (size_t s = 0; s < raggedPrompts.size(); ++s) {
        Tokens expected;
        std::vector<StepCommits> commits = plainRevoking(
            model, raggedPrompts[s], options, 4.0 / 25,
            static_cast<double>(below.num) / static_cast<double>(below.den),
            expected);
        EXPECT_EQ(result->sequences[s], expected);
        ASSERT_LE(commits.size(), got[s].size());
        std::map<int64_t, int32_t> before;
        for (size_t step = 0; step < commits.size(); ++step) {
          ASSERT_EQ(got[s][step].size(), commits[step].size());
          for (auto [position, commit] : commits[step]) {
            ASSERT_TRUE(got[s][step].count(position)) << "step " << step + 1;
            EXPECT_EQ(got[s][step][position].first, commit.first);
            EXPECT_NEAR(got[s][step][position].second, commit.second, 1e-6);
            revoked += commit.first == FakeModel::mask;
            restored +=
                before.count(position) && before[position] == FakeModel::mask;
            before[position] = commit.first;
          }
        }
      }
    }
  EXPECT_GT(revoked, 50);
  EXPECT_GT(restored, 50);
}

TEST(Generate, OnlyRowsThatAreComputedAndWithinAreLookedAtAgain) {
  for (bool byRows : {true, false}) {
    FakeModel model;
    FakeExecutor executor;
    executor.program = revoking({1, 1});
    // Of the response, the even positions but for masks.
    auto even = [](int64_t position) { return position % 2 == 0; };
    Tokens now = {1, 2, 3, 4};
    now.resize(28, FakeModel::mask);
    if (byRows)
      executor.rows = [&](const SequenceState &state, int64_t position) {
        return even(position) || state.masked[position];
      };
    else
      executor.commits = [&](int64_t position) {
        return even(position) || now[position] == FakeModel::mask;
      };
    int64_t revoked = 0, rows = 0;
    Result<Generation> result = generate(
        model, executor, Prompts{{1, 2, 3, 4}}, makeOptions(24, 24, 24),
        [&](const StepRecord &record) {
          int64_t masks = std::count(now.begin(), now.end(), FakeModel::mask);
          int64_t tokens = 0;
          for (int64_t i = 4; i < 28; i += 2)
            tokens += now[i] != FakeModel::mask;
          EXPECT_EQ(record.logitRows, masks + (masks < 2 ? 0 : tokens));
          for (const Commit &each : record.commits) {
            EXPECT_TRUE(!each.revoked || even(each.position));
            revoked += each.revoked;
          }
          rows += record.logitRows;
          now = record.tokens[0];
          return true;
        });
    ASSERT_TRUE(result) << result.error().text();
    EXPECT_GT(revoked, 3);
  }
}

TEST(Generate, BlocksThatLastUntilFullDrawNoMasks) {
  FakeModel model;
  model.drawsMasks = true;
  FakeExecutor executor;
  executor.program = aboveABit();
  Result<Generation> result =
      generate(model, executor, raggedPrompts, makeOptions(12, 4, 12), nullptr);
  ASSERT_TRUE(result) << result.error().text();
  for (const Tokens &tokens : result->sequences)
    EXPECT_EQ(std::count(tokens.begin(), tokens.end(), FakeModel::mask), 0);
}

TEST(Generate, StepsThatLeavePositionsOutDrawNoMasks) {
  auto masksLeft = [](const bundle::Manifest &program) {
    FakeModel model;
    model.drawsMasks = true;
    FakeExecutor executor;
    executor.program = program;
    Result<Generation> result = generate(model, executor, raggedPrompts,
                                         makeOptions(12, 4, 12), nullptr);
    EXPECT_TRUE(result) << result.error().text();
    int64_t masks = 0;
    for (const Tokens &tokens : result->sequences)
      masks += std::count(tokens.begin(), tokens.end(), FakeModel::mask);
    return masks;
  };
  bundle::Manifest program;
  EXPECT_GT(masksLeft(program), 0) << "as in the released samplers";
  program.passes.emplace_back();
  EXPECT_EQ(masksLeft(program), 0);
  program.passes.clear();
  program.positions.emplace_back();
  program.visible = 0;
  EXPECT_EQ(masksLeft(program), 0);
}

TEST(Generate, RowsThatStandAlonePredictTheirOwnPositions) {
  FakeModel model;
  model.info.shiftedLogits = true;
  FakeExecutor executor;
  executor.program = aboveABit();
  // The response's rows, without the one that predicts its first position.
  executor.rows = [](const SequenceState &, int64_t position) {
    return position >= 3;
  };
  auto run = [&] {
    return generate(model, executor, Prompts{{1, 2, 3}}, makeOptions(6, 6, 2),
                    nullptr);
  };
  EXPECT_FALSE(run()) << "nothing predicts the first position";
  model.requested.clear();
  executor.alone = true;
  Result<Generation> result = run();
  ASSERT_TRUE(result) << result.error().text();
  EXPECT_TRUE(result->complete);
  // Row 0 stands at position 3 and predicts it and position 4.
  ASSERT_GE(model.requested.size(), 1u);
  EXPECT_EQ(model.requested[0], (std::vector<int64_t>{0, 0, 1, 2, 3, 4}));
}

TEST(Generate, FullBlocksTakeTheirFewestPasses) {
  FakeModel model;
  FakeExecutor executor;
  executor.program = aboveABit();
  executor.program.commit.ratio = {1, 1000000}; // all at once
  executor.program.commit.leastPasses = 3;
  std::vector<size_t> commits;
  Result<Generation> result =
      generate(model, executor, Prompts{{1, 2, 3}}, makeOptions(6, 3, 6),
               [&](const StepRecord &record) {
                 commits.push_back(record.commits.size());
                 return true;
               });
  ASSERT_TRUE(result) << result.error().text();
  EXPECT_EQ(commits, (std::vector<size_t>{3, 0, 0, 3, 0, 0}));
}

TEST(Generate, OnlyComputedRowsAreCommitted) {
  FakeModel model;
  FakeExecutor executor;
  // Two masked positions a step, the first ones; three are due.
  executor.rows = [](const SequenceState &state, int64_t position) {
    return !state.masked[position] ||
           std::count(state.masked.begin(), state.masked.begin() + position,
                      1) < 2;
  };
  executor.program.positions.emplace_back();
  executor.program.commit.within = 0; // blocks last until they are full
  std::vector<size_t> commits;
  Result<Generation> result =
      generate(model, executor, Prompts{{1, 2, 3}}, makeOptions(6, 6, 2),
               [&](const StepRecord &record) {
                 commits.push_back(record.commits.size());
                 return true;
               });
  ASSERT_TRUE(result) << result.error().text();
  EXPECT_EQ(commits, (std::vector<size_t>{2, 2, 2}));
  EXPECT_TRUE(result->complete);
  // Without `within` too, what had no candidates is made up for.
  executor.program.commit.within = -1;
  commits.clear();
  result = generate(model, executor, Prompts{{1, 2, 3}}, makeOptions(6, 6, 2),
                    [&](const StepRecord &record) {
                      commits.push_back(record.commits.size());
                      return true;
                    });
  ASSERT_TRUE(result) << result.error().text();
  EXPECT_EQ(commits, (std::vector<size_t>{2, 2, 2}));
}

TEST(Generate, ADrawnOrderSaysWhatIsCommitted) {
  GenerateOptions options = makeOptions(12, 6, 4); // three a step
  options.sampling.seed = 3;
  const std::vector<int32_t> order = drawOrder(12, 3);
  for (bool late : {false, true}) {
    FakeModel model;
    FakeExecutor executor;
    executor.program.commit.kind = bundle::CommitRule::Kind::RandomOrder;
    // What comes first of all is computed from the second step on.
    if (late)
      executor.rows = [&](const SequenceState &state, int64_t position) {
        return state.place.step > 1 || position != state.blockBegin + order[0];
      };
    std::vector<int32_t> expected; // two blocks, each in the order
    for (int32_t block : {0, 1})
      for (int32_t i : order)
        if (i / 6 == block)
          expected.push_back(i);
    if (late && order[0] < 6)
      std::rotate(expected.begin(), expected.begin() + 1, expected.begin() + 4);
    size_t step = 0;
    Result<Generation> result = generate(
        model, executor, raggedPrompts, options, [&](const StepRecord &record) {
          std::vector<int64_t> now(expected.begin() + 3 * step,
                                   expected.begin() + 3 * step + 3);
          std::sort(now.begin(), now.end());
          EXPECT_EQ(record.commits.size(), 9u);
          EXPECT_EQ(record.logitRows, 9) << "no others go through the head";
          for (size_t c = 0; c < record.commits.size(); ++c)
            EXPECT_EQ(record.commits[c].position,
                      now[c % 3] + int64_t(raggedPrompts[c / 3].size()));
          ++step;
          return true;
        });
    ASSERT_TRUE(result) << result.error().text();
    EXPECT_EQ(step, 4u);
    ASSERT_LT(order[0], 6) << "or the second round tests nothing";
  }
}

/// What the executor is told of confidences is what a plain reading of the
/// logits gives for the last step that predicted a position, also with
/// guidance, to both halves; a row that is not computed keeps its own.
TEST(Generate, TellsHowConfidentEarlierPredictionsWere) {
  for (double cfgScale : {0.0, 0.7}) {
    FakeModel model;
    FakeExecutor executor;
    executor.program = aboveABit();
    executor.program.positions.emplace_back().kind =
        bundle::Positions::Kind::Confident;
    executor.program.commit.ratio = {1, 1}; // one token a step
    GenerateOptions options = makeOptions(8, 4, 8);
    options.sampling.cfgScale = cfgScale;
    // All at a block's first step, then every other position.
    auto computed = [](const SequenceState &state, int64_t position) {
      return state.place.stepInBlock == 1 || !state.masked[position] ||
             (position + state.place.step) % 2 == 0 ||
             std::count(state.masked.begin(), state.masked.begin() + position,
                        1) == 0;
    };
    std::vector<std::vector<double>> seen;
    executor.rows = [&](const SequenceState &state, int64_t position) {
      if (position == 0)
        seen.push_back({state.confidence.begin(), state.confidence.end()});
      return computed(state, position);
    };
    std::vector<std::vector<double>> expected;
    for (const Tokens &prompt : raggedPrompts)
      expected.emplace_back(prompt.size() + 8, -INFINITY);
    size_t looked = 0;
    int64_t older = 0;
    Result<Generation> result = generate(
        model, executor, raggedPrompts, options, [&](const StepRecord &record) {
          for (int half = 0; half < (cfgScale > 0 ? 2 : 1); ++half)
            for (const std::vector<double> &each : expected)
              EXPECT_EQ(seen.at(looked++), each) << "step " << record.step;
          std::vector<std::vector<double>> before = expected;
          for (const Prediction &each : record.predictions) {
            double &kept = expected[each.sequence][each.position];
            EXPECT_EQ(before[each.sequence][each.position], kept) << "twice";
            kept = each.confidence;
          }
          for (const Commit &commit : record.commits)
            EXPECT_EQ(expected[commit.sequence][commit.position],
                      commit.confidence);
          EXPECT_EQ(record.logitRows,
                    std::ssize(record.predictions) * (cfgScale > 0 ? 2 : 1));
          for (size_t s = 0; s < expected.size(); ++s)
            for (size_t p = 0; p < expected[s].size(); ++p)
              older += expected[s][p] == before[s][p] &&
                       expected[s][p] > -INFINITY &&
                       record.tokens[s][p] == FakeModel::mask;
          return true;
        });
    ASSERT_TRUE(result) << result.error().text();
    EXPECT_TRUE(result->complete);
    EXPECT_EQ(looked, seen.size());
    EXPECT_GT(older, 0) << "every mask was predicted at every step";
  }
}

TEST(Generate, AStepWithoutCandidatesWaitsForALaterOne) {
  FakeModel model;
  FakeExecutor executor;
  executor.program = aboveABit();
  // Every third step computes the masked rows.
  executor.rows = [](const SequenceState &state, int64_t position) {
    return state.place.step % 3 == 1 || !state.masked[position];
  };
  Result<Generation> result = generate(model, executor, Prompts{{1, 2, 3}},
                                       makeOptions(6, 6, 6), nullptr);
  ASSERT_TRUE(result) << result.error().text();
  EXPECT_TRUE(result->complete);
  EXPECT_EQ(result->stepsDone % 3, 1);
  // None at all would be a loop without end.
  executor.commits = [](int64_t) { return false; };
  result = generate(model, executor, Prompts{{1, 2, 3}}, makeOptions(6, 6, 2),
                    nullptr);
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().text().find("step 3 of 2: sequence 0 had 3 steps"),
            0u)
      << result.error().text();
}

TEST(Generate, ShiftedModelsCommitWhereTheRowBeforeIsComputed) {
  FakeModel model;
  model.info.shiftedLogits = true;
  FakeExecutor executor;
  executor.program = aboveABit();
  executor.program.commit.ratio = {1, 1}; // one token a step
  executor.rows = [](const SequenceState &state, int64_t position) {
    return position + 1 < static_cast<int64_t>(state.masked.size()) &&
           state.masked[position + 1];
  };
  Result<Generation> result =
      generate(model, executor, Prompts{{1, 2}}, makeOptions(4, 4, 4), nullptr);
  ASSERT_TRUE(result) << result.error().text();
  // Each step computes the rows before masked positions, no others.
  EXPECT_EQ(model.batches[0].positions, (std::vector<int32_t>{1, 2, 3, 4}));
  EXPECT_EQ(model.requested[0], (std::vector<int64_t>{0, 1, 2, 3}));
  EXPECT_EQ(model.batches[3].rows(), 1);
}

TEST(Generate, TheObserverEndsTheRunAfterItsStep) {
  FakeModel model;
  Outcome run = runAll(model, raggedPrompts, makeOptions(8, 4, 8), 3);
  EXPECT_FALSE(run.generation.complete);
  EXPECT_EQ(run.generation.stepsDone, 3);
  EXPECT_EQ(model.forwards, 3);
  for (const Tokens &tokens : run.generation.sequences)
    EXPECT_EQ(std::count(tokens.begin(), tokens.end(), FakeModel::mask), 5);
  // Stopping at the last step takes nothing away.
  FakeModel again;
  EXPECT_TRUE(runAll(again, raggedPrompts, makeOptions(8, 4, 8), 8)
                  .generation.complete);
}

TEST(Generate, BrokenLogitsAreAnErrorWithAPlace) {
  FakeModel model;
  model.brokenAt = 2;
  FakeExecutor executor;
  int64_t steps = 0;
  Result<Generation> result =
      generate(model, executor, Prompts{{1, 2}}, makeOptions(4, 4, 4),
               [&](const StepRecord &) { return ++steps, true; });
  ASSERT_FALSE(result);
  EXPECT_EQ(steps, 1);
  EXPECT_EQ(result.error().text().find("step 2 of 4: the logits of sequence 0, "
                                       "position "),
            0u)
      << result.error().text();
}

TEST(Generate, ErrorsOfThePartsAreHandedOn) {
  FakeModel model;
  model.failAt = 3;
  FakeExecutor executor;
  Result<Generation> result =
      generate(model, executor, Prompts{{1, 2}}, makeOptions(4, 4, 4), nullptr);
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().text(), "step 3 of 4: the fake failed");
  executor.refuse = true;
  result =
      generate(model, executor, Prompts{{1, 2}}, makeOptions(4, 4, 4), nullptr);
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().text(), "the fake refused");
}

} // namespace
