//===- RunLogTest.cpp - The log of a run that was made --------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tools/explain/RunLog.h"
#include "bundle/test/Says.h"
#include "tools/explain/RequestOptions.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <optional>
#include <string>

using namespace heddle;
using namespace heddle::explain;
using heddle::bundle::test::says;

namespace {

const std::string first = R"({"step":1,"rows":6,"commits":[{"sequence":0,)"
                          R"("position":4,"token":9}]})"
                          "\n",
                  second = R"({"step":2,"rows":6,"commits":[]})"
                           "\n";

/// The last line of a run of 6 tokens.
std::string end(const std::string &more = "") {
  return R"({"done":true,"complete":true,"prompt_lengths":[4],"gen_length":2,)"
         R"("steps":2,"block_length":2,"sequences":[[1,2,3,4,9,9]])" +
         more + "}\n";
}

void expectRefused(const std::string &text, const std::string &what) {
  Result<RunLog> log = readRunLog(text, "a.log");
  ASSERT_FALSE(log) << text;
  EXPECT_TRUE(says(log.error().text(), what));
  EXPECT_EQ(log.error().text().find("a.log: "), 0u) << log.error().text();
}

TEST(RunLog, HasEachStepOnceAndThenItsEnd) {
  // Blank lines are passed over.
  Result<RunLog> log = readRunLog("\n" + first + " \r\n" + second + end(), "");
  ASSERT_TRUE(log) << log.error().text();
  EXPECT_EQ(log->lines, (std::vector<int64_t>{2, 4}));
  EXPECT_EQ(log->lastLine, 5);
  EXPECT_EQ(log->lengths.prompt, 4);
  EXPECT_EQ(log->lengths.steps, 2);
  EXPECT_EQ(log->tokens, (std::vector<int32_t>{1, 2, 3, 4, 9, 9}));

  expectRefused(second + end(), "line 1 of the log is of step 2, expected 1: "
                                "each is there once, from 1 on");
  expectRefused(first + "\n" + first + end(),
                "line 3 of the log is of step 1, expected 2");
  const std::string whole = first + second + end();
  for (const std::string &more : {whole, end(), second, std::string("{}")})
    expectRefused(whole + more,
                  "line 4 of the log stands behind line 3, which ends a run, "
                  "expected the log of one run; give each run a file of its "
                  "own");
}

TEST(RunLog, NumbersItsStepsInFull) {
  const std::pair<const char *, const char *> wrong[] = {
      // 2^70, and 2^64 + 1 less than what 64 bits have.
      {R"("step":1180591620717411303424,)",
       "is of step 1.1805916207174113e+21, expected 1: each is there once"},
      {R"("step":18446744073709551615,)",
       "is of step 18446744073709551615, expected 1"},
      {R"("step":1.0,)", "is of step 1.0, expected 1"},
      {R"("step":"1",)", "is of step \"1\", expected 1"},
      {R"("step":null,)", "is of step null, expected 1"},
      {"", "is of step none, expected 1"}};
  for (auto [step, what] : wrong) {
    std::string line = first;
    line.replace(line.find(R"("step":1,)"), 9, step);
    expectRefused(line + end(), std::string("line 1 of the log ") + what);
  }
}

// What says again what other fields say, or how long a step took, decides
// nothing and is not read.
TEST(RunLog, ReadsOnlyWhatARunIsMadeOf) {
  std::string line = first;
  line.replace(line.find(R"("rows")"), 0,
               R"("seconds":-3,"refreshes":"many","block":[],"pairs":null,)"
               R"("cache_bytes_read":1e300,)");
  EXPECT_TRUE(readRunLog(line + second + end(R"(,"more":{})"), ""));
}

TEST(RunLog, FieldsThatAreReadAreOfTheirKind) {
  const std::pair<const char *, const char *> wrong[] = {
      {R"("commits":3)", R"(has "commits" 3, which is no list)"},
      {R"("commits":[],"predictions":{})",
       R"(has "predictions" {}, which is no list)"},
      {R"("commits":[],"drawn":null)", R"(has "drawn" null, which is no list)"},
      {R"("commits":[],"similarity":0.5)",
       R"(has "similarity" 0.5, which is no list)"},
      {R"("commits":[],"salient_rows":7)",
       R"(has "salient_rows" 7, which is no list)"},
      {R"("commits":[{"sequence":0,"position":4,"token":9,"revoked":1}])",
       R"(has a commit with "revoked" 1, which is neither true nor false)"},
      {R"("commits":[{"sequence":0,"position":4,"token":9,"edited":"yes"}])",
       R"(has a commit with "edited" "yes", which is neither)"},
      {R"("commits":[],"drawn":[{"sequence":0,"attention":[1,-1]}])",
       "draws attention to no sequence that is the one, or what is no number "
       "from 0 on"},
      {R"("commits":[],"drawn":[{"sequence":0,"attention":[1]},)"
       R"({"sequence":0,"attention":[1]}])",
       "says 2 times what attention the one sequence drew"}};
  for (auto [fields, what] : wrong)
    expectRefused(R"({"step":1,"rows":6,)" + std::string(fields) + "}\n" +
                      end(),
                  std::string("line 1 of the log ") + what);
  // A line of a long list says but its beginning.
  expectRefused(R"({"step":1,"rows":6,"commits":[],"drawn":")" +
                    std::string(4000, 'a') + "\"}\n" + end(),
                R"(has "drawn" "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa..., )"
                "which is no list");
}

TEST(RunLog, SaysThatItIsDone) {
  const std::pair<const char *, const char *> wrong[] = {
      {R"("done":false)",
       "line 2 of the log has \"done\" false, expected true"},
      {R"("done":1)", "line 2 of the log has \"done\" 1, expected true"},
      {R"("done":null)", "line 2 of the log has \"done\" null, expected"}};
  for (auto [done, what] : wrong) {
    std::string last = end();
    last.replace(last.find(R"("done":true)"), 11, done);
    expectRefused(first + last, what);
  }
  for (auto [complete, what] :
       {std::pair(R"("complete":"no",)", "\"no\""), {"", "none"}}) {
    std::string last = end();
    last.replace(last.find(R"("complete":true,)"), 16, complete);
    expectRefused(first + last,
                  std::string("line 2 of the log ends the run with "
                              "\"complete\" ") +
                      what + ", which is not true");
  }
}

TEST(RunLog, ComesToItsEnd) {
  expectRefused(first + second,
                "line 2 of the log is the last, expected another that says "
                "\"done\": the run goes on or failed, or the log was cut off");
  // Cut off in the middle.
  expectRefused(first + second + end().substr(0, 40),
                "line 3 of the log is no JSON object");
  std::string interrupted = end();
  interrupted.replace(interrupted.find("true,\"prompt"), 4, "false");
  expectRefused(first + interrupted,
                "line 2 of the log says that the run was interrupted, after 1 "
                "of 2 steps; expected a run that came to its end, as only a "
                "whole one compares with a dense run");
}

TEST(RunLog, TheLastLineSaysTheLengths) {
  const std::pair<const char *, const char *> wrong[] = {
      {R"("prompt_lengths":[4])", R"("prompt_lengths":[])"},
      {R"("prompt_lengths":[4])", R"("prompt_lengths":[9999999999])"},
      {R"("gen_length":2)", R"("gen_length":-8)"},
      {R"("steps":2)", R"("steps":"2")"},
      {R"("block_length":2)", R"("block":2)"},
      {R"("gen_length":2)", R"("gen_length":3)"},
      {R"([[1,2,3,4,9,9]])", R"([])"},
      {R"([[1,2,3,4,9,9]])", R"([[1,2,3,4,9]])"},
      {R"([[1,2,3,4,9,9]])", R"([[1,2,3,4,9,"a"]])"}};
  for (auto [from, to] : wrong) {
    std::string last = end();
    last.replace(last.find(from), std::string(from).size(), to);
    expectRefused(first + second + last, "line 3 of the log ends the run with");
  }
  expectRefused(first + R"({"done":true})",
                "line 2 of the log ends the run without a number of "
                "\"prompt_lengths\", expected what heddle-run --steps-json "
                "writes");
}

TEST(RunLog, OfABatchIsRefusedAsThat) {
  for (const char *line :
       {R"({"commits":[{"sequence":1,"token":7,"position":3}]})",
        R"({"commits":[],"verified":[{"sequence":0,"copies":1,"steps":1},)"
        R"({"sequence":1,"copies":1,"steps":1}],"logit_rows":2})",
        R"({"commits":[],"predictions":[{"sequence":1,"position":3,)"
        R"("confidence":1}]})",
        R"({"done":true,"prompt_lengths":[4,5]})"})
    expectRefused(std::string(line) + "\n",
                  "line 1 of the log is of a run with several prompts, of "
                  "which one can't be followed alone; give heddle-run "
                  "--steps-json one prompt");
}

TEST(RunLog, OfNoRunIsRefused) {
  for (const char *text :
       {"",
        "[]",
        R"({"commits":3,"rows":1})",
        R"({"commits":[{"sequence":"a","position":4,"token":9}],"rows":1})",
        R"({"commits":[]})",
        R"({"commits":[],"rows":"many"})",
        R"({"commits":[],"rows":-1})",
        R"({"commits":[{"sequence":0,"position":"x","token":9}],"rows":1})",
        R"({"commits":[{"sequence":0,"position":1e300,"token":9}],"rows":1})",
        R"({"commits":[{"sequence":0,"position":4294967296,"token":9}]})",
        R"({"commits":[{"sequence":0,"position":4,"token":-1}],"rows":1})",
        R"({"commits":[{"sequence":0,"position":4}],"rows":1})",
        R"({"commits":[],"rows":1,"salient_rows":[-5]})",
        R"({"commits":[],"rows":1,"salient_rows":[99999999999]})",
        R"({"commits":[],"rows":1,"salient_rows":["x"]})",
        R"({"commits":[],"rows":1,"predictions":["x"]})",
        R"({"commits":[],"predictions":[{"position":4,"confidence":0.5}]})",
        R"({"commits":[],"predictions":[{"sequence":0,"confidence":0.5}]})",
        R"({"commits":[],"predictions":[{"sequence":0,"position":4}]})",
        R"({"commits":[],"rows":1,"similarity":["x"]})"})
    // Each would be the first step.
    expectRefused(std::string(text).starts_with("{")
                      ? R"({"step":1,)" + std::string(text).substr(1)
                      : text,
                  "what heddle-run --steps-json writes");
}

// A run that the model can't have made is another model's.
TEST(RunLog, IsOfTheModelThatIsGiven) {
  const std::string folder = HEDDLE_MODEL;
  const std::string path = testing::TempDir() + "heddle-explain-model.jsonl";
  auto refusal = [&](const std::string &from, const std::string &to,
                     std::optional<int64_t> layers, bool expectBadFile) {
    std::string last = end();
    if (!from.empty())
      last.replace(last.find(from), from.size(), to);
    std::ofstream(path) << first << second << last;
    RequestOptions options;
    options.follow = path;
    options.model = folder;
    options.layers = layers;
    bool badFile = false;
    Result<ExplainRequest> request = resolveRequest(options, &badFile);
    EXPECT_EQ(badFile, expectBadFile);
    return request ? "" : request.error().text();
  };
  EXPECT_EQ(refusal("", "", {}, false), "");
  EXPECT_EQ(refusal("", "", 6, false), "");
  EXPECT_TRUE(
      says(refusal("", "", 7, false), "--layers is 7, but 6 in the model "));
  // The vocabulary has 576 tokens, a sequence 1,024.
  EXPECT_EQ(refusal("9,9]", "9,575]", {}, false), "");
  EXPECT_TRUE(says(refusal("9,9]", "9,576]", {}, true),
                   path + ": line 3 of the log, the last, has token 576, "
                          "expected at most 575 with the model in "));
  std::string tokens = "[1,2,3,4";
  for (int i = 0; i < 1021; ++i)
    tokens += ",9";
  const std::string whole = R"("gen_length":2,"steps":2,"block_length":2,)"
                            R"("sequences":[[1,2,3,4,9,9]])";
  EXPECT_TRUE(says(refusal(whole,
                           R"("gen_length":1021,"steps":1021,)"
                           R"("block_length":1021,"sequences":[)" +
                               tokens + "]]",
                           {}, true),
                   "has 4 tokens of the prompt and a gen_length of 1021, 1025 "
                   "together, expected at most 1024 with the model in "));
  std::filesystem::remove(path);
}

TEST(RunLog, NothingOfALineIsLeftOut) {
  const std::string line = second.substr(0, second.size() - 1);
  expectRefused(first + line + std::string("\0x\n", 3) + end(),
                "line 2 of the log is no good JSON: byte " +
                    std::to_string(line.size()) +
                    " is 0, which no JSON has, expected what heddle-run "
                    "--steps-json writes");
  expectRefused(R"({"step":1,"step":1,"rows":6,"commits":[]})",
                "line 1 of the log is no good JSON: an object has the key "
                "'step' twice");
}

// The lengths of a run that is followed are its own.
TEST(RunLog, GivesARequestItsLengths) {
  const std::string path = testing::TempDir() + "heddle-explain-log.jsonl";
  std::ofstream(path) << first << second << end();
  auto resolve = [&](RequestOptions options, bool *badFile = nullptr) {
    options.follow = path;
    return resolveRequest(options, badFile);
  };
  Result<ExplainRequest> request = resolve({});
  ASSERT_TRUE(request) << request.error().text();
  EXPECT_EQ(request->run.length, 6);
  EXPECT_EQ(request->run.prompt, 4);
  EXPECT_EQ(request->run.steps, 2);
  EXPECT_EQ(request->run.blockLength, 2);
  RequestOptions same;
  same.length = 6;
  same.prompt = 4;
  same.genLength = 2;
  same.steps = 2;
  same.blockLength = 2;
  EXPECT_TRUE(resolve(same));
  const std::pair<OptionMember<int64_t>, std::string> others[] = {
      {&RequestOptions::length, "--length is 7, but 6 in"},
      {&RequestOptions::prompt, "--prompt is 7, but 4 in"},
      {&RequestOptions::genLength, "--gen-length is 7, but 2 in"},
      {&RequestOptions::steps, "--steps is 7, but 2 in"},
      {&RequestOptions::blockLength, "--block-length is 7, but 2 in"}};
  for (const auto &[member, expected] : others) {
    RequestOptions other;
    other.*member = 7;
    bool badFile = false;
    request = resolve(other, &badFile);
    ASSERT_FALSE(request) << expected;
    EXPECT_FALSE(badFile) << "it is the option's fault";
    EXPECT_EQ(request.error().text().find(expected), 0u)
        << request.error().text();
    EXPECT_TRUE(says(request.error().text(), path + " is of; give --"));
  }
  std::ofstream(path) << first;
  bool badFile = false;
  request = resolve({}, &badFile);
  ASSERT_FALSE(request);
  EXPECT_TRUE(badFile);
  EXPECT_TRUE(says(request.error().text(), path + ": line 1 of the log"));
  std::filesystem::remove(path);
}

} // namespace
