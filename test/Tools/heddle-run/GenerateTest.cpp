//===- GenerateTest.cpp - Whole runs of the program -----------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Program.h"
#include "TinySetup.h"
#include "runtime/base/CpuName.h"

#include <filesystem>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <set>
#include <sstream>

using namespace heddle;
using namespace heddle::run::test;
using nlohmann::json;

namespace {

std::vector<json> jsonLines(const std::string &text) {
  std::vector<json> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);)
    lines.push_back(json::parse(line));
  return lines;
}

/// `message` is all of standard error after "heddle-run: error: ".
void expectFailure(const Outcome &outcome, int code,
                   const std::string &message) {
  EXPECT_EQ(outcome.code, code) << outcome.err;
  EXPECT_EQ(outcome.out, "");
  EXPECT_EQ(outcome.err, "heddle-run: error: " + message + "\n");
}

/// A name under /dev/fd that leads to no file.
TEST(Run, StepsIntoAPipe) {
  TinySetup setup(/*withTokenizer=*/false);
  Outcome outcome =
      heddleRun(setup.dense() + "--prompt-ids 97,98,99 --gen-length 4 "
                                "--block-length 4 --steps 4 -q "
                                "--steps-json /dev/fd/3 3>&1 | grep done");
  EXPECT_NE(outcome.out.find("\"complete\":true"), std::string::npos)
      << outcome.out << outcome.err;
}

TEST(Run, StepsOfIdsWithoutATokenizer) {
  TinySetup setup(/*withTokenizer=*/false);
  Outcome outcome =
      heddleRun(setup.dense() + "--prompt-ids 97,98,99 --prompt-ids 100 "
                                "--gen-length 8 --block-length 4 --steps 4 "
                                "--steps-json -");
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  std::vector<json> lines = jsonLines(outcome.out);
  ASSERT_EQ(lines.size(), 5u);
  json sequences = lines[4]["sequences"];
  EXPECT_EQ(lines[4]["done"], true);
  EXPECT_EQ(lines[4]["complete"], true);
  ASSERT_EQ(sequences.size(), 2u);
  EXPECT_EQ(sequences[0].size(), 11u);
  EXPECT_EQ(sequences[1].size(), 9u);
  std::set<std::pair<int, int>> committed;
  for (int step = 0; step < 4; ++step) {
    const json &line = lines[step];
    EXPECT_EQ(line["step"], step + 1);
    EXPECT_EQ(line["block"], step / 2);
    EXPECT_EQ(line["rows"], 20);
    EXPECT_EQ(line["logit_rows"], step % 2 ? 4 : 8);
    // Two layers, two heads, 11 and 9 rows.
    EXPECT_EQ(line["pairs"], 2 * 2 * (11 * 11 + 9 * 9));
    EXPECT_EQ(line["dense_pairs"], line["pairs"]);
    ASSERT_EQ(line["commits"].size(), 4u);
    for (const json &commit : line["commits"]) {
      int s = commit["sequence"], position = commit["position"];
      EXPECT_TRUE(committed.insert({s, position}).second);
      EXPECT_EQ((position - (s == 0 ? 3 : 1)) / 4, step / 2);
      EXPECT_EQ(sequences[s][position], commit["token"]);
      EXPECT_GT(commit["confidence"], 0);
      EXPECT_LE(commit["confidence"], 1);
    }
  }
  EXPECT_EQ(committed.size(), 16u);
}

TEST(Run, SameTokensAloneOrInABatchForAnyNumberOfThreads) {
  TinySetup setup;
  const std::string common = setup.dense() +
                             "--gen-length 12 --steps 6 --temperature 0.7 "
                             "--cfg-scale 0.5 --steps-json - --seed ";
  auto sequences = [&](const std::string &arguments) {
    Outcome outcome = heddleRun(common + arguments);
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    return outcome.code == 0 ? jsonLines(outcome.out).back()["sequences"]
                             : json();
  };
  json both = sequences("5 --prompt-ids 97,98,99 --prompt-ids 100");
  EXPECT_EQ(sequences("5 --threads 1 --prompt-ids 97,98,99")[0], both[0]);
  EXPECT_EQ(sequences("5 --threads 3 --prompt-ids 100")[0], both[1]);
  EXPECT_NE(sequences("6 --prompt-ids 100")[0], both[1]);
}

TEST(Run, TextFromArgumentFileAndStandardInput) {
  TinySetup setup;
  const std::string lengths = "--gen-length 6 --steps 6";
  Outcome outcome = heddleRun(setup.dense() + "'sort: cab' " + lengths);
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  ASSERT_EQ(outcome.out.size(), 7u);
  EXPECT_TRUE(std::all_of(outcome.out.begin(), outcome.out.end() - 1, islower));
  EXPECT_EQ(outcome.err.find("heddle-run: 6 tokens in "), 0u) << outcome.err;
  EXPECT_NE(outcome.err.find("6 steps of dense, "), std::string::npos);

  std::string file = setup.write("prompt.txt", "sort: cab\n");
  EXPECT_EQ(heddleRun(setup.dense() + lengths, file).out, outcome.out);
  EXPECT_EQ(heddleRun(setup.dense() + lengths + " --prompt-file " + file).out,
            outcome.out);
  Outcome quiet =
      heddleRun(setup.dense() + lengths + " -q --prompt-file -", file);
  EXPECT_EQ(quiet.out, outcome.out);
  EXPECT_EQ(quiet.err, "");

  std::string lines = setup.write("prompts.txt", "sort: cab\nhello\n");
  Outcome batch =
      heddleRun(setup.dense() + lengths + " --prompts-file " + lines);
  EXPECT_EQ(batch.out.find("--- 1 of 2\n" + outcome.out + "--- 2 of 2\n"), 0u)
      << batch.out;
}

TEST(Run, NumbersAreDecimal) {
  TinySetup setup;
  Outcome outcome =
      heddleRun(setup.dense() + "abc --json --gen-length 012 --steps 08 "
                                "--block-length 06 --seed 00 --threads 01");
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const json options = json::parse(outcome.out)["options"];
  EXPECT_EQ(options["gen_length"], 12);
  EXPECT_EQ(options["steps"], 8);
  EXPECT_EQ(options["block_length"], 6);
}

TEST(Run, TheTypeIsThatOfTheWeights) {
  TinySetup setup; // its weights are f32, the bundle has f32 and bf16
  Outcome outcome = heddleRun(setup.dense() + "abc --json --gen-length 6");
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  json report = json::parse(outcome.out);
  EXPECT_EQ(report["options"]["dtype"], "f32");
  EXPECT_EQ(report["options"]["weights_dtype"], "f32");
  EXPECT_EQ(outcome.err.find("the weights are"), std::string::npos);
}

TEST(Run, Json) {
  TinySetup setup;
  Outcome outcome = heddleRun(setup.dense() +
                              "abc --json --chat --gen-length 6 --dtype bf16");
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  json report = json::parse(outcome.out);
  EXPECT_EQ(report["complete"], true);
  EXPECT_EQ(report["schedule"], "dense");
  EXPECT_EQ(report["options"]["dtype"], "bf16");
  EXPECT_EQ(report["options"]["block_length"], 6);
  EXPECT_EQ(report["results"][0]["ids"].size(), 6u);
  EXPECT_EQ(report["results"][0]["text"].get<std::string>().size(), 6u);
  // The chat template is around the prompt.
  EXPECT_GT(report["results"][0]["prompt_ids"].size(), 20u);
  EXPECT_EQ(report["counters"]["tokens"], 6);
  // A dense run is what it is compared with, in all that is counted.
  json cost = report["cost"];
  EXPECT_EQ(cost["steps"], 6);
  EXPECT_EQ(cost["dense_steps"], 6);
  EXPECT_EQ(cost["work"], cost["dense_work"]);
  EXPECT_EQ(cost["parts"], cost["dense_parts"]);
  EXPECT_GT(cost["bytes"], 0);
  EXPECT_EQ(cost["bytes"], cost["dense_bytes"]);
  const std::string machine = report["machine"];
  EXPECT_EQ(machine.find(rt::cpuName() + ", "), 0u) << machine;
  EXPECT_NE(machine.find(" thread"), std::string::npos) << machine;
  EXPECT_NE(machine.find(", oneDNN "), std::string::npos) << machine;
  EXPECT_GT(report["timing"]["load_seconds"], 0);
  EXPECT_GT(report["timing"]["first_step_seconds"],
            report["timing"]["load_seconds"]);
}

TEST(Run, CompareWithDense) {
  TinySetup setup;
  std::string common = "'sort: cab' --json --gen-length 24 --compare-dense " +
                       setup.path() + "/";
  json same = json::parse(
      heddleRun(setup.dense() + common + "dense.hdl").out)["compare_dense"];
  EXPECT_EQ(same["tokens"], 24);
  EXPECT_EQ(same["differing"], 0);
  json report = json::parse(
      heddleRun(setup.with("window.hdl") + common + "dense.hdl").out);
  json cost = report["cost"];
  EXPECT_LT(cost["work"]["pairs"].get<double>(),
            0.5 * cost["dense_work"]["pairs"].get<double>());
  EXPECT_GT(report["compare_dense"]["times_as_fast"], 0);
  json other = report["compare_dense"];
  EXPECT_GT(other["differing"], 0);
  EXPECT_LT(other["first"]["position"], 24);

  // Before the run that it would be compared with.
  std::string log = setup.path() + "/steps.jsonl";
  Outcome refused =
      heddleRun(setup.dense() + "abc --compare-dense " + setup.path() +
                "/window.hdl --gen-length 4 " + "--steps-json " + log);
  EXPECT_EQ(refused.code, 1);
  EXPECT_FALSE(std::filesystem::exists(log));
  EXPECT_EQ(refused.out, "");
  EXPECT_NE(refused.err.find("window.hdl: --compare-dense takes a dense "
                             "schedule, but 'window6' has the sparse kernel"),
            std::string::npos)
      << refused.err;
}

TEST(Run, Info) {
  TinySetup setup;
  Outcome outcome = heddleRun(setup.with("window.hdl") + "--info");
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_NE(outcome.out.find("layers              2\n"), std::string::npos);
  EXPECT_NE(outcome.out.find("schedule            window6\n"),
            std::string::npos);
  EXPECT_NE(outcome.out.find("window(6)"), std::string::npos) << outcome.out;
  json all = json::parse(heddleRun(setup.dense() + "--info --json").out);
  EXPECT_EQ(all["model"]["head_dim"], 8);
  EXPECT_TRUE(all.contains("bundle"));
}

TEST(Run, VisualNeedsATerminal) {
  TinySetup setup;
  Outcome outcome = heddleRun(setup.dense() + "abc --visual --gen-length 4");
  EXPECT_EQ(outcome.code, 0);
  EXPECT_EQ(outcome.out.size(), 5u);
  EXPECT_EQ(
      outcome.err.find("heddle-run: --visual needs a terminal on standard "
                       "output; going on without it\n"),
      0u);
}

TEST(Run, LengthsThatDoNotDivide) {
  TinySetup setup;
  expectFailure(heddleRun(setup.dense() + "abc --gen-length 100 "
                                          "--block-length 32"),
                2,
                "gen-length 100 is not a multiple of block-length 32; "
                "block-length 25 and 50 would work, or gen-length 96 and 128");
  expectFailure(heddleRun(setup.dense() + "abc --gen-length 64 "
                                          "--block-length 16 --steps 30"),
                2,
                "steps 30 cannot be shared equally by the 4 blocks (gen-length "
                "64 / block-length 16); steps 28 and 32 would work");
  expectFailure(heddleRun(setup.dense() + "abc --gen-length 0"), 2,
                "gen-length is 0; it must be at least 1 and at most 1048576");
  expectFailure(heddleRun(setup.dense() + "abc --steps 7 --gen-length "
                                          "9223372036854775807"),
                2,
                "gen-length is 9223372036854775807; it must be at least 1 and "
                "at most 1048576");
  expectFailure(heddleRun(setup.dense() + "abc --temperature nan"), 2,
                "--temperature: nan is out of range; expected 0, or 1e-06 to "
                "1e+06");
}

TEST(Run, BadPrompts) {
  TinySetup setup;
  expectFailure(heddleRun(setup.dense() + "''"), 1,
                "PROMPT: the prompt is empty; it must hold some text");
  expectFailure(heddleRun(setup.dense()), 1,
                "standard input: the prompt is empty; it must hold some text");
  std::string latin = setup.write("latin.txt", "na\xefve\n");
  expectFailure(heddleRun(setup.dense(), latin), 1,
                "standard input: not UTF-8 at byte 2 (0xef); prompts are UTF-8 "
                "text");
  std::string longOne = setup.write("long.txt", std::string(150, 'a'));
  expectFailure(
      heddleRun(setup.dense() + "--gen-length 12 --prompt-file " + longOne), 1,
      "the prompt has 150 tokens; with gen-length 12 that is more "
      "than the 160 positions of the model: shorten it or use "
      "gen-length 10 or less");
  expectFailure(heddleRun(setup.dense() + "--prompt-ids 5,280"), 1,
                "the prompt has token id 280 at position 1; the model's ids "
                "are 0 to 279");
  expectFailure(heddleRun(setup.dense() + "--prompt-ids 5,,6"), 1,
                "--prompt-ids: '' (item 2) is not a token id; expected whole "
                "numbers from 0, as in 1,2,3");
  EXPECT_EQ(heddleRun(setup.dense() + "--prompt-file /nonexistent").code, 1);
  EXPECT_EQ(heddleRun(setup.dense() + "--prompts-file " + setup.path()).code,
            1);
}

TEST(Run, TextNeedsATokenizer) {
  TinySetup setup(/*withTokenizer=*/false);
  expectFailure(heddleRun(setup.dense() + "abc"), 1,
                "the model's folder has no tokenizer (tokenizer.json, or "
                "vocab.json and merges.txt), so text cannot become token ids; "
                "give --prompt-ids");
  expectFailure(
      heddleRun(setup.dense() + "--prompt-ids 1 --confidence-eos-eot-inf"), 1,
      "--confidence-eos-eot-inf needs the end-of-turn token, and "
      "the tokenizer has no <|eot_id|>; give --eot-id (-1: the "
      "model has none)");
  EXPECT_EQ(heddleRun(setup.dense() + "--prompt-ids 1 --gen-length 4 "
                                      "--confidence-eos-eot-inf --eot-id 257")
                .code,
            0);
  // Without one, ids are printed.
  Outcome ids = heddleRun(setup.dense() + "--prompt-ids 1 --gen-length 4");
  EXPECT_EQ(std::count(ids.out.begin(), ids.out.end(), ' '), 3) << ids.out;
}

TEST(Run, BadModelsAndBundles) {
  TinySetup setup;
  std::string bundle = contents(setup.path() + "/dense.hdl");
  auto runOn = [&](const std::string &bytes) {
    setup.write("bad.hdl", bytes);
    return heddleRun(setup.with("bad.hdl") + "abc --gen-length 4");
  };
  EXPECT_EQ(runOn(bundle).code, 0);
  for (std::string bytes : {std::string(), std::string("not a bundle"),
                            bundle.substr(0, bundle.size() / 2),
                            bundle.substr(0, 40), bundle + "x"}) {
    Outcome outcome = runOn(bytes);
    EXPECT_EQ(outcome.code, 1);
    EXPECT_EQ(outcome.out, "");
    EXPECT_NE(outcome.err.find("bad.hdl"), std::string::npos) << outcome.err;
  }
  std::string flipped = bundle;
  flipped[flipped.size() / 2] ^= 4;
  EXPECT_EQ(runOn(flipped).code, 1);

  std::string weights = contents(setup.path() + "/model.safetensors");
  setup.write("model.safetensors", weights.substr(0, weights.size() - 1));
  Outcome outcome = heddleRun(setup.dense() + "abc --gen-length 4");
  EXPECT_EQ(outcome.code, 1);
  EXPECT_EQ(outcome.out, "");
  EXPECT_NE(outcome.err.find("model.safetensors"), std::string::npos);
  setup.write("model.safetensors", weights);
  setup.write("tokenizer.json", "{");
  outcome = heddleRun(setup.dense() + "abc --gen-length 4");
  EXPECT_EQ(outcome.code, 1);
  EXPECT_NE(outcome.err.find("tokenizer.json"), std::string::npos);
  // A file where a folder is to be.
  Outcome file = heddleRun("-m " + setup.path() + "/config.json -b " +
                           setup.path() + "/window.hdl abc");
  EXPECT_EQ(file.code, 1);
  EXPECT_NE(file.err.find("config.json: is a file, expected a model's folder"),
            std::string::npos)
      << file.err;
  setup.write("config.json", "{}");
  EXPECT_EQ(heddleRun(setup.dense() + "abc --gen-length 4").code, 1);
}

TEST(Run, DamagedWeightsAreSaidNotSampled) {
  TinySetup setup;
  std::string weights = contents(setup.path() + "/model.safetensors");
  // The last float of the file becomes a NaN.
  weights.replace(weights.size() - 4, 4, "\xff\xff\xff\x7f");
  setup.write("model.safetensors", weights);
  Outcome outcome = heddleRun(setup.dense() + "abc --gen-length 4 --json");
  EXPECT_EQ(outcome.code, 1);
  EXPECT_EQ(json::parse(outcome.out)["complete"], false);
  EXPECT_NE(
      outcome.err.find("step 1 of 4: the logits of sequence 0, position "),
      std::string::npos)
      << outcome.err;
}

TEST(Run, AFullDiskIsAnError) {
  TinySetup setup;
  const std::string common = setup.dense() + "abc --gen-length 4 ";
  Outcome outcome = heddleRun(common + "> /dev/full");
  EXPECT_EQ(outcome.code, 1);
  EXPECT_NE(outcome.err.find("standard output could not be written"),
            std::string::npos);
  outcome = heddleRun(common + "--steps-json /dev/full");
  EXPECT_EQ(outcome.code, 1);
  EXPECT_EQ(outcome.out, "");
  EXPECT_NE(outcome.err.find("/dev/full: could not be written"),
            std::string::npos);
}

} // namespace
