//===- EditTest.cpp - Tokens that later steps give way to others ----------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Fakes.h"

#include "runtime/denoise/CommitRule.h"
#include "runtime/denoise/SequenceRun.h"

#include <cmath>
#include <gtest/gtest.h>
#include <map>

using namespace heddle;
using namespace heddle::rt;
using namespace heddle::rt::test;

namespace {

using Kind = bundle::CommitRule::Kind;
using Tokens = std::vector<int32_t>;

GenerateOptions lengths(int64_t gen, int64_t block, int64_t steps) {
  return {
      .genLength = gen, .steps = steps, .blockLength = block, .sampling = {}};
}

bundle::CommitRule editing(bundle::Ratio above, bundle::Ratio edit,
                           int64_t further = 0) {
  bundle::CommitRule rule;
  rule.kind = Kind::Above;
  rule.ratio = above;
  rule.editAbove = edit;
  rule.furtherPasses = further;
  return rule;
}

TEST(CommitRule, ReplacesWhatIsDrawnOtherwiseAndIsProbableEnough) {
  const bundle::CommitRule rule = editing({1, 2}, {9, 10});
  EXPECT_TRUE(isReplaced(rule, 7, {.token = 8, .confidence = 0.9}));
  EXPECT_FALSE(isReplaced(rule, 7, {.token = 8, .confidence = 0.89}));
  EXPECT_FALSE(isReplaced(rule, 7, {.token = 7, .confidence = 1}));
  EXPECT_FALSE(
      isReplaced(bundle::CommitRule(), 7, {.token = 8, .confidence = 1}))
      << "it says nothing";
}

ModelConfig config() {
  ModelConfig config;
  config.maskToken = 9;
  config.eosToken = 3;
  return config;
}

const Tokens prompt = {5, 6};

TEST(SequenceRun, EditedTokensAreThoseOfTheStep) {
  SequenceRun run(prompt, lengths(6, 3, 4), config(), editing({1, 2}, {1, 2}));
  run.commit(2, 7);
  run.commit(3, 7);
  EXPECT_FALSE(run.isEditable(2)) << "this step commits it";
  run.advance();
  EXPECT_TRUE(run.isEditable(2));
  EXPECT_FALSE(run.isRevocable(2)) << "the rule says nothing of it";
  EXPECT_FALSE(run.isEditable(1)) << "the prompt";
  EXPECT_FALSE(run.isEditable(4)) << "a mask";
  run.commit(4, 7);
  run.edit(2, 8);
  EXPECT_EQ(run.tokens()[2], 8);
  EXPECT_FALSE(run.masked()[2]);
  EXPECT_EQ(run.committedAt()[2], 2);
  EXPECT_EQ(run.committedAt()[3], 1);
  run.advance();
  EXPECT_EQ(run.place().block, 1) << "no further pass is asked for";
  for (int64_t position : {2, 3, 4})
    EXPECT_FALSE(run.isEditable(position)) << "the block before";
}

TEST(SequenceRun, BlocksTakeFurtherPassesWhileTheyChange) {
  for (int64_t further : {0, 1, 2, 5}) {
    SequenceRun run(prompt, lengths(6, 3, 4), config(),
                    editing({1, 2}, {1, 2}, further));
    for (int64_t i = 2; i < 5; ++i)
      run.commit(i, 7);
    EXPECT_FALSE(run.isExtraPass());
    run.advance();
    // Two that change something, and one that doesn't.
    for (int64_t pass = 1; pass <= std::min<int64_t>(further, 3); ++pass) {
      EXPECT_TRUE(run.isExtraPass());
      EXPECT_EQ(run.place().block, 0);
      EXPECT_EQ(run.place().stepInBlock, 1 + pass);
      if (pass < 3)
        run.edit(2, pass == 1 ? 8 : 4);
      run.advance();
    }
    EXPECT_EQ(run.place().block, 1) << further;
    EXPECT_EQ(run.place().stepInBlock, 1);
    EXPECT_FALSE(run.isExtraPass());
  }
}

TEST(SequenceRun, TheRuleOfTheStepAsksForFurtherPasses) {
  bundle::DatedCommit first;
  first.when.emplace_back();
  first.when[0].kind = bundle::When::Kind::On;
  first.when[0].cadence.kind = bundle::Cadence::Kind::First;
  first.when[0].cadence.count = 1;
  first.when[0].cadence.inBlock = true;
  first.rule = editing({1, 2}, {1, 2}, 4);
  bundle::CommitRule rule;
  rule.kind = Kind::Best;
  rule.count = 3;
  SequenceRun run(prompt, lengths(6, 3, 4), config(), rule, {first});
  for (int64_t i = 2; i < 5; ++i)
    run.commit(i, 7);
  run.advance();
  EXPECT_TRUE(run.isExtraPass()) << "what was committed may be edited";
  EXPECT_FALSE(run.isEditable(2)) << "but the next step's rule does not";
  run.advance();
  EXPECT_EQ(run.place().block, 1);
}

TEST(SequenceRun, QuotasAreNotOfWhatIsEdited) {
  bundle::CommitRule rule;
  rule.editAbove = {1, 2};
  rule.furtherPasses = 1;
  SequenceRun run(prompt, lengths(6, 3, 4), config(), rule);
  EXPECT_EQ(run.quota(), 2);
  run.commit(2, 7);
  run.commit(3, 7);
  run.advance();
  EXPECT_EQ(run.quota(), 1);
  run.edit(2, 8);
  run.commit(4, 7);
  run.advance();
  EXPECT_TRUE(run.isExtraPass()) << "beyond its planned steps";
  EXPECT_EQ(run.quota(), 0);
  run.advance();
  EXPECT_EQ(run.place().block, 1);
}

TEST(SequenceRun, TheEosThatWasFoundIsNotEdited) {
  bundle::CommitRule rule = editing({1, 2}, {1, 2}, 3);
  rule.stopAtEos = rule.narrows = true;
  SequenceRun run(prompt, lengths(6, 6, 6), config(), rule);
  run.commit(3, 7);
  run.commit(5, 3); // EOS
  run.commit(6, 7);
  run.advance();
  EXPECT_TRUE(run.isEditable(3));
  EXPECT_FALSE(run.isEditable(5)) << "EOS";
  EXPECT_FALSE(run.isEditable(6)) << "behind EOS";
  run.commit(2, 7);
  run.commit(4, 7);
  run.advance();
  EXPECT_TRUE(run.done()) << "there is no further pass of an ended text";
}

/// What a step made of a position: a token, how probable it was, and whether
/// there was another one.
struct Made {
  int32_t token = 0;
  double probability = 0;
  bool edited = false, revoked = false;
};
using StepMade = std::map<int64_t, Made>;

/// One sequence alone under `commit above(r) edit(above = e, further = n)`,
/// with `revoke(below = q)` if q is not 0, as the Spec has it.
std::vector<StepMade> plainEditing(const FakeModel &model, const Tokens &start,
                                   const GenerateOptions &options, double above,
                                   double edit, int64_t further, double below,
                                   Tokens &sequence) {
  const auto begin = static_cast<int64_t>(start.size());
  sequence = start;
  sequence.resize(start.size() + options.genLength, FakeModel::mask);
  std::vector<StepMade> all;
  for (int64_t first = begin; first < std::ssize(sequence);
       first += options.blockLength) {
    const int64_t end = first + options.blockLength;
    int64_t passes = 0;
    for (bool changed = true; changed;) {
      const bool full =
          std::count(sequence.begin() + first, sequence.begin() + end,
                     FakeModel::mask) == 0;
      if (full && ++passes > further)
        break;
      StepMade made, drawn;
      std::vector<std::pair<double, int64_t>> doubts;
      std::pair<double, int64_t> best = {-1, 0};
      int64_t commits = 0;
      for (int64_t p = first; p < end; ++p) {
        const int32_t there = sequence[p];
        std::vector<double> chances;
        double sum = 0;
        for (int64_t v = 0; v < model.info.vocabSize; ++v)
          sum += chances.emplace_back(std::exp(model.logit(sequence, p, v)));
        for (double &chance : chances)
          chance /= sum;
        // Masks are drawn by none of these.
        const auto likely =
            std::max_element(chances.begin(), chances.end() - 1);
        const auto token = static_cast<int32_t>(likely - chances.begin());
        if (there == FakeModel::mask)
          best = std::max(best, {*likely, -p});
        const bool open = there == FakeModel::mask;
        drawn[p] = {token, *likely};
        if (open ? *likely >= above : token != there && *likely >= edit) {
          made[p] = {token, *likely, /*edited=*/!open};
          commits += open;
        } else if (!open && chances[there] < below) {
          doubts.emplace_back(chances[there], p);
        }
      }
      if (commits == 0 && !full) { // the best one, then
        made[-best.second] = drawn[-best.second];
        commits = 1;
      }
      std::sort(doubts.begin(), doubts.end());
      for (auto [chance, p] : doubts)
        if (--commits > 0)
          made[p] = {FakeModel::mask, chance, false, true};
      changed = !made.empty();
      for (auto [p, each] : made)
        sequence[p] = each.token;
      all.push_back(made);
    }
  }
  return all;
}

const std::vector<Tokens> raggedPrompts = {
    {1, 2, 3}, {9}, {5, 6, 7, 8, 30, 31, 0}};

/// Against the plain loop; returns how many tokens were edited and revoked, and
/// in how many passes nothing was masked.
struct Seen {
  int64_t edited = 0, revoked = 0, further = 0;
};
Seen compare(const bundle::CommitRule &rule, const GenerateOptions &options,
             bool drawsMasks = false) {
  FakeModel model;
  model.drawsMasks = drawsMasks;
  FakeExecutor executor;
  executor.program.commit = rule;
  std::vector<std::vector<StepMade>> got(raggedPrompts.size());
  Result<Generation> result = generate(
      model, executor, raggedPrompts, options, [&](const StepRecord &record) {
        for (auto &sequence : got)
          sequence.emplace_back();
        for (const Commit &each : record.commits) {
          got[each.sequence].back()[each.position] = {
              each.token, each.confidence, each.edited, each.revoked};
          EXPECT_EQ(record.tokens[each.sequence][each.position], each.token);
        }
        return true;
      });
  EXPECT_TRUE(result) << result.error().text();
  Seen seen;
  if (!result)
    return seen;
  EXPECT_TRUE(result->complete);
  auto number = [](bundle::Ratio ratio) {
    return static_cast<double>(ratio.num) / static_cast<double>(ratio.den);
  };
  int64_t most = 0;
  for (size_t s = 0; s < raggedPrompts.size(); ++s) {
    Tokens expected;
    std::vector<StepMade> made =
        plainEditing(model, raggedPrompts[s], options, number(rule.ratio),
                     number(rule.editAbove), rule.furtherPasses,
                     rule.revokes() ? number(rule.revokeBelow) : 0, expected);
    EXPECT_EQ(result->sequences[s], expected);
    EXPECT_EQ(std::count(expected.begin(), expected.end(), FakeModel::mask), 0);
    most = std::max(most, std::ssize(made));
    if (made.size() > got[s].size()) {
      ADD_FAILURE() << made.size() << " steps, got " << got[s].size();
      continue;
    }
    int64_t blocks = options.genLength / options.blockLength;
    EXPECT_LE(std::ssize(made), options.genLength + blocks * rule.furtherPasses)
        << "a run ends";
    for (size_t step = 0; step < made.size(); ++step) {
      EXPECT_EQ(got[s][step].size(), made[step].size()) << "step " << step + 1;
      bool fresh = false;
      for (auto [position, each] : made[step]) {
        const Made &other = got[s][step][position];
        EXPECT_EQ(other.token, each.token);
        EXPECT_EQ(other.edited, each.edited);
        EXPECT_EQ(other.revoked, each.revoked);
        EXPECT_NEAR(other.probability, each.probability, 1e-6);
        seen.edited += each.edited;
        seen.revoked += each.revoked;
        fresh |= !each.edited;
      }
      seen.further += !fresh;
    }
  }
  EXPECT_EQ(result->stepsDone, most);
  return seen;
}

TEST(Generate, EditsAsThePlainLoopDoes) {
  Seen all;
  int64_t both = 0;
  for (bundle::Ratio bound : {bundle::Ratio{3, 20}, bundle::Ratio{1, 10000}})
    for (int64_t further : {0, 1, 16})
      for (int64_t block : {4, 8, 24}) {
        bundle::CommitRule rule = editing({3, 20}, bound, further);
        const Seen seen = compare(rule, lengths(24, block, 24));
        EXPECT_TRUE(further > 0 || seen.further == 0);
        EXPECT_EQ(seen.revoked, 0);
        all.edited += seen.edited;
        all.further += seen.further;
        rule.revokeBelow = {1, 1};
        rule.ratio = {4, 25};
        both += compare(rule, lengths(24, block, 24)).revoked;
      }
  EXPECT_GT(all.edited, 200);
  EXPECT_GT(all.further, 50);
  EXPECT_GT(both, 50);
}

TEST(Generate, NoEditMakesAMask) {
  EXPECT_GT(compare(editing({3, 20}, {1, 10000}, 3), lengths(24, 8, 24),
                    /*drawsMasks=*/true)
                .edited,
            20);
}

TEST(Generate, StepsThatAreLeftOverOnlyEdit) {
  for (bool drawn : {false, true}) {
    FakeModel model;
    FakeExecutor executor;
    executor.program.commit.editAbove = {1, 10000};
    if (drawn)
      executor.program.commit.kind = Kind::RandomOrder;
    int64_t edited = 0;
    // Three steps for two tokens of each block: every third has no quota.
    Result<Generation> result = generate(
        model, executor, std::vector<Tokens>{{1, 2, 3}}, lengths(8, 2, 12),
        [&](const StepRecord &record) {
          const int64_t place = (record.step - 1) % 3;
          EXPECT_EQ(record.logitRows, drawn && place == 0 ? 1 : 2);
          for (const Commit &each : record.commits)
            edited += each.edited;
          EXPECT_EQ(std::ranges::count(record.commits, false, &Commit::edited),
                    place < 2);
          return true;
        });
    ASSERT_TRUE(result) << result.error().text();
    EXPECT_EQ(result->stepsDone, 12);
    EXPECT_GT(edited, 0);
  }
}

TEST(Generate, StepsThatFindNoCandidateEditNothing) {
  FakeModel model;
  FakeExecutor executor;
  executor.program.commit = editing({3, 20}, {1, 10000});
  executor.rows = [](const SequenceState &state, int64_t position) {
    return state.place.step != 2 || !state.masked[position];
  };
  int64_t rows = 0;
  Result<Generation> result =
      generate(model, executor, std::vector<Tokens>{{1, 2, 3}},
               lengths(12, 12, 12), [&](const StepRecord &record) {
                 EXPECT_EQ(record.commits.empty(), record.step == 2);
                 EXPECT_EQ(record.logitRows, record.step == 2 ? 0 : 12);
                 rows += record.rowsComputed;
                 return true;
               });
  ASSERT_TRUE(result) << result.error().text();
  EXPECT_GT(rows, 0);
}

TEST(Generate, OnlyRowsThatAreComputedAndWithinAreEdited) {
  for (bool byRows : {true, false}) {
    FakeModel model;
    FakeExecutor executor;
    executor.program.commit = editing({3, 20}, {1, 10000}, 4);
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
    int64_t edited = 0;
    Result<Generation> result = generate(
        model, executor, std::vector<Tokens>{{1, 2, 3, 4}}, lengths(24, 24, 24),
        [&](const StepRecord &record) {
          int64_t rows = 12; // of the even ones, all
          for (int64_t i = 5; i < 28; i += 2)
            rows += now[i] == FakeModel::mask;
          EXPECT_EQ(record.logitRows, rows);
          for (const Commit &each : record.commits) {
            EXPECT_EQ(each.edited, now[each.position] != FakeModel::mask);
            EXPECT_TRUE(!each.edited || even(each.position));
            edited += each.edited;
          }
          now = record.tokens[0];
          return true;
        });
    ASSERT_TRUE(result) << result.error().text();
    EXPECT_GT(edited, 20);
  }
}

/// Whatever the run's own confidences are, edits and thresholds go by
/// probabilities.
TEST(Generate, EditsAndThresholdsGoByProbabilities) {
  for (Kind kind : {Kind::Quota, Kind::Above}) {
    FakeModel model;
    FakeExecutor executor;
    bundle::CommitRule &rule = executor.program.commit;
    rule = editing({3, 20}, {1, 5}, 2);
    rule.kind = kind;
    GenerateOptions options = lengths(24, 24, 6);
    options.sampling.remasking = Remasking::Random;
    int64_t edited = 0, others = 0;
    Tokens now = {1, 2, 3};
    now.resize(27, FakeModel::mask);
    Result<Generation> result = generate(
        model, executor, std::vector<Tokens>{{1, 2, 3}}, options,
        [&](const StepRecord &record) {
          for (const Commit &each : record.commits) {
            double sum = 0;
            for (int64_t v = 0; v < model.info.vocabSize; ++v)
              sum += std::exp(model.logit(now, each.position, v));
            const double chance =
                std::exp(model.logit(now, each.position, each.token)) / sum;
            const bool same = std::abs(each.confidence - chance) < 1e-6;
            EXPECT_TRUE(same || (kind == Kind::Quota && !each.edited));
            EXPECT_GE(chance, each.edited ? 0.2 : 0);
            edited += each.edited;
            others += !same;
          }
          now = record.tokens[0];
          return true;
        });
    ASSERT_TRUE(result) << result.error().text();
    EXPECT_GT(edited, 5);
    EXPECT_EQ(others > 0, kind == Kind::Quota);
  }
}

} // namespace
