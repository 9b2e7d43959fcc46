//===- ReportTest.cpp - Texts, summaries and JSON of a run ----------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Report.h"
#include "FakeTokenizer.h"
#include "LineFile.h"
#include "Progress.h"
#include "StepLog.h"

#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <optional>
#include <pthread.h>
#include <thread>
#include <unistd.h>

using namespace heddle;
using namespace heddle::run;
using namespace heddle::run::test;
using nlohmann::json;

namespace {

constexpr int32_t eos = 30, eot = 31, mask = 39;

TextRules rulesOf(const rt::Tokenizer *tokenizer) {
  TextRules rules;
  rules.tokenizer = tokenizer;
  rules.maskToken = mask;
  rules.eosToken = eos;
  rules.endOfTurn = eot;
  return rules;
}

std::string text(std::vector<int32_t> response, const TextRules &rules) {
  return responseText(response, rules);
}

TEST(ResponseText, EndsBeforeTheEnd) {
  FakeTokenizer tokenizer;
  TextRules rules = rulesOf(&tokenizer);
  EXPECT_EQ(text({0, 1, 2}, rules), "abc");
  EXPECT_EQ(text({0, eos, 2}, rules), "a");
  EXPECT_EQ(text({0, eot, 2}, rules), "a");
  EXPECT_EQ(text({eos, 2}, rules), "");
  EXPECT_EQ(text({0, 33, 1}, rules), "ab");
  rules.raw = true;
  EXPECT_EQ(text({0, eos, 2}, rules), "a<30>c");
}

TEST(ResponseText, MasksAreShownNotHidden) {
  FakeTokenizer tokenizer;
  TextRules rules = rulesOf(&tokenizer);
  EXPECT_EQ(text({0, mask, mask, 1}, rules), "a\u2591\u2591b");
  EXPECT_EQ(text({mask}, rules), "\u2591");
}

TEST(ResponseText, IdsWithoutATokenizer) {
  TextRules rules = rulesOf(nullptr);
  EXPECT_EQ(text({5, 17, eos, 4}, rules), "5 17");
  EXPECT_EQ(text({5, mask, mask, 17}, rules), "5 \u2591\u2591 17");
}

struct Fixture {
  Fixture() {
    options.model = "m";
    options.bundle = "b.hdl";
    result.options = &options;
    result.lengths.genLength = 4;
    result.lengths.steps = 2;
    result.lengths.blockLength = 4;
    result.rules = rulesOf(&tokenizer);
    result.schedule = "cols";
    result.device = "AMD EPYC, 2 threads";
    result.threads = 2;
    result.promptLengths = {2, 1};
    result.generation.sequences = {{7, 8, 0, 1, 2, eos}, {9, 3, eos, 4, 5}};
    result.generation.complete = true;
    result.generation.stepsDone = 2;
    result.totals.steps = 2;
    result.totals.tokens = 8;
    result.totals.seconds = 0.5;
    result.totals.attention = {
        .pairs = 30, .densePairs = 120, .scorePairs = 12, .refreshes = 3};
  }
  FakeTokenizer tokenizer;
  RunOptions options;
  RunResult result;
};

TEST(Report, TextOfOneAndOfSeveral) {
  Fixture f;
  EXPECT_EQ(textReport(f.result), "--- 1 of 2\nabc\n--- 2 of 2\nd\n");
  f.result.promptLengths = {2};
  f.result.generation.sequences.resize(1);
  EXPECT_EQ(textReport(f.result), "abc\n");
}

TEST(Report, Json) {
  Fixture f;
  json report = json::parse(jsonReport(f.result));
  EXPECT_EQ(report["complete"], true);
  EXPECT_EQ(report["schedule"], "cols");
  EXPECT_EQ(report["results"].size(), 2u);
  EXPECT_EQ(report["results"][0]["prompt_ids"], json({7, 8}));
  EXPECT_EQ(report["results"][0]["ids"], json({0, 1, 2, eos}));
  EXPECT_EQ(report["results"][0]["ids_before_end"], 3);
  EXPECT_EQ(report["results"][0]["text"], "abc");
  EXPECT_EQ(report["results"][1]["text"], "d");
  EXPECT_EQ(report["options"]["remasking"], "low_confidence");
  EXPECT_EQ(report["options"]["dtype"], "f32");
  EXPECT_EQ(report["machine"], "AMD EPYC, 2 threads");
  EXPECT_EQ(report["counters"], json::parse(R"({"tokens": 8, "rows": 0,
      "refreshes": 3, "cache_bytes_written": 0, "cache_bytes_read": 0})"));
  EXPECT_EQ(report["timing"]["tokens_per_second"], 16.0);
  EXPECT_FALSE(report.contains("compare_dense"));

  f.result.rules.tokenizer = nullptr;
  f.result.generation.complete = false;
  f.options.model = "not utf-8: \xff";
  report = json::parse(jsonReport(f.result));
  EXPECT_EQ(report["complete"], false);
  EXPECT_FALSE(report["results"][0].contains("text"));
}

/// What was done beside all that a dense run does, under explanations' names.
TEST(Report, JsonHasTheCostBesideADenseRun) {
  Fixture f;
  f.result.lengths.steps = 8;
  f.result.shape = {.layers = 2,
                    .hidden = 16,
                    .heads = 2,
                    .kvHeads = 1,
                    .headDim = 8,
                    .ffnWidth = 32,
                    .vocabulary = 40};
  f.result.cost = {
      {.queryRows = 6, .pairs = 30, .scorePairs = 12, .logitRows = 5},
      {100, 20}};
  f.result.dense = {{.queryRows = 48, .pairs = 960, .logitRows = 20},
                    {1000, 200, 0, 0, 0, 34}};
  json cost = json::parse(jsonReport(f.result))["cost"];
  EXPECT_EQ(cost["steps"], 2);
  EXPECT_EQ(cost["dense_steps"], 8);
  EXPECT_EQ(cost["work"]["query_rows"], 6);
  EXPECT_EQ(cost["work"]["pairs"], 30);
  EXPECT_EQ(cost["work"]["score_pairs"], 12);
  EXPECT_EQ(cost["work"]["logit_rows"], 5);
  EXPECT_EQ(cost["dense_work"]["query_rows"], 48);
  EXPECT_EQ(cost["dense_work"]["pairs"], 960);
  EXPECT_EQ(cost["dense_work"]["operations"],
            2 * 16 * 16 * 48 + 4 * 8 * 960 + 2 * 16 * 40 * 20);
  EXPECT_EQ(cost["dense_parts"]["attention"]["operations"], 4 * 8 * 960);
  EXPECT_EQ(cost["parts"]["attention"]["bytes"], 20);
  EXPECT_EQ(cost["bytes"], 120);
  EXPECT_EQ(cost["dense_bytes"], 1234);
}

/// Weights of a layer once a step, whatever the batch; rows and keys each once.
TEST(StepBytes, AreWeightsOnceAndRowsOnce) {
  const explain::ModelShape shape = {.layers = 3,
                                     .hidden = 16,
                                     .heads = 4,
                                     .kvHeads = 2,
                                     .headDim = 8,
                                     .ffnWidth = 24,
                                     .vocabulary = 40,
                                     .elementBytes = 4};
  rt::StepRecord record;
  record.logitRows = 7;
  record.counters = {.pairs = 1,
                     .scorePairs = 1,
                     .attendedKeys = 50,
                     .scoredKeys = 11,
                     .queryRows = 30,
                     .keyRows = 2,
                     .valueRows = 0,
                     .projectedRows = 30,
                     .ffnRows = 10};
  const explain::PartBytes bytes = costOf(shape, record).bytes;
  auto of = [&](explain::Part part) {
    return bytes[static_cast<size_t>(part)] / 4;
  };
  // Two rows of keys are those of two layers at most.
  EXPECT_EQ(of(explain::Part::Qkv),
            3 * 16 * 32 + 30 * (16 + 32) + 2 * 16 * 16 + 2 * (16 + 16));
  EXPECT_EQ(of(explain::Part::Attention), 2 * (30 * 32 + 50 * 16));
  EXPECT_EQ(of(explain::Part::Scoring), 11 * (32 + 16));
  EXPECT_EQ(of(explain::Part::Output), 3 * 32 * 16 + 30 * (32 + 16));
  EXPECT_EQ(of(explain::Part::Ffn),
            3 * (16 * 48 + 24 * 16) + 10 * (16 + 48 + 24 + 16));
  EXPECT_EQ(of(explain::Part::Head), 16 * 40 + 7 * (16 + 40));
}

TEST(Report, Failure) {
  json report = json::parse(jsonFailure("no \"such\" \xff file"));
  EXPECT_EQ(report["complete"], false);
  EXPECT_NE(report["error"].get<std::string>().find("no \"such\""),
            std::string::npos);
}

TEST(Report, Summary) {
  Fixture f;
  EXPECT_EQ(
      summary(f.result),
      "8 tokens in 0.50 s (16.0 tok/s), 2 steps of cols, f32, 2 threads\n");
  f.result.totals.seconds = 0.0069;
  EXPECT_EQ(summary(f.result).find("8 tokens in 6.9 ms ("), 0u);
  f.result.generation.complete = false;
  f.result.generation.stepsDone = 1;
  EXPECT_EQ(summary(f.result).find(
                "interrupted after step 1 of 2: the text is incomplete, "),
            0u);
}

TEST(Report, SummarySaysWhereNothingWasSaved) {
  Fixture f;
  f.result.isDense = false;
  f.result.dense.work.pairs = 240;
  auto has = [&](const char *what) {
    return summary(f.result).find(what) != std::string::npos;
  };
  EXPECT_FALSE(has("all rows and pairs"));
  f.result.totals.attention.pairs = 120;
  EXPECT_TRUE(has("no step was sparse: each computed all rows and pairs\n"));
  // Sure predictions: few steps, each of them whole.
  f.result.lengths.steps = 8;
  EXPECT_TRUE(has("what was saved is steps, 2 in place of 8: each computed all "
                  "rows and pairs\n"));
  f.result.isDense = true;
  EXPECT_FALSE(has("all rows and pairs"));
}

TEST(Report, SaysHowManyStepsWereVerified) {
  Fixture f;
  EXPECT_EQ(summary(f.result).find("verified"), std::string::npos);
  rt::StepRecord record;
  record.step = 2;
  record.verified = {{0, 4, 3}, {1, 3, 1}};
  f.result.totals.add(record);
  EXPECT_NE(
      summary(f.result).find("\nverified: 4 steps of 2 sequences made in 2 "
                             "forward passes, 3.5 copies a pass\n"),
      std::string::npos)
      << summary(f.result);
  EXPECT_EQ(json::parse(jsonReport(f.result))["counters"]["verified"],
            json({{"copies", 7}, {"steps", 4}}));
}

TEST(Report, SummarySaysThatNothingWasPrinted) {
  Fixture f;
  EXPECT_EQ(summary(f.result).find("the text is empty"), std::string::npos);
  for (size_t s = 0; s < f.result.promptLengths.size(); ++s)
    f.result.generation.sequences[s][f.result.promptLengths[s]] =
        f.result.rules.eosToken;
  EXPECT_NE(summary(f.result).find("the text is empty: the first token ends "
                                   "it (--raw prints all)\n"),
            std::string::npos);
}

TEST(Report, ComparisonWithDense) {
  Fixture f;
  rt::Generation dense = f.result.generation;
  Comparison same =
      compareResponses(f.result.generation, dense, f.result.promptLengths);
  EXPECT_EQ(same.tokens, 8);
  EXPECT_EQ(same.differing, 0);
  EXPECT_EQ(same.firstPosition, -1);
  dense.sequences[0][4] = 20; // third token of the first response
  dense.sequences[1][2] = 20; // second of the second
  dense.sequences[1][4] = 20;
  Comparison comparison =
      compareResponses(f.result.generation, dense, f.result.promptLengths);
  EXPECT_EQ(comparison.differing, 3);
  EXPECT_EQ(comparison.firstSequence, 1);
  EXPECT_EQ(comparison.firstPosition, 1);

  comparison.bundle = "dense.hdl";
  comparison.seconds = 1.25;
  f.result.comparison = comparison;
  EXPECT_NE(summary(f.result).find(
                "against dense.hdl: 3 of 8 tokens differ (37.5%), first token "
                "2 of response 2; dense took 1.25 s, so this run was "
                "2.50 times as fast\n"),
            std::string::npos)
      << summary(f.result);
  json report = json::parse(jsonReport(f.result))["compare_dense"];
  EXPECT_EQ(report["differing"], 3);
  EXPECT_EQ(report["times_as_fast"], 2.5);
  EXPECT_EQ(report["first"], json({{"sequence", 1}, {"position", 1}}));
  f.result.comparison.reset();
  f.result.comparisonError = "no memory";
  EXPECT_EQ(json::parse(jsonReport(f.result))["compare_dense"],
            json({{"error", "no memory"}}));
  f.result.comparison = same;
  EXPECT_NE(summary(f.result).find("all 8 tokens are the same"),
            std::string::npos);
}

TEST(StepLogFile, HoldsTheDocumentedLines) {
  std::string path = testing::TempDir() + "heddle-run-steps.jsonl";
  {
    Result<LineFile> lines = LineFile::open(path);
    ASSERT_TRUE(lines);
    StepLog log(std::move(*lines));
    rt::StepRecord record;
    record.step = 1;
    record.totalSteps = 2;
    record.blocks = {1, 0};
    record.rowsComputed = 19;
    record.logitRows = 16;
    record.commits = {{0, 17, 5, 0.9375},
                      {1, 3, 6, 1.0 / 3},
                      {1, 4, 40, 0.25, true},
                      {1, 5, 6, 0.75, false, true}};
    record.counters = {.pairs = 5, .densePairs = 10};
    log.step(record);
    rt::Generation generation;
    generation.sequences = {{1, 2}, {3}};
    ASSERT_TRUE(log.finish(generation, {1, 0},
                           {.genLength = 1, .steps = 3, .blockLength = 2}));
  }
  std::ifstream file(path);
  std::string line;
  ASSERT_TRUE(std::getline(file, line));
  json step = json::parse(line);
  EXPECT_EQ(step["step"], 1);
  EXPECT_EQ(step["block"], 0);
  EXPECT_EQ(step["blocks"], json({1, 0}));
  EXPECT_EQ(step["rows"], 19);
  EXPECT_EQ(step["logit_rows"], 16);
  EXPECT_EQ(step["pairs"], 5);
  EXPECT_EQ(step["dense_pairs"], 10);
  EXPECT_EQ(step["commits"][0], json({{"sequence", 0},
                                      {"position", 17},
                                      {"token", 5},
                                      {"confidence", 0.9375}}));
  // Confidences survive the text exactly.
  EXPECT_EQ(step["commits"][1]["confidence"].get<double>(), 1.0 / 3);
  EXPECT_EQ(step["commits"][2], json({{"sequence", 1},
                                      {"position", 4},
                                      {"token", 40},
                                      {"confidence", 0.25},
                                      {"revoked", true}}));
  EXPECT_EQ(step["commits"][3], json({{"sequence", 1},
                                      {"position", 5},
                                      {"token", 6},
                                      {"confidence", 0.75},
                                      {"edited", true}}));
  ASSERT_TRUE(std::getline(file, line));
  EXPECT_EQ(json::parse(line), json::parse(R"({"done": true, "complete": false,
                            "prompt_lengths": [1, 0], "gen_length": 1,
                            "steps": 3, "block_length": 2,
                            "sequences": [[1, 2], [3]]})"));
  EXPECT_FALSE(std::getline(file, line));
  std::filesystem::remove(path);
}

TEST(StepLogFile, SaysWhatCannotBeWritten) {
  EXPECT_FALSE(LineFile::open("/nonexistent/steps.jsonl"));
  // A device that is always full.
  Result<LineFile> lines = LineFile::open("/dev/full");
  if (!lines)
    GTEST_SKIP() << "no /dev/full here";
  Status status = StepLog(std::move(*lines)).finish({}, {}, {});
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().text().find("/dev/full: could not be written"), 0u);
}

TEST(Totals, CountTokensThatAreThere) {
  Totals totals;
  rt::StepRecord record;
  record.commits = {{0, 3, 5, 0.9}, {0, 4, 6, 0.8}, {1, 3, 7, 0.7}};
  totals.add(record);
  EXPECT_EQ(totals.tokens, 3);
  record.commits = {
      {0, 4, 40, 0.1, true}, {0, 3, 9, 0.9, false, true}, {0, 5, 8, 0.6}};
  totals.add(record);
  EXPECT_EQ(totals.tokens, 3);
}

/// Ctrl-C while a pipe is full: what is written then goes on, so that the run
/// ends as one that was interrupted.
TEST(LineFile, SignalsEndNoWriteToAFullPipe) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  struct sigaction action = {}, before;
  action.sa_handler = [](int) {}; // without SA_RESTART, as the tool's
  ASSERT_EQ(::sigaction(SIGUSR1, &action, &before), 0);
  std::optional<LineFile> file;
  {
    Result<LineFile> opened =
        LineFile::open("/dev/fd/" + std::to_string(ends[1]));
    ASSERT_TRUE(opened) << opened.error().text();
    file.emplace(std::move(*opened));
  }
  ::close(ends[1]);
  size_t read = 0;
  std::thread reader([&, writer = ::pthread_self()] {
    for (int i = 0; i < 5; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
      ::pthread_kill(writer, SIGUSR1);
    }
    char some[4096];
    for (ssize_t count; (count = ::read(ends[0], some, sizeof(some))) > 0;)
      read += static_cast<size_t>(count);
  });
  const std::string line(size_t{1} << 20, 'x');
  file->write(line);
  Status status = file->finish();
  EXPECT_TRUE(status) << status.error().text();
  file.reset();
  reader.join();
  ::close(ends[0]);
  ::sigaction(SIGUSR1, &before, nullptr);
  EXPECT_EQ(read, line.size() + 1);
}

TEST(StepLogFile, SaysWhichStepsAPassMade) {
  const std::string path = testing::TempDir() + "heddle-run-verified.jsonl";
  {
    Result<LineFile> lines = LineFile::open(path);
    ASSERT_TRUE(lines);
    StepLog log(std::move(*lines));
    rt::StepRecord record;
    record.commits = {{0, 17, 5, 0.5, false, false, 3},
                      {0, 3, 6, 0.5, false, false, 4}};
    record.verified = {{0, 4, 2}};
    log.step(record);
    ASSERT_TRUE(log.finish({}, {}, {}));
  }
  std::ifstream file(path);
  std::string line;
  ASSERT_TRUE(std::getline(file, line));
  const json step = json::parse(line);
  EXPECT_EQ(step["verified"],
            json({{{"sequence", 0}, {"copies", 4}, {"steps", 2}}}));
  EXPECT_EQ(step["commits"][0]["step"], 3);
  EXPECT_EQ(step["commits"][1]["step"], 4);
}

TEST(ProgressLine, SaysWhatIsDoneAndLeft) {
  Totals totals;
  totals.steps = 58;
  totals.tokens = 58;
  totals.seconds = 5.8;
  totals.attention = {.pairs = 34, .densePairs = 100};
  EXPECT_EQ(progressLine(totals, 128, 100),
            " 45% [##################                      ] step 58/128  "
            "10.0 tok/s  attention 34%  0:07 left");
  // The bar gives way, then the end of the line.
  EXPECT_EQ(progressLine(totals, 128, 60),
            " 45% step 58/128  10.0 tok/s  attention 34%  0:07 left");
  for (int columns = 0; columns < 120; ++columns)
    EXPECT_LE(progressLine(totals, 128, columns).size(),
              static_cast<size_t>(std::max(columns - 1, 0)));
  EXPECT_EQ(progressLine({}, 4, 60).find("  0% "), 0u);
}

TEST(Duration, Formats) {
  EXPECT_EQ(formatDuration(0), "0:00");
  EXPECT_EQ(formatDuration(7.4), "0:07");
  EXPECT_EQ(formatDuration(59.6), "1:00");
  EXPECT_EQ(formatDuration(3 * 3600 + 5 * 60), "3:05:00");
}

} // namespace
