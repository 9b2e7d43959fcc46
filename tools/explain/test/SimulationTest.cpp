//===- SimulationTest.cpp - A run without a model ------------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tools/explain/Simulation.h"
#include "bundle/test/Says.h"
#include "tools/explain/page/SequencePicture.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

using namespace heddle;
using namespace heddle::bundle;
using namespace heddle::explain;
using heddle::bundle::test::says;

namespace {

/// All rows at the first step of a block, the block's at the others.
Manifest ofBlocks() {
  Manifest manifest;
  manifest.positions.emplace_back().kind = Positions::Kind::Block;
  Cadence start;
  start.kind = Cadence::Kind::First;
  start.count = 1;
  start.inBlock = true;
  Pass all, block;
  all.when.push_back({When::Kind::On, start});
  block.rows = 0;
  manifest.passes = {all, block};
  manifest.reuse.kv = true;
  return manifest;
}

/// Of blocks the surest positions, `count` of them, and the first masked one.
Manifest surestOfBlocks(int64_t count) {
  Manifest manifest = ofBlocks();
  Positions first, sure, rows;
  first.kind = Positions::Kind::Undecoded;
  first.count = 1;
  sure.kind = Positions::Kind::Confident;
  sure.count = count;
  sure.of = {0};
  rows.kind = Positions::Kind::Union;
  rows.of = {1, 2};
  manifest.positions.insert(manifest.positions.end(), {first, sure, rows});
  manifest.passes[1].rows = 3;
  return manifest;
}

void expectSays(const Status &status, const std::string &what) {
  ASSERT_FALSE(status) << what;
  EXPECT_TRUE(says(status.error().text(), what));
}

/// A token of a log, and a line of one; `more`: further fields.
std::string commit(int64_t position, const std::string &more = "") {
  return R"({"sequence":0,"token":7,"position":)" + std::to_string(position) +
         more + "}";
}
std::string line(const std::vector<std::string> &commits,
                 const std::string &more = "") {
  std::string all;
  for (const std::string &each : commits)
    all += (all.empty() ? "" : ",") + each;
  return R"({"commits":[)" + all + "]" + more + "}\n";
}

/// The log of these steps with the end that they make. Rows that a line does
/// not tell are not compared.
Result<RunLog> logOf(const std::string &steps,
                     const SimulationRequest &request) {
  using Json = nlohmann::json;
  std::vector<int32_t> tokens(static_cast<size_t>(request.length), 0);
  std::vector<bool> told;
  std::string text;
  std::istringstream lines(steps);
  for (std::string line; std::getline(lines, line);) {
    Json json = Json::parse(line);
    told.push_back(json.contains("rows"));
    if (!json.contains("step"))
      json["step"] = told.size();
    if (!told.back())
      json["rows"] = 0;
    for (const Json &each : json["commits"])
      if (auto position = each["position"].get<size_t>();
          position < tokens.size())
        tokens[position] = each["token"].get<int32_t>();
    text += json.dump() + "\n";
  }
  text += Json{{"done", true},
               {"complete", true},
               {"prompt_lengths", {request.prompt}},
               {"gen_length", request.response()},
               {"steps", request.steps},
               {"block_length", request.ofBlock()},
               {"sequences", {tokens}}}
              .dump();
  Result<RunLog> log = readRunLog(text, "a.log");
  for (size_t i = 0; log && i < told.size(); ++i)
    if (!told[i])
      log->passes[i].rowsComputed = -1;
  return log;
}

/// Follows the run of a log.
Status following(const Manifest &manifest, SimulationRequest request,
                 const std::string &steps,
                 const std::function<void(const SimulatedStep &)> &observer) {
  Result<RunLog> log = logOf(steps, request);
  if (!log)
    return log.takeError();
  request.maskToken = 1;
  request.eosToken = 2;
  request.follow = std::make_shared<const RunLog>(std::move(*log));
  return simulate(manifest, request, observer);
}

TEST(Simulation, RunsTheRowsOfABlock) {
  int64_t steps = 0, committed = 0;
  std::vector<int64_t> active;
  Status status = simulate(
      ofBlocks(), {.steps = 8, .length = 24, .prompt = 8, .blockLength = 8},
      [&](const SimulatedStep &step) {
        EXPECT_EQ(step.place.step, ++steps);
        EXPECT_EQ(std::ssize(step.visible), 24);
        EXPECT_EQ(std::count(step.masked.begin(), step.masked.end(), 1),
                  16 - committed);
        EXPECT_EQ(std::ssize(step.commits), 2);
        for (int32_t position : step.commits) {
          EXPECT_TRUE(step.masked[static_cast<size_t>(position)]);
          EXPECT_EQ((position - 8) / 8, step.place.block);
        }
        committed += std::ssize(step.commits);
        active.push_back(std::ssize(step.active));
      });
  ASSERT_TRUE(status) << status.error().text();
  EXPECT_EQ(active, (std::vector<int64_t>{24, 8, 8, 8, 24, 8, 8, 8}));
  EXPECT_EQ(committed, 16);
}

TEST(Simulation, SaysWhyAScheduleCannotRun) {
  Manifest manifest = ofBlocks();
  manifest.passes.erase(manifest.passes.begin());
  Status status = simulate(manifest, {.steps = 8, .length = 24, .prompt = 8},
                           [](const SimulatedStep &) {});
  expectSays(status, "has not been computed at any step");
  EXPECT_FALSE(simulate(ofBlocks(), {.steps = 1 << 20, .length = 1 << 20},
                        [](const SimulatedStep &) {}));
}

TEST(Simulation, OneSeedOneRun) {
  auto commits = [](uint64_t seed) {
    std::vector<int32_t> all;
    EXPECT_TRUE(simulate(
        ofBlocks(), {.steps = 8, .length = 24, .prompt = 8, .seed = seed},
        [&](const SimulatedStep &step) {
          all.insert(all.end(), step.commits.begin(), step.commits.end());
        }));
    return all;
  };
  EXPECT_EQ(commits(1), commits(1));
  EXPECT_NE(commits(1), commits(2));
}

TEST(Simulation, RowsThatAreNotVisibleAreNoKeys) {
  // What is decoded and two masks, as every fourth step has them; three masks.
  using Kind = Positions::Kind;
  Cadence phase;
  phase.kind = Cadence::Kind::Every;
  phase.period = 4;
  Manifest manifest;
  manifest.positions.resize(5);
  std::vector<Positions> &sets = manifest.positions;
  sets[0].kind = Kind::Decoded;
  sets[1].kind = sets[4].kind = Kind::Undecoded;
  sets[1].count = 2;
  sets[2].kind = Kind::Union;
  sets[2].of = {0, 1};
  sets[3].kind = Kind::Fixed;
  sets[3].of = {2};
  sets[3].cadence = phase;
  sets[4].count = 3;
  manifest.visible = 3;
  manifest.reuse.kv = true;
  manifest.commit.within = 4;
  Pass all, some;
  all.when.push_back({When::Kind::On, phase});
  some.rows = 4;
  some.unseen = true;
  manifest.passes = {all, some};
  const SimulationRequest request = {.steps = 16, .length = 24, .prompt = 8};
  SequencePicture picture(request, 24);
  int64_t behind = 0;
  Series cached; // what is decoded: masks that are visible are computed
  ASSERT_TRUE(simulate(manifest, request, [&](const SimulatedStep &step) {
    picture.add(step);
    cached.add(step.place.step % 4 == 1
                   ? 0
                   : std::ranges::count_if(step.visible, [&](int32_t position) {
                       return !step.masked[static_cast<size_t>(position)];
                     }));
    EXPECT_TRUE(std::ranges::is_sorted(step.active));
    EXPECT_EQ(step.keys, std::ssize(step.visible));
    if (step.place.step % 4 == 1)
      EXPECT_TRUE(std::ranges::equal(step.active, step.visible));
    else
      EXPECT_EQ(std::ssize(step.active),
                std::min<int64_t>(3, 17 - step.place.step));
    for (int32_t position : step.commits)
      behind += !std::ranges::binary_search(step.visible, position);
  }));
  EXPECT_GT(behind, 2);
  EXPECT_EQ(picture.cached.runs, cached.runs);
}

TEST(Simulation, ThresholdsMayEndEarlyButEnd) {
  Manifest manifest = ofBlocks();
  manifest.commit.kind = CommitRule::Kind::Above;
  manifest.commit.ratio = {1, 2};
  int64_t committed = 0, steps = 0;
  ASSERT_TRUE(simulate(
      manifest, {.steps = 32, .length = 72, .prompt = 8, .blockLength = 32},
      [&](const SimulatedStep &step) {
        ++steps;
        committed += std::ssize(step.commits);
      }));
  EXPECT_EQ(committed, 64);
  EXPECT_LT(steps, 32);
}

TEST(Simulation, FollowsARunThatRevokes) {
  Manifest manifest;
  manifest.commit.kind = CommitRule::Kind::Best;
  manifest.commit.count = 2;
  manifest.commit.revokeBelow = {9, 10};
  auto follow = [&](const std::string &second, std::string *rows = nullptr) {
    const std::string revoked =
        R"({"sequence":0,"token":1,"revoked":true,"position":)" + second + "}";
    return following(manifest, {.steps = 4, .length = 8, .prompt = 4},
                     line({commit(4), commit(6)}) +
                         line({revoked, commit(5), commit(7)}) +
                         line({commit(4)}),
                     [&](const SimulatedStep &step) {
                       if (rows)
                         *rows += std::to_string(step.logitRows) + ":" +
                                  std::to_string(step.commits.size()) + ":" +
                                  std::to_string(step.revoked.size()) + " ";
                     });
  };
  // Of four masks; of two and two tokens; the last, of which none is asked.
  std::string rows;
  Status status = follow("4", &rows);
  ASSERT_TRUE(status) << status.error().text();
  EXPECT_EQ(rows, "4:2:0 4:2:1 1:1:0 ");
  for (const char *other : {"5", "2", "70"}) {
    status = follow(other);
    expectSays(status,
               std::string("line 2 of the log, step 2, revokes position ") +
                   other + ", whose token is to stay");
  }
}

/// A pass of three copies that makes two steps, and one of two that makes one.
TEST(Simulation, FollowsARunThatVerifiesDrafts) {
  Manifest manifest;
  manifest.commit.drafts = 2;
  auto follow = [&](const std::string &second, std::string *passes = nullptr) {
    auto made = [](int position, int step) {
      return commit(position, R"(,"step":)" + std::to_string(step));
    };
    auto pass = [](int rows, int heads, int copies, int steps) {
      return R"(,"rows":)" + std::to_string(rows) + R"(,"logit_rows":)" +
             std::to_string(heads) + R"(,"verified":[{"sequence":0,"copies":)" +
             std::to_string(copies) + R"(,"steps":)" + std::to_string(steps) +
             "}]";
    };
    return following(manifest, {.steps = 4, .length = 8, .prompt = 4},
                     line({made(4, 1)}, pass(8, 4, 1, 1)) +
                         line({made(7, 2), made(5, 3)}, pass(24, 6, 3, 2)) +
                         second + line({made(6, 4)}, pass(8, 1, 1, 1)),
                     [&](const SimulatedStep &step) {
                       if (passes)
                         *passes += std::to_string(step.place.step) + ":" +
                                    std::to_string(step.sequences) + ":" +
                                    std::to_string(step.copies) + ":" +
                                    std::to_string(step.logitRows) + ":" +
                                    std::to_string(step.commits.size()) + " ";
                     });
  };
  std::string passes;
  Status status = follow("", &passes);
  ASSERT_TRUE(status) << status.error().text();
  EXPECT_EQ(passes, "1:1:1:4:1 2:3:3:6:2 4:1:1:1:1 ");
  status = follow(R"({"rows":8,"logit_rows":1,"verified":[{"sequence":0,)"
                  R"("copies":1,"steps":1}],"commits":[{"sequence":0,)"
                  R"("token":7,"position":6,"step":9}]})"
                  "\n");
  expectSays(status,
             "line 3 of the log, step 3, commits at a step that it does not "
             "make");
  manifest.commit.drafts = 0;
  expectSays(follow(""), "but not that the schedule verifies");
  for (const char *wrong :
       {R"("verified":[{"sequence":0,"copies":1,"steps":2}])",
        R"("verified":[{"sequence":0,"copies":66,"steps":1}])",
        R"("verified":[])"}) {
    Result<RunLog> log =
        readRunLog(R"({"step":1,"commits":[],"logit_rows":1,)" +
                       std::string(wrong) + "}\n",
                   "");
    ASSERT_FALSE(log) << wrong;
    EXPECT_TRUE(says(log.error().text(), "verifies no number of copies"));
  }
}

/// What a log goes on with behind the run's end is of another run.
TEST(Simulation, RefusesALogOfMoreSteps) {
  Manifest manifest;
  expectSays(following(manifest, {.steps = 2, .length = 4, .prompt = 2},
                       line({commit(2)}) + line({commit(3)}) + line({}),
                       [](const SimulatedStep &) {}),
             "a.log: line 3 of the log, step 3, stands behind the run's end: "
             "here it takes 2 steps: the log is of a run of another model");
}

/// What was taken out of a log, or put into it, shows where the run ends.
TEST(Simulation, RefusesALogThatWasChanged) {
  Manifest manifest;
  const SimulationRequest request = {.steps = 2, .length = 4, .prompt = 2};
  auto follow = [&](const std::string &steps) {
    return following(manifest, request, steps, [](const SimulatedStep &) {});
  };
  EXPECT_TRUE(follow(line({commit(2)}) + line({commit(3)})));
  expectSays(follow(line({commit(2)}) + line({})),
             "a.log: line 2 of the log, step 2, commits 0 tokens, here it has "
             "1: the log is of a run of another model");
  expectSays(follow(line({commit(2)}, R"(,"rows":4)") +
                    line({commit(3)}, R"(,"rows":8)")),
             "step 2, computes 8 rows, here it has 4");
  expectSays(follow(line({commit(2)})),
             "a.log: line 1 of the log, step 1, is the last one, but here "
             "the run of 2 planned steps goes on, with 1 masked position: ");
  expectSays(
      follow(line({commit(2)}, R"(,"salient_rows":[1])") + line({commit(3)})),
      "step 1, has salient_rows, though here layers compare nothing");
  expectSays(
      follow(line({commit(2)}) + line({commit(3)}, R"(,"similarity":[0.5])")),
      "step 2, has similarity, though here layers compare nothing");
  Result<RunLog> log = logOf(line({commit(2)}) + line({commit(3)}), request);
  ASSERT_TRUE(log) << log.error().text();
  log->tokens[3] = 8;
  SimulationRequest other = request;
  other.follow = std::make_shared<const RunLog>(std::move(*log));
  expectSays(simulate(manifest, other, [](const SimulatedStep &) {}),
             "a.log: line 3 of the log, the last, has token 8 at position 3, "
             "where the steps leave token 7: ");
}

/// A run with classifier-free guidance computes each row twice.
TEST(Simulation, FollowsBothSequencesOfAGuidedRun) {
  Manifest manifest;
  auto follow = [&](int rows, std::string &sequences) {
    const std::string computed = R"(,"rows":)" + std::to_string(rows);
    return following(manifest, {.steps = 2, .length = 4, .prompt = 2},
                     line({commit(2)}, computed) + line({commit(3)}, computed),
                     [&](const SimulatedStep &step) {
                       sequences += std::to_string(step.sequences);
                     });
  };
  for (auto [rows, expected] : {std::pair(4, "11"), {8, "22"}}) {
    std::string sequences;
    Status status = follow(rows, sequences);
    ASSERT_TRUE(status) << status.error().text();
    EXPECT_EQ(sequences, expected);
  }
  std::string none;
  Status status = follow(6, none);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().text(),
            "a.log: line 1 of the log, step 1, computes 6 rows, here it has 4: "
            "the log is of a run of another model (give the run's --model, or "
            "its --layers), "
            "with other lengths or another "
            "schedule, or was changed; give the log as heddle-run wrote it, "
            "and the run's "
            "schedule");
  EXPECT_EQ(none, "");
}

TEST(Simulation, FollowsARunThatEdits) {
  Manifest manifest;
  manifest.commit.kind = CommitRule::Kind::Best;
  manifest.commit.count = 2;
  manifest.commit.editAbove = {1, 2};
  manifest.commit.furtherPasses = 2;
  auto follow = [&](int64_t third, std::string *rows = nullptr) {
    const std::string edited = R"(,"edited":true)";
    return following(manifest, {.steps = 4, .length = 8, .prompt = 4},
                     line({commit(4), commit(6)}) +
                         line({commit(4, edited), commit(5), commit(7)}) +
                         line({commit(third, edited)}) + line({}),
                     [&](const SimulatedStep &step) {
                       if (rows)
                         *rows += std::to_string(step.logitRows) + ":" +
                                  std::to_string(step.commits.size()) + " ";
                     });
  };
  // Two steps that commit and two further passes, each of the block's rows.
  std::string rows;
  Status status = follow(5, &rows);
  ASSERT_TRUE(status) << status.error().text();
  EXPECT_EQ(rows, "4:2 4:2 4:0 4:0 ");
  for (int64_t other : {2, 70})
    expectSays(follow(other), "line 3 of the log, step 3, edits position " +
                                  std::to_string(other) +
                                  ", whose token is to stay");
}

TEST(Simulation, TakesAsManyFurtherPassesAsThereMayBe) {
  Manifest manifest;
  manifest.commit.editAbove = {1, 2};
  for (int64_t further : {0, 3}) {
    manifest.commit.furtherPasses = further;
    int64_t steps = 0, rows = 0;
    ASSERT_TRUE(simulate(
        manifest, {.steps = 8, .length = 24, .prompt = 8, .blockLength = 8},
        [&](const SimulatedStep &step) {
          ++steps;
          rows += step.logitRows;
        }));
    EXPECT_EQ(steps, 8 + 2 * further);
    EXPECT_EQ(rows, 8 * steps);
  }
}

/// What a step commits less what it revokes.
TEST(Simulation, RevokingRulesKeepTheTokensOfAStep) {
  Manifest manifest;
  manifest.commit.kind = CommitRule::Kind::Above;
  manifest.commit.ratio = {1, 2};
  manifest.commit.revokeBelow = {9, 10};
  for (auto [tokens, expected] : {std::pair(1.0, 16), {2.0, 8}}) {
    int64_t steps = 0;
    ASSERT_TRUE(simulate(
        manifest,
        {.steps = 4, .length = 20, .prompt = 4, .tokensPerStep = tokens},
        [&](const SimulatedStep &) { ++steps; }));
    EXPECT_EQ(steps, expected);
  }
}

/// Of the block the surest position and the first masked one.
TEST(Simulation, FollowsPastConfidences) {
  const Manifest manifest = surestOfBlocks(1);
  auto follow = [&](std::vector<std::string> predictions,
                    std::vector<std::vector<int32_t>> &active) {
    std::string text;
    for (size_t step = 0; step < predictions.size(); ++step)
      text += line({commit(2 + static_cast<int64_t>(step))}, predictions[step]);
    return following(manifest, {.steps = 4, .length = 6, .prompt = 2}, text,
                     [&](const SimulatedStep &step) {
                       active.emplace_back(step.active.begin(),
                                           step.active.end());
                     });
  };
  auto predicted = [](std::vector<std::pair<int, double>> all) {
    std::string text;
    for (auto [position, confidence] : all)
      text += (text.empty() ? "" : ",") + std::string(R"({"sequence":0,)") +
              R"("position":)" + std::to_string(position) +
              R"(,"confidence":)" + std::to_string(confidence) + "}";
    return R"(,"predictions":[)" + text + "]";
  };
  std::vector<std::vector<int32_t>> active;
  Status status = follow({predicted({{2, 0.9}, {3, 0.2}, {4, 0.3}, {5, 0.8}}),
                          predicted({{3, 0.9}, {5, 0.1}}),
                          predicted({{4, 0.5}}), predicted({{5, 0.5}})},
                         active);
  ASSERT_TRUE(status) << status.error().text();
  EXPECT_EQ(active, (std::vector<std::vector<int32_t>>{
                        {0, 1, 2, 3, 4, 5}, {3, 5}, {4}, {5}}))
      << "4 has what step 1 predicted of it";
  status = follow({"", "", "", ""}, active);
  expectSays(status, "of which the log says nothing");
  expectSays(follow({predicted({{2, 0.9}, {3, 0.2}, {4, 0.3}, {5, 0.8}}), "",
                     predicted({{4, 0.5}}), ""},
                    active),
             "line 2 of the log, step 2, does not say how sure it was");
  expectSays(
      follow({predicted({{1, 0.5}}), "", "", ""}, active),
      "line 1 of the log, step 1, predicts position 1, which is not masked");
}

/// Of the block the position that drew most and the first masked one.
TEST(Simulation, FollowsTheAttentionThatPositionsDrew) {
  Manifest manifest = surestOfBlocks(1);
  manifest.positions[2].kind = Positions::Kind::Attended;
  manifest.positions[2].count = 0;
  manifest.positions[2].share = {1, 100};
  auto follow = [&](std::vector<std::string> drawn,
                    std::vector<std::vector<int32_t>> &active) {
    std::string text;
    for (size_t step = 0; step < drawn.size(); ++step)
      text += line({commit(2 + static_cast<int64_t>(step))}, drawn[step]);
    return following(manifest, {.steps = 4, .length = 6, .prompt = 2}, text,
                     [&](const SimulatedStep &step) {
                       active.emplace_back(step.active.begin(),
                                           step.active.end());
                     });
  };
  auto drew = [](const std::string &attention) {
    return R"(,"drawn":[{"sequence":0,"attention":[)" + attention + "]}]";
  };
  std::vector<std::vector<int32_t>> active;
  Status status = follow({drew("1,1,1,1,9,1"), drew("1,1,1,1,1,9"),
                          drew("1,1,1,1,1,9"), drew("1,1,1,1,1,1")},
                         active);
  ASSERT_TRUE(status) << status.error().text();
  EXPECT_EQ(active, (std::vector<std::vector<int32_t>>{
                        {0, 1, 2, 3, 4, 5}, {3, 4}, {4, 5}, {5}}));
  expectSays(follow({"", "", "", ""}, active), "of which the log says nothing");
  expectSays(follow({drew("1,1,1,1,9,1"), "", drew("1,1,1,1,1,9"), ""}, active),
             "line 2 of the log, step 2, does not say what attention positions "
             "drew");
  expectSays(follow({drew("1,1,1"), "", "", ""}, active),
             "has the attention of 3 positions, here there are 6");
}

/// What is made up of confidences tells seeds apart.
TEST(Simulation, RowsByMadeUpConfidences) {
  const Manifest manifest = surestOfBlocks(2);
  auto active = [&](uint64_t seed) {
    std::vector<std::vector<int32_t>> all;
    Status status = simulate(
        manifest, {.steps = 8, .length = 24, .prompt = 8, .seed = seed},
        [&](const SimulatedStep &step) {
          all.emplace_back(step.active.begin(), step.active.end());
          EXPECT_LE(all.size() > 1 ? std::ssize(step.active) : 0, 3);
        });
    EXPECT_TRUE(status) << status.error().text();
    return all;
  };
  EXPECT_EQ(active(1), active(1));
  EXPECT_NE(active(1), active(2));
}

TEST(Simulation, FollowsWhatDrifted) {
  Manifest manifest;
  manifest.reuse.kv = true;
  Positions response;
  response.kind = Positions::Kind::Response;
  manifest.positions = {response};
  Pass whole, rest;
  Cadence drift;
  drift.kind = Cadence::Kind::Drift;
  drift.fraction = {9, 10};
  drift.period = 9;
  whole.when = {{bundle::When::Kind::On, drift}};
  rest.rows = 0;
  manifest.passes = {whole, rest};
  auto wholeSteps = [&](SimulationRequest request) {
    request.steps = 6;
    request.length = 10;
    request.prompt = 4;
    std::vector<int64_t> steps;
    Status status = simulate(manifest, request, [&](const SimulatedStep &step) {
      if (step.active.size() == 10)
        steps.push_back(step.place.step);
    });
    EXPECT_TRUE(status) << status.error().text();
    return steps;
  };
  using Steps = std::vector<int64_t>;
  EXPECT_EQ(wholeSteps({}), (Steps{1}));
  EXPECT_EQ(wholeSteps({.drifts = true}), (Steps{1, 4}));
  std::string lines;
  const char *found[] = {"[null]", "[null]", "[null]",
                         "[0.95]", "[0.85]", "[null]"};
  for (int step = 0; step < 6; ++step)
    lines += line({commit(4 + step)},
                  R"(,"similarity":)" + std::string(found[step]));
  Result<RunLog> log = logOf(lines, {.steps = 6, .length = 10, .prompt = 4});
  ASSERT_TRUE(log) << log.error().text();
  EXPECT_EQ(
      wholeSteps({.maskToken = 1,
                  .eosToken = 2,
                  .follow = std::make_shared<const RunLog>(std::move(*log))}),
      (Steps{1, 5}));
  // Of another number of layers it is of another model.
  expectSays(following(manifest, {.steps = 6, .length = 10, .prompt = 4},
                       line({commit(4)}, R"(,"similarity":[null,0.5])"),
                       [](const SimulatedStep &) {}),
             "line 1 of the log, step 1, has similarity of 2 layers, here they "
             "are of 1: the log is of a run of another model (give the run's "
             "--model, or its --layers)");
}

TEST(Simulation, FollowsWhichLayersDrifted) {
  Manifest manifest;
  manifest.reuse = {true, bundle::Reuse::Attention::Output, true};
  manifest.positions.resize(1);
  manifest.positions[0].kind = Positions::Kind::Response;
  Pass start, deep, rest;
  Cadence cadence;
  cadence.kind = Cadence::Kind::First;
  cadence.count = 1;
  start.when = {{bundle::When::Kind::On, cadence}};
  cadence = {};
  cadence.kind = Cadence::Kind::Drift;
  cadence.fraction = {9, 10};
  cadence.period = 9;
  manifest.passes = {start};
  for (int64_t layer : {-3, -2}) {
    cadence.layer = layer;
    deep.when = {{bundle::When::Kind::On, cadence}};
    deep.layers = {{layer, -1}};
    manifest.passes.push_back(deep);
  }
  rest.rows = 0;
  manifest.passes.push_back(rest);
  std::string lines;
  const char *found[] = {"[null,null]", "[null,null]", "[null,null]",
                         "[0.95,0.8]",  "[null,null]", "[0.85,null]"};
  for (int step = 0; step < 6; ++step)
    lines += line({commit(4 + step)},
                  R"(,"similarity":)" + std::string(found[step]));
  std::vector<int64_t> whole; // [steps]: layers that compute all rows
  Status status =
      following(manifest, {.steps = 6, .length = 10, .prompt = 4, .layers = 4},
                lines, [&](const SimulatedStep &step) {
                  whole.push_back(0);
                  for (int64_t layer = 0; layer < 4; ++layer)
                    whole.back() += step.layer(layer).rows.size() == 10;
                });
  ASSERT_TRUE(status) << status.error().text();
  EXPECT_EQ(whole, (std::vector<int64_t>{4, 0, 0, 2, 0, 3}));
}

// The worked example of SequencePicture.h.
TEST(SequencePicture, GathersPositionsInBins) {
  SequencePicture picture({.steps = 2, .length = 6, .prompt = 2}, 3);
  ASSERT_EQ(picture.bins, 3);
  const std::vector<int32_t> all = {0, 1, 2, 3, 4, 5}, some = {2, 3, 4, 5};
  const std::vector<int32_t> fourth = {4};
  const std::vector<uint8_t> before = {0, 0, 1, 1, 1, 1},
                             after = {0, 0, 1, 1, 0, 1};
  picture.add(
      {.visible = all, .active = all, .masked = before, .commits = fourth});
  picture.add({.visible = all, .active = some, .masked = after});
  picture.finish();
  EXPECT_EQ(picture.roles, (std::vector<std::string>{"r3", "c1r2"}));
  using Runs = std::vector<std::pair<int64_t, int64_t>>;
  EXPECT_EQ(picture.rolesOfSteps.runs, (Runs{{0, 1}, {1, 1}}));
  EXPECT_EQ(picture.masked.runs, (Runs{{4, 1}, {3, 1}}));
  EXPECT_EQ(picture.recomputed.runs, (Runs{{6, 1}, {4, 1}}));
  using Bin = std::array<int64_t, 5>;
  EXPECT_EQ(
      picture.decoded,
      (std::vector<Bin>{{0, 0, 0, 0, 0}, {3, 3, 3, 3, 3}, {1, 1, 1, 1, 3}}));
}

TEST(SequencePicture, TokensCountFromWhereTheyStay) {
  SequencePicture picture({.steps = 3, .length = 3, .prompt = 1}, 3);
  const std::vector<int32_t> all = {0, 1, 2}, second = {1}, third = {2};
  const std::vector<uint8_t> masked = {0, 1, 1};
  auto add = [&](std::span<const int32_t> commits,
                 std::span<const int32_t> revoked) {
    picture.add({.visible = all,
                 .active = all,
                 .masked = masked,
                 .commits = commits,
                 .revoked = revoked});
  };
  add(second, {});
  add(third, second);
  add(second, third);
  picture.finish();
  using Bin = std::array<int64_t, 5>;
  EXPECT_EQ(
      picture.decoded,
      (std::vector<Bin>{{0, 0, 0, 0, 0}, {3, 3, 3, 3, 3}, {4, 4, 4, 4, 4}}));
}

} // namespace
