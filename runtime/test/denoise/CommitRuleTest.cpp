//===- CommitRuleTest.cpp - Thresholds, factors, places of a sequence -----===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/denoise/CommitRule.h"
#include "runtime/denoise/SequenceRun.h"

#include <gtest/gtest.h>

#include <limits>

#include <algorithm>

using namespace heddle;
using namespace heddle::rt;
using Kind = bundle::CommitRule::Kind;
using Chosen = std::vector<int64_t>;

namespace {

bundle::CommitRule ruleOf(Kind kind, int64_t num = 1, int64_t den = 1) {
  bundle::CommitRule rule;
  rule.kind = kind;
  rule.ratio = {num, den};
  return rule;
}

TEST(CommitRule, QuotaTakesTheSurestAndTheLowestOfEquals) {
  const std::vector<double> confidence = {0.5, 0.9, 0.5, 0.9, 0.1};
  EXPECT_EQ(chooseCommits(ruleOf(Kind::Quota), confidence, 0), Chosen{});
  EXPECT_EQ(chooseCommits(ruleOf(Kind::Quota), confidence, 1), Chosen{1});
  EXPECT_EQ(chooseCommits(ruleOf(Kind::Quota), confidence, 3),
            (Chosen{0, 1, 3}));
}

TEST(CommitRule, AboveTakesAllThatReachItAndAtLeastTheBest) {
  const std::vector<double> confidence = {0.5, 0.9, 0.91, 0.2};
  EXPECT_EQ(chooseCommits(ruleOf(Kind::Above, 9, 10), confidence, 0),
            (Chosen{1, 2}))
      << "0.9 is not less than 9/10";
  EXPECT_EQ(chooseCommits(ruleOf(Kind::Above), confidence, 4), Chosen{2});
  EXPECT_EQ(chooseCommits(ruleOf(Kind::Above), {}, 4), Chosen{});
}

TEST(CommitRule, FactorTakesTheLargestPrefix) {
  // (m + 1)(1 - c_m): 2 * 0.1, 3 * 0.2, 4 * 0.25, 5 * 0.3.
  const std::vector<double> confidence = {0.75, 0.9, 0.7, 0.8};
  EXPECT_EQ(chooseCommits(ruleOf(Kind::Factor), confidence, 0), (Chosen{1, 3}))
      << "4 * 0.25 is not below 1";
  EXPECT_EQ(chooseCommits(ruleOf(Kind::Factor, 1, 100), confidence, 0),
            Chosen{1});
  const std::vector<double> sure = {1, 1, 1};
  EXPECT_EQ(chooseCommits(ruleOf(Kind::Factor), sure, 0), (Chosen{0, 1, 2}));
}

TEST(CommitRule, FactorMayTakeTheLastOneWithTheOthers) {
  bundle::CommitRule rule = ruleOf(Kind::Factor);
  rule.lastAlone = true;
  // Only the fourth fails, and it is the last one.
  std::vector<double> confidence = {0.76, 0.9, 0.7, 0.8};
  EXPECT_EQ(chooseCommits(rule, confidence, 0), (Chosen{0, 1, 2, 3}));
  confidence.push_back(0.6); // now two fail
  EXPECT_EQ(chooseCommits(rule, confidence, 0), (Chosen{0, 1, 3}));
  EXPECT_EQ(chooseCommits(rule, std::vector<double>{0.1}, 0), Chosen{0});
  EXPECT_EQ(chooseCommits(rule, std::vector<double>{0.2, 0.1}, 0),
            (Chosen{0, 1}));
}

TEST(CommitRule, BestTakesSoMany) {
  bundle::CommitRule rule = ruleOf(Kind::Best);
  const std::vector<double> confidence = {0.5, 0.9, 0.5, 0.9};
  for (auto [count, chosen] :
       {std::pair(1, Chosen{1}), std::pair(3, Chosen{0, 1, 3}),
        std::pair(4, Chosen{0, 1, 2, 3}), std::pair(9, Chosen{0, 1, 2, 3})}) {
    rule.count = count;
    EXPECT_EQ(chooseCommits(rule, confidence, 0), chosen);
  }
}

TEST(CommitRule, EntropiesOfAllButTheLastSumToABound) {
  bundle::CommitRule rule = ruleOf(Kind::Entropy, 1, 2);
  const std::vector<double> confidence = {-0.25, -0.125, -0.25, -0.9, -0.125};
  EXPECT_EQ(chooseCommits(rule, confidence, 0), (Chosen{0, 1, 2, 4}));
  rule.ratio = {1, 8};
  EXPECT_EQ(chooseCommits(rule, confidence, 0), (Chosen{1, 4})) << "may be it";
  rule.ratio = {1, 9};
  EXPECT_EQ(chooseCommits(rule, confidence, 0), Chosen{1}) << "of equals";
  rule.ratio = {9, 1};
  EXPECT_EQ(chooseCommits(rule, confidence, 0), (Chosen{0, 1, 2, 3, 4}));
  EXPECT_EQ(chooseCommits(rule, std::vector<double>{-20.0}, 0), Chosen{0});
  EXPECT_EQ(chooseCommits(rule, {}, 0), Chosen{});
  EXPECT_TRUE(endsWhenFull(rule));
}

TEST(CommitRule, RevokesTheLeastProbableAndFewerThanItCommits) {
  bundle::CommitRule rule = ruleOf(Kind::Above, 6, 10);
  const std::vector<double> probability = {0.95, 0.2, 0.9, 0.5, 0.2};
  EXPECT_EQ(chooseRevoked(rule, probability, 9, 0), Chosen{})
      << "it says nothing";
  rule.revokeBelow = {9, 10};
  EXPECT_EQ(chooseRevoked(rule, probability, 0, 0), Chosen{});
  EXPECT_EQ(chooseRevoked(rule, probability, 1, 0), Chosen{});
  EXPECT_EQ(chooseRevoked(rule, probability, 2, 0), Chosen{1}) << "of equals";
  EXPECT_EQ(chooseRevoked(rule, probability, 3, 0), (Chosen{1, 4}));
  EXPECT_EQ(chooseRevoked(rule, probability, 9, 0), (Chosen{1, 3, 4}))
      << "0.9 is not less than 9/10";
  EXPECT_EQ(chooseRevoked(rule, {}, 9, 0), Chosen{});
}

TEST(CommitRule, RevokesFewerThanTheStepBeforeCommitted) {
  bundle::CommitRule rule = ruleOf(Kind::Above, 6, 10);
  rule.revokeBelow = {9, 10};
  rule.revokeFewerThan = bundle::CommitRule::RevokeFewerThan::StepBefore;
  const std::vector<double> probability = {0.95, 0.2, 0.9, 0.5, 0.2};
  EXPECT_EQ(chooseRevoked(rule, probability, 9, 0), Chosen{})
      << "the block's first step, or none";
  EXPECT_EQ(chooseRevoked(rule, probability, 9, 1), Chosen{});
  EXPECT_EQ(chooseRevoked(rule, probability, 9, 3), (Chosen{1, 4}));
  EXPECT_EQ(chooseRevoked(rule, probability, 2, 9), (Chosen{1, 3, 4}));
  EXPECT_EQ(chooseRevoked(rule, probability, 1, 9), Chosen{})
      << "a step that commits one";
  EXPECT_EQ(chooseRevoked(rule, probability, 0, 9), Chosen{});
}

TEST(CommitRule, ThresholdsMayHaveToBeExceeded) {
  const std::vector<double> confidence = {0.5, 0.75, 0.875, 0.25};
  bundle::CommitRule rule = ruleOf(Kind::Above, 3, 4);
  EXPECT_EQ(chooseCommits(rule, confidence, 0), (Chosen{1, 2}));
  rule.strictly = true;
  EXPECT_EQ(chooseCommits(rule, confidence, 0), Chosen{2});
  rule.ratio = {1, 1};
  EXPECT_EQ(chooseCommits(rule, confidence, 0), Chosen{2}) << "the best one";
  rule.kind = Kind::EvenAbove;
  rule.ratio = {1, 2};
  EXPECT_EQ(chooseCommits(rule, confidence, 4), (Chosen{1, 2}));
}

TEST(CommitRule, TakesAShareOfItsCandidatesAtMost) {
  bundle::CommitRule rule = ruleOf(Kind::Above, 1, 10);
  EXPECT_FALSE(rule.isLimited());
  rule.limitShare = {7, 10};
  EXPECT_EQ(rule.limitOf(9), 6) << "rounded down";
  EXPECT_EQ(rule.limitOf(10), 7);
  EXPECT_EQ(rule.limitOf(1), 1) << "at least one";
  rule.limitLeast = 5;
  rule.limitMost = 20;
  EXPECT_EQ(rule.limitOf(3), 5);
  EXPECT_EQ(rule.limitOf(28), 19);
  EXPECT_EQ(rule.limitOf(100), 20);
  const std::vector<double> confidence = {0.5, 0.9, 0.2, 0.9, 0.3, 0.4, 0.6};
  EXPECT_EQ(chooseCommits(rule, confidence, 0), (Chosen{0, 1, 3, 5, 6}))
      << "the surest five";
  rule.limitLeast = 1;
  EXPECT_EQ(chooseCommits(rule, confidence, 0), (Chosen{0, 1, 3, 6}));
  rule.kind = Kind::Best;
  rule.count = 6;
  EXPECT_EQ(chooseCommits(rule, confidence, 0), (Chosen{0, 1, 3, 6}));
}

ModelConfig config() {
  ModelConfig config;
  config.maskToken = 9;
  config.eosToken = 3;
  return config;
}

const std::vector<int32_t> prompt = {5, 6};
const GenerateOptions sixInTwoBlocks = {
    .genLength = 6, .steps = 4, .blockLength = 3, .sampling = {}};

/// The first step of a block takes the best one.
bundle::DatedCommit bestFirst() {
  bundle::DatedCommit dated;
  dated.when.emplace_back();
  dated.when[0].kind = bundle::When::Kind::On;
  dated.when[0].cadence.kind = bundle::Cadence::Kind::First;
  dated.when[0].cadence.count = 1;
  dated.when[0].cadence.inBlock = true;
  dated.rule = ruleOf(Kind::Best);
  return dated;
}

TEST(SequenceRun, BlocksLastTheirPlannedSteps) {
  SequenceRun run(prompt, sixInTwoBlocks, config(), {});
  EXPECT_EQ(run.quota(), 2) << "the first steps take the remainder";
  run.commit(2, 7);
  run.commit(4, 7);
  run.advance();
  EXPECT_EQ(run.place(), (bundle::StepPlace{.step = 2,
                                            .totalSteps = 4,
                                            .block = 0,
                                            .stepInBlock = 2,
                                            .blockSteps = 2}));
  EXPECT_EQ(run.quota(), 1);
  run.commit(3, 9); // the mask token: stays masked, counts as committed
  run.advance();
  EXPECT_EQ(run.place().block, 1);
  EXPECT_TRUE(run.masked()[3]);
  EXPECT_EQ(run.blockBegin(), 5);
  EXPECT_EQ(run.committedAt()[2], 1);
  EXPECT_EQ(run.committedAt()[3], 0);
  run.advance();
  EXPECT_FALSE(run.done());
  run.advance();
  EXPECT_FALSE(run.done()) << "three positions had no candidates";
  for (int64_t position : {5, 6, 7})
    run.commit(position, 7);
  run.advance();
  EXPECT_TRUE(run.done());
}

TEST(SequenceRun, CarriesOverWhatHadNoCandidates) {
  SequenceRun run(prompt, sixInTwoBlocks, config(), {});
  run.commit(2, 7);
  run.advance();
  EXPECT_EQ(run.quota(), 2) << "one of its own and one left over";
}

TEST(SequenceRun, BlocksThatEndWhenFull) {
  SequenceRun run(prompt, sixInTwoBlocks, config(), ruleOf(Kind::Above));
  for (int64_t position : {2, 3, 4})
    run.commit(position, 7);
  run.advance();
  EXPECT_EQ(run.place().block, 1) << "early";
  EXPECT_EQ(run.place().step, 2);
  for (int64_t position : {5, 6, 7}) {
    EXPECT_FALSE(run.done());
    run.commit(position, 7);
    run.advance();
  }
  EXPECT_TRUE(run.done());
}

TEST(SequenceRun, RevokedTokensAreMasksOfTheBlock) {
  bundle::CommitRule rule = ruleOf(Kind::Above);
  rule.revokeBelow = {1, 2};
  SequenceRun run(prompt, sixInTwoBlocks, config(), rule);
  run.commit(2, 7);
  run.commit(3, 7);
  EXPECT_FALSE(run.isRevocable(2)) << "this step commits it";
  run.advance();
  EXPECT_TRUE(run.isRevocable(2));
  EXPECT_TRUE(run.isRevocable(3));
  EXPECT_FALSE(run.isRevocable(1)) << "the prompt";
  EXPECT_FALSE(run.isRevocable(4)) << "a mask";
  run.commit(4, 7);
  run.revoke(2);
  EXPECT_EQ(run.tokens()[2], config().maskToken);
  EXPECT_TRUE(run.masked()[2]);
  EXPECT_EQ(run.committedAt()[2], 2) << "it changed at step 2";
  run.advance();
  EXPECT_EQ(run.place().block, 0) << "the block is not full";
  EXPECT_TRUE(run.isCandidate(2));
  run.commit(2, 8);
  run.advance();
  EXPECT_EQ(run.place().block, 1);
  EXPECT_EQ(run.committedAt()[2], 3);
  for (int64_t position : {2, 3, 4})
    EXPECT_FALSE(run.isRevocable(position)) << "the block before";
}

TEST(SequenceRun, KnowsWhatTheStepBeforeCommittedInTheBlock) {
  SequenceRun run(prompt, sixInTwoBlocks, config(), ruleOf(Kind::Above));
  EXPECT_EQ(run.commitsBefore(), 0);
  run.commit(2, 7);
  run.commit(3, 7);
  EXPECT_EQ(run.commitsBefore(), 0);
  run.advance();
  EXPECT_EQ(run.commitsBefore(), 2);
  run.advance();
  EXPECT_EQ(run.commitsBefore(), 0) << "a step without candidates";
  run.commit(4, 7);
  run.advance();
  EXPECT_EQ(run.place().block, 1);
  EXPECT_EQ(run.commitsBefore(), 0) << "the block before";
}

TEST(SequenceRun, NeedsAShadowWhereTokensMayBeRevoked) {
  bundle::CommitRule rule = ruleOf(Kind::Above);
  rule.revokeBelow = {1, 2};
  SequenceRun own(prompt, sixInTwoBlocks, config(), rule);
  rule.revokeBy = bundle::CommitRule::RevokeBy::Shadow;
  SequenceRun run(prompt, sixInTwoBlocks, config(), rule);
  EXPECT_FALSE(run.needsShadow()) << "nothing to revoke";
  for (SequenceRun *each : {&own, &run}) {
    each->commit(2, 7);
    each->advance();
  }
  EXPECT_TRUE(run.needsShadow());
  EXPECT_FALSE(own.needsShadow()) << "by its own rows";
  run.commit(3, 7);
  run.advance();
  EXPECT_FALSE(run.needsShadow()) << "one candidate, for which none is revoked";
  run.commit(4, 7);
  run.advance();
  EXPECT_EQ(run.place().block, 1);
  EXPECT_FALSE(run.needsShadow()) << "a new block";
}

TEST(SequenceRun, NeedsNoShadowBehindAStepThatCommittedOne) {
  bundle::CommitRule rule = ruleOf(Kind::Above);
  rule.revokeBelow = {1, 2};
  rule.revokeBy = bundle::CommitRule::RevokeBy::Shadow;
  rule.revokeFewerThan = bundle::CommitRule::RevokeFewerThan::StepBefore;
  GenerateOptions oneBlock = sixInTwoBlocks;
  oneBlock.blockLength = 6;
  SequenceRun run(prompt, oneBlock, config(), rule);
  run.commit(2, 7);
  run.advance();
  EXPECT_TRUE(run.isRevocable(2));
  EXPECT_FALSE(run.needsShadow()) << "fewer than one are none";
  run.commit(3, 7);
  run.commit(4, 7);
  run.advance();
  EXPECT_TRUE(run.needsShadow());
}

TEST(SequenceRun, RemembersTheLastPredictionOfAMask) {
  bundle::CommitRule rule = ruleOf(Kind::Above);
  rule.revokeBelow = {1, 2};
  SequenceRun run(prompt, sixInTwoBlocks, config(), rule);
  const double none = -std::numeric_limits<double>::infinity();
  auto confidence = [&] {
    return std::vector<double>(run.confidence().begin(),
                               run.confidence().end());
  };
  EXPECT_EQ(confidence(), std::vector<double>(8, none));
  run.predict(2, 0.5);
  run.predict(3, 0.25);
  run.predict(4, -2);
  run.commit(2, 7);
  run.advance();
  run.predict(3, 0.125);
  EXPECT_EQ(confidence(),
            (std::vector<double>{none, none, 0.5, 0.125, -2, none, none, none}))
      << "4 was not predicted again and keeps what it had";
  run.commit(3, 7);
  run.revoke(2);
  EXPECT_EQ(confidence()[2], none) << "that was of the token that is gone";
  run.advance();
  run.predict(2, 0.75);
  EXPECT_EQ(confidence()[2], 0.75);
}

/// By the worked example of docs/Spec/Rows.md: of positions behind decoded ones
/// the first three have the shares 0.30, 0.06 and 0.005.
TEST(SequenceRun, LiftsConfidencesAtStepsWhoseRuleDoes) {
  bundle::DatedCommit first = bestFirst();
  first.rule.near = 1;
  SequenceRun run(prompt, sixInTwoBlocks, config(), {}, {first});
  EXPECT_NEAR(run.lifted(2, 1), 0.30, 0.005);
  EXPECT_NEAR(run.lifted(3, 0.5), 0.03, 0.005);
  EXPECT_NEAR(run.lifted(4, 1), 0.005, 0.001);
  EXPECT_NEAR(run.lifted(2, -0.3), -1, 0.02);
  run.commit(4, 7);
  EXPECT_NEAR(run.lifted(3, 1), 0.30, 0.005) << "from both sides";
  run.advance();
  EXPECT_EQ(run.lifted(3, 0.75), 0.75) << "the other rule says nothing of it";
}

TEST(SequenceRun, NothingIsRevocableAtStepsWhoseRuleDoesNotSaySo) {
  bundle::DatedCommit first = bestFirst();
  bundle::CommitRule rule = ruleOf(Kind::Above);
  rule.revokeBelow = {1, 2};
  std::swap(rule, first.rule);
  SequenceRun run(prompt, sixInTwoBlocks, config(), rule, {first});
  run.commit(2, 7);
  run.advance();
  EXPECT_FALSE(run.isRevocable(2));
}

TEST(SequenceRun, RevokedTokensAreDueAgain) {
  bundle::CommitRule rule;
  rule.revokeBelow = {1, 2};
  SequenceRun run(prompt, sixInTwoBlocks, config(), rule);
  EXPECT_EQ(run.quota(), 2);
  run.commit(2, 7);
  run.commit(3, 7);
  run.advance();
  EXPECT_EQ(run.quota(), 1);
  run.commit(4, 7);
  run.revoke(3);
  run.advance();
  EXPECT_EQ(run.place().block, 0) << "beyond its planned steps";
  EXPECT_EQ(run.quota(), 1);
  run.commit(3, 7);
  run.advance();
  EXPECT_EQ(run.place().block, 1);
}

TEST(SequenceRun, TheEosThatWasFoundStays) {
  bundle::CommitRule rule = ruleOf(Kind::Above);
  rule.revokeBelow = {1, 2};
  rule.stopAtEos = rule.narrows = true;
  GenerateOptions options = sixInTwoBlocks;
  options.blockLength = 6;
  SequenceRun run(prompt, options, config(), rule);
  run.commit(3, 7);
  run.commit(5, 3); // EOS
  run.commit(6, 7);
  run.advance();
  EXPECT_TRUE(run.isRevocable(3));
  EXPECT_FALSE(run.isRevocable(5)) << "EOS";
  EXPECT_FALSE(run.isRevocable(6)) << "behind EOS";
}

TEST(SequenceRun, EndsAtEosOnceNothingIsMaskedBeforeIt) {
  bundle::CommitRule rule;
  rule.stopAtEos = true;
  SequenceRun run(prompt, sixInTwoBlocks, config(), rule);
  run.commit(3, 3);
  run.advance();
  EXPECT_FALSE(run.done()) << "position 2 is masked";
  run.commit(2, 7);
  run.advance();
  EXPECT_TRUE(run.done());
  EXPECT_EQ(run.tokens(), (std::vector<int32_t>{5, 6, 7, 3, 3, 3, 3, 3}));
}

TEST(SequenceRun, NarrowsToWhatStandsBeforeEos) {
  bundle::CommitRule rule;
  rule.stopAtEos = rule.narrows = true;
  rule.within = 0;
  GenerateOptions options = sixInTwoBlocks;
  options.blockLength = 6;
  SequenceRun run(prompt, options, config(), rule);
  EXPECT_EQ(run.textEnd(), 8);
  EXPECT_FALSE(run.place().afterEos);
  run.commit(6, 3); // EOS
  run.advance();
  EXPECT_EQ(run.textEnd(), 7);
  EXPECT_TRUE(run.place().afterEos);
  EXPECT_TRUE(run.masked()[7]);
  EXPECT_FALSE(run.isCandidate(7)) << "behind EOS";
  EXPECT_TRUE(run.isCandidate(5));
  run.commit(4, 3);
  run.advance();
  EXPECT_EQ(run.textEnd(), 5) << "the first EOS";
  run.commit(2, 7);
  run.commit(3, 7);
  run.advance();
  EXPECT_TRUE(run.done());
  EXPECT_EQ(run.tokens(), (std::vector<int32_t>{5, 6, 7, 7, 3, 3, 3, 3}))
      << "5 and 7 were masked";
}

/// Odd steps do not look for EOS, and even ones do not cut the text there.
TEST(SequenceRun, LooksForEosWhereTheRuleSaysSo) {
  bundle::CommitRule rule;
  rule.stopAtEos = true;
  rule.within = 0;
  bundle::DatedCommit odd;
  odd.when = {{bundle::When::Kind::On, {}}};
  odd.when[0].cadence.kind = bundle::Cadence::Kind::Every;
  odd.when[0].cadence.period = 2;
  odd.rule.within = 0;
  GenerateOptions options = sixInTwoBlocks;
  options.blockLength = 6;
  SequenceRun run(prompt, options, config(), rule, {odd});
  run.commit(2, 3); // EOS, nothing masked before it
  run.advance();
  EXPECT_FALSE(run.done());
  EXPECT_FALSE(run.place().afterEos);
  EXPECT_EQ(run.textEnd(), 8);
  run.commit(4, 7);
  run.advance();
  EXPECT_TRUE(run.done());
  EXPECT_EQ(run.tokens(), (std::vector<int32_t>{5, 6, 3, 3, 7, 3, 3, 3}));

  // A step that does not look keeps what was found; it ends the run, too.
  SequenceRun second(prompt, options, config(), rule, {odd});
  second.commit(5, 7);
  second.advance();
  second.commit(4, 3);
  second.advance();
  EXPECT_TRUE(second.place().afterEos);
  EXPECT_EQ(second.textEnd(), 8) << "it does not narrow";
  EXPECT_FALSE(second.done());
  second.commit(2, 3);
  second.commit(3, 7);
  second.advance();
  EXPECT_TRUE(second.done());
  EXPECT_EQ(second.tokens(), (std::vector<int32_t>{5, 6, 3, 7, 3, 7, 3, 3}));

  // One that looks again finds an earlier one; and only one that narrows ends
  // the text.
  rule.narrows = true;
  odd.rule.stopAtEos = true;
  SequenceRun third(prompt, options, config(), rule, {odd});
  third.commit(7, 3);
  third.advance();
  EXPECT_TRUE(third.place().afterEos);
  EXPECT_EQ(third.textEnd(), 8);
  third.commit(5, 3);
  third.advance();
  EXPECT_EQ(third.textEnd(), 6);
  third.commit(3, 3);
  third.advance();
  EXPECT_EQ(third.textEnd(), 6);
  third.commit(2, 7);
  third.advance();
  EXPECT_TRUE(third.done());
}

TEST(SequenceRun, FindsAnEosOfTheBlockBefore) {
  bundle::CommitRule rule;
  rule.stopAtEos = true;
  rule.within = 0;
  bundle::DatedCommit first;
  first.when = {{bundle::When::Kind::On, {}}};
  first.when[0].cadence.kind = bundle::Cadence::Kind::First;
  first.when[0].cadence.count = 3;
  first.rule.within = 0;
  SequenceRun run(prompt, sixInTwoBlocks, config(), rule, {first});
  for (int64_t position : {2, 3, 4}) {
    run.commit(position, position == 3 ? 3 : 7);
    run.advance();
  }
  EXPECT_EQ(run.place().block, 1);
  EXPECT_FALSE(run.place().afterEos);
  run.commit(6, 7);
  run.advance();
  EXPECT_TRUE(run.done());
  EXPECT_EQ(run.tokens(), (std::vector<int32_t>{5, 6, 7, 3, 7, 3, 7, 3}));
}

TEST(SequenceRun, BlocksMayTakeAFewestPasses) {
  bundle::CommitRule rule = ruleOf(Kind::Above);
  rule.leastPasses = 2;
  SequenceRun run(prompt, sixInTwoBlocks, config(), rule);
  for (int64_t block = 0; block < 2; ++block) {
    for (int64_t i = 0; i < 3; ++i)
      run.commit(run.blockBegin() + i, 7);
    run.advance();
    ASSERT_FALSE(run.done());
    EXPECT_TRUE(run.isExtraPass());
    EXPECT_EQ(run.place().block, block) << "one more pass";
    EXPECT_EQ(run.place().stepInBlock, 2);
    run.advance();
  }
  EXPECT_TRUE(run.done());
  EXPECT_EQ(run.place().step, 5);
}

TEST(SequenceRun, StepsHaveTheirOwnRules) {
  SequenceRun run(prompt, sixInTwoBlocks, config(), ruleOf(Kind::Timesteps),
                  {bestFirst()});
  // Blocks of 3 in 2 steps: one token of the first, then all that are left.
  for (int64_t block = 0; block < 2; ++block) {
    EXPECT_EQ(run.stepRule().kind, Kind::Best);
    run.commit(run.blockBegin(), 7);
    run.advance();
    EXPECT_EQ(run.stepRule().kind, Kind::Timesteps);
    EXPECT_EQ(run.quota(), 2);
    run.commit(run.blockBegin() + 1, 7);
    run.commit(run.blockBegin() + 2, 7);
    run.advance();
  }
  EXPECT_TRUE(run.done());
}

TEST(SequenceRun, WhatOtherRulesTookIsNoLongerDue) {
  GenerateOptions options = {
      .genLength = 6, .steps = 6, .blockLength = 6, .sampling = {}};
  SequenceRun run(prompt, options, config(), ruleOf(Kind::Quota),
                  {bestFirst()});
  for (int64_t position : {2, 3, 4, 5})
    run.commit(position, 7);
  for (int64_t quota : {0, 0, 0, 1, 2}) { // 2 - 4, 3 - 4, ...
    run.advance();
    EXPECT_EQ(run.quota(), quota);
  }
}

TEST(SequenceRun, TimestepsOfABlock) {
  GenerateOptions options = {
      .genLength = 20, .steps = 10, .blockLength = 10, .sampling = {}};
  SequenceRun run(prompt, options, config(), ruleOf(Kind::Timesteps));
  for (int64_t block = 0; block < 2; ++block) {
    int64_t left = 10, done = 0;
    for (int64_t step = 1; step <= 5; ++step) {
      EXPECT_EQ(run.quota(), transferQuota(left, step, 5, 1e-3));
      for (int64_t i = run.quota(); i > 0; --i, ++done, --left)
        run.commit(run.blockBegin() + done, 7);
      run.advance();
    }
    EXPECT_EQ(left, 0) << "the last step takes all";
  }
  EXPECT_TRUE(run.done());
}

TEST(SequenceRun, KnowsWhatComesNextInADrawnOrder) {
  GenerateOptions options = sixInTwoBlocks;
  options.sampling.seed = 11;
  SequenceRun run(prompt, options, config(), ruleOf(Kind::RandomOrder));
  std::vector<int32_t> order(run.order().begin(), run.order().end());
  std::vector<int32_t> ofBlocks;
  for (int32_t block : {0, 1})
    for (int32_t position : order)
      if ((position - 2) / 3 == block)
        ofBlocks.push_back(position);
  ASSERT_EQ(ofBlocks.size(), 6u);
  EXPECT_NE(order, ofBlocks) << "or the seed tests nothing";
  std::vector<int32_t> taken;
  for (size_t count : {2, 1, 2, 1}) {
    std::vector<int32_t> next(run.next().begin(), run.next().end());
    std::vector<int32_t> expected(ofBlocks.begin() + taken.size(),
                                  ofBlocks.begin() + taken.size() + count);
    EXPECT_EQ(next, expected);
    for (int32_t position : next)
      run.commit(position, 7);
    taken.insert(taken.end(), next.begin(), next.end());
    run.advance();
  }
  EXPECT_TRUE(run.done());
  // The order is of the response, whatever stands before it.
  const std::vector<int32_t> longer = {5, 6, 7};
  SequenceRun other(longer, options, config(), ruleOf(Kind::RandomOrder));
  for (size_t i = 0; i < order.size(); ++i)
    EXPECT_EQ(other.order()[i], order[i] + 1);
  // What could not be computed is made up for.
  EXPECT_EQ(other.next().size(), 2u);
  other.advance();
  EXPECT_EQ(other.next().size(), 3u);
}

TEST(SequenceRun, TakesAnOrderThatIsGiven) {
  GenerateOptions options = sixInTwoBlocks;
  options.commitOrder = {4, 2, 0, 5, 1, 3};
  SequenceRun run(prompt, options, config(), ruleOf(Kind::RandomOrder));
  // Two positions of prompt; the first block's come first.
  const std::vector<std::vector<int32_t>> steps = {{4, 2}, {3}, {6, 7}, {5}};
  for (const std::vector<int32_t> &step : steps) {
    EXPECT_EQ(std::vector<int32_t>(run.next().begin(), run.next().end()), step);
    for (int32_t position : step)
      run.commit(position, 7);
    run.advance();
  }
  EXPECT_TRUE(run.done());
}

TEST(SequenceRun, NothingIsKnownToComeNextWithoutAnOrder) {
  for (Kind kind : {Kind::Quota, Kind::Above, Kind::Factor}) {
    SequenceRun run(prompt, sixInTwoBlocks, config(), ruleOf(kind));
    EXPECT_TRUE(run.next().empty());
    EXPECT_TRUE(std::is_sorted(run.order().begin(), run.order().end()));
  }
}

/// A run that ends when full may go on after its planned steps: by timesteps,
/// every one of these is a last one, which takes all it can.
TEST(SequenceRun, TimestepsHoldOnAfterThePlan) {
  bundle::CommitRule rule;
  rule.within = 0;
  for (TransferRule transfer : {TransferRule::Entropy, TransferRule::Origin}) {
    GenerateOptions options = {
        .genLength = 6, .steps = 2, .blockLength = 6, .sampling = {}};
    options.sampling.timesteps = TimestepOptions{.rule = transfer};
    SequenceRun run(prompt, options, config(), rule);
    run.advance();
    EXPECT_EQ(run.quota(), 6);
    run.commit(3, 7);
    for (int64_t extra = 0; extra < 3; ++extra) {
      run.advance();
      ASSERT_FALSE(run.done());
      EXPECT_EQ(run.quota(), 5);
      for (int64_t position : {2, 4, 5, 6, 7})
        EXPECT_TRUE(run.isCandidate(position));
      EXPECT_FALSE(run.isCandidate(3));
    }
  }
}

} // namespace
