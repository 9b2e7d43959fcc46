//===- SamplingTest.cpp - Samplers of two families ------------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Sampling.h"
#include "Program.h"
#include "TinySetup.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

using namespace heddle;
using namespace heddle::run;
using namespace heddle::run::test;
using nlohmann::json;

namespace {

rt::ModelConfig model(rt::SamplerFamily family) {
  rt::ModelConfig config;
  config.architecture =
      family == rt::SamplerFamily::Timesteps ? "dream" : "llada";
  config.sampler = family;
  return config;
}
const rt::ModelConfig dream = model(rt::SamplerFamily::Timesteps);
const rt::ModelConfig llada = model(rt::SamplerFamily::Blocks);

std::string refusal(const RunOptions &options, const rt::ModelConfig &config,
                    const rt::GenerationConfig &defaults = {}) {
  Result<rt::SampleOptions> sampling =
      resolveSampling(options, config, defaults);
  return sampling ? "" : sampling.error().text();
}

TEST(ResolveSampling, WhatIsGivenThenWhatTheFileSaysThenUpstream) {
  Result<rt::SampleOptions> upstream = resolveSampling({}, dream, {});
  ASSERT_TRUE(upstream);
  ASSERT_TRUE(upstream->timesteps);
  EXPECT_EQ(upstream->timesteps->rule, rt::TransferRule::Origin);
  EXPECT_EQ(upstream->timesteps->eps, 1e-3);
  EXPECT_EQ(upstream->timesteps->topP, 1);
  EXPECT_EQ(upstream->timesteps->topK, 0);
  EXPECT_EQ(upstream->timesteps->ruleTemperature, 0);
  EXPECT_EQ(upstream->temperature, 0);

  const rt::GenerationConfig file = {.alg = "entropy",
                                     .eps = 0.02,
                                     .temperature = 0.2,
                                     .topP = 0.95,
                                     .topK = 50,
                                     .algTemp = 0.3};
  Result<rt::SampleOptions> filed = resolveSampling({}, dream, file);
  ASSERT_TRUE(filed);
  EXPECT_EQ(filed->timesteps->rule, rt::TransferRule::Entropy);
  EXPECT_EQ(filed->timesteps->eps, 0.02);
  EXPECT_EQ(filed->timesteps->topP, 0.95);
  EXPECT_EQ(filed->timesteps->topK, 50);
  EXPECT_EQ(filed->timesteps->ruleTemperature, 0.3);
  EXPECT_EQ(filed->temperature, 0.2);

  RunOptions options;
  options.alg = "topk_margin";
  options.eps = 0.5;
  options.topP = 0.5;
  options.topK = 0;
  options.algTemp = 0;
  options.temperature = 0;
  Result<rt::SampleOptions> given = resolveSampling(options, dream, file);
  ASSERT_TRUE(given);
  EXPECT_EQ(given->timesteps->rule, rt::TransferRule::TopkMargin);
  EXPECT_EQ(given->timesteps->eps, 0.5);
  EXPECT_EQ(given->timesteps->topP, 0.5);
  EXPECT_EQ(given->timesteps->topK, 0);
  EXPECT_EQ(given->timesteps->ruleTemperature, 0);
  EXPECT_EQ(given->temperature, 0);
}

TEST(ResolveSampling, BlocksHaveNoTimesteps) {
  RunOptions options;
  options.temperature = 0.5;
  options.sampling.cfgScale = 2;
  Result<rt::SampleOptions> sampling =
      resolveSampling(options, llada, {.temperature = 7});
  ASSERT_TRUE(sampling);
  EXPECT_FALSE(sampling->timesteps);
  EXPECT_EQ(sampling->temperature, 0.5);
  EXPECT_EQ(sampling->cfgScale, 2);
  EXPECT_EQ(resolveSampling({}, llada, {.temperature = 7})->temperature, 0);
}

TEST(ResolveSampling, RefusesOptionsOfTheOtherFamily) {
  RunOptions options;
  options.timestepOptions = {"--top-p", "--eps"};
  EXPECT_EQ(refusal(options, dream), "");
  EXPECT_EQ(refusal(options, llada),
            "--top-p: models of the architecture 'llada' are sampled in "
            "blocks, which has no such option; see --remasking");
  options = {};
  options.blockOptions = {"--cfg-scale"};
  EXPECT_EQ(refusal(options, llada), "");
  EXPECT_EQ(refusal(options, dream),
            "--cfg-scale: models of the architecture 'dream' are sampled by "
            "timesteps, which has no such option; see --alg");
}

TEST(ResolveSampling, RefusesWhatIsOutOfRange) {
  auto with = [](auto apply) {
    RunOptions options;
    apply(options);
    return refusal(options, dream);
  };
  EXPECT_EQ(with([](RunOptions &o) { o.alg = "Entropy"; }),
            "--alg: 'Entropy' is none of origin, maskgit_plus, topk_margin, "
            "entropy");
  EXPECT_EQ(refusal({}, dream, {.alg = "x"}),
            "generation_config.json: field 'alg': 'x' is none of origin, "
            "maskgit_plus, topk_margin, entropy");
  EXPECT_EQ(with([](RunOptions &o) { o.eps = 1; }),
            "--eps: 1 is out of range; expected a number between 0 and 1");
  EXPECT_EQ(with([](RunOptions &o) { o.topP = 1.5; }),
            "--top-p: 1.5 is out of range; expected 0 to 1");
  EXPECT_EQ(with([](RunOptions &o) { o.topP = NAN; }),
            "--top-p: nan is out of range; expected 0 to 1");
  EXPECT_EQ(with([](RunOptions &o) { o.topK = -1; }),
            "--top-k: -1 is out of range; expected at least 1, or 0 for all "
            "tokens");
  for (double bad : {-1.0, 1e-9, 1e9, double(INFINITY), double(NAN)}) {
    EXPECT_NE(with([&](RunOptions &o) {
                o.temperature = bad;
              }).find("expected 0, or 1e-06 to 1e+06"),
              std::string::npos)
        << bad;
    RunOptions inBlocks;
    inBlocks.temperature = bad;
    EXPECT_EQ(refusal(inBlocks, llada),
              with([&](RunOptions &o) { o.temperature = bad; }));
    EXPECT_NE(with([&](RunOptions &o) {
                o.algTemp = bad;
              }).find("expected 0, or 1e-06 to 1e+06"),
              std::string::npos)
        << bad;
  }
}

TEST(RunDream, SaysHowItSampled) {
  TinySetup setup(/*withTokenizer=*/false, /*dream=*/true);
  setup.write("generation_config.json",
              R"({"alg": "entropy", "eps": 0.01, "top_k": null})");
  Outcome outcome =
      heddleRun(setup.dense() + "--prompt-ids 97,98,99 --prompt-ids 100 --json "
                                "--gen-length 9 --steps 4 --top-p 0.9");
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  json report = json::parse(outcome.out);
  const json &options = report["options"];
  EXPECT_EQ(options["alg"], "entropy");
  EXPECT_EQ(options["eps"], 0.01);
  EXPECT_EQ(options["top_p"], 0.9);
  EXPECT_EQ(options["top_k"], 0);
  EXPECT_EQ(options["alg_temp"], 0.0);
  EXPECT_EQ(options["block_length"], 9);
  EXPECT_FALSE(options.contains("remasking"));
  ASSERT_EQ(report["results"].size(), 2u);
  for (const json &one : report["results"]) {
    EXPECT_EQ(one["ids"].size(), 9u);
    for (int id : one["ids"])
      EXPECT_TRUE(id >= 0 && id < 280) << id;
  }
}

TEST(RunDream, SameTokensAloneOrInABatchForAnyNumberOfThreads) {
  TinySetup setup(/*withTokenizer=*/false, /*dream=*/true);
  const std::string common =
      setup.dense() + "--gen-length 12 --steps 6 --temperature 0.7 "
                      "--alg topk_margin --alg-temp 0.2 --top-p 0.95 --json ";
  auto ids = [&](const std::string &arguments, size_t sequence) {
    Outcome outcome = heddleRun(common + arguments);
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    return json::parse(outcome.out)["results"][sequence]["ids"];
  };
  const std::string both = "--prompt-ids 97,98,99 --prompt-ids 100 ";
  EXPECT_EQ(ids(both, 0), ids("--prompt-ids 97,98,99 --threads 1", 0));
  EXPECT_EQ(ids(both, 1), ids("--prompt-ids 100 --threads 3", 0));
  EXPECT_NE(ids(both + "--seed 1", 1), ids(both, 1));
  EXPECT_EQ(ids(both + "--dtype bf16", 1),
            ids("--prompt-ids 100 --dtype bf16", 0));
}

TEST(RunDream, WrongOptionsAndFiles) {
  TinySetup setup(/*withTokenizer=*/false, /*dream=*/true);
  auto failure = [&](const std::string &arguments, int code) {
    Outcome outcome = heddleRun(setup.dense() + "--prompt-ids 1 " + arguments);
    EXPECT_EQ(outcome.code, code) << outcome.err;
    EXPECT_EQ(outcome.out, "");
    return outcome.err;
  };
  EXPECT_EQ(failure("--alg best", 2),
            "heddle-run: error: --alg: 'best' is none of origin, maskgit_plus, "
            "topk_margin, entropy\n");
  EXPECT_EQ(failure("--remasking random", 2),
            "heddle-run: error: --remasking: models of the architecture "
            "'dream' are sampled by timesteps, which has no such option; see "
            "--alg\n");
  EXPECT_EQ(failure("--gen-length 8 --block-length 4", 2),
            "heddle-run: error: block-length is 4, but the schedule commits by "
            "the model's quota, and sampling by timesteps has one block; it "
            "must be gen-length, 8\n");
  EXPECT_NE(failure("--top-k many", 2).find("'many' is not a whole number"),
            std::string::npos);
  EXPECT_NE(failure("--eps ''", 2).find("'' is not a number"),
            std::string::npos);
  setup.write("generation_config.json", R"({"top_p": 3})");
  EXPECT_NE(failure("", 1).find("generation_config.json: field 'top_p': found "
                                "3, expected a number from 0 to 1"),
            std::string::npos);
  // A LLaDA has none of this, whatever stands in the file.
  TinySetup llada(/*withTokenizer=*/false);
  llada.write("generation_config.json", R"({"top_p": 3})");
  const std::string ids = "--prompt-ids 1 --gen-length 2 ";
  EXPECT_EQ(heddleRun(llada.dense() + ids).code, 0);
  EXPECT_EQ(heddleRun(llada.dense() + ids + "--alg entropy").err,
            "heddle-run: error: --alg: models of the architecture 'llada' are "
            "sampled in blocks, which has no such option; see --remasking\n");
}

} // namespace
