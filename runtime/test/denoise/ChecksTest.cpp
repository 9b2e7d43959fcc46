//===- ChecksTest.cpp - What a run refuses, and in which words ------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Fakes.h"

#include <gtest/gtest.h>

using namespace heddle;
using namespace heddle::rt;
using namespace heddle::rt::test;

namespace {

using Prompts = std::vector<std::vector<int32_t>>;

std::string refusal(const Status &status) {
  return status ? "accepted" : status.error().text();
}

std::string optionsRefusal(int64_t genLength, int64_t blockLength,
                           int64_t steps) {
  return refusal(checkOptions({.genLength = genLength,
                               .steps = steps,
                               .blockLength = blockLength,
                               .sampling = {}}));
}

TEST(CheckOptions, AcceptsWhatDivides) {
  EXPECT_EQ(optionsRefusal(128, 128, 128), "accepted");
  EXPECT_EQ(optionsRefusal(128, 32, 4), "accepted");
  EXPECT_EQ(optionsRefusal(128, 32, 256), "accepted");
  EXPECT_EQ(optionsRefusal(1, 1, 1), "accepted");
}

TEST(CheckOptions, OrdersOfCommits) {
  auto refused = [](std::vector<int32_t> order) {
    return refusal(checkOptions({.genLength = 4,
                                 .steps = 4,
                                 .blockLength = 4,
                                 .sampling = {},
                                 .commitOrder = std::move(order)}));
  };
  EXPECT_EQ(refused({3, 1, 0, 2}), "accepted");
  EXPECT_EQ(refused({0, 1, 2}), "the order of commits has 3 positions; the "
                                "response has 4 (gen-length)");
  EXPECT_EQ(refused({0, 1, 2, 4}), "the order of commits has position 4; those "
                                   "of the response are 0 to 3");
  EXPECT_EQ(refused({0, -1, 2, 3}), "the order of commits has position -1; "
                                    "those of the response are 0 to 3");
  EXPECT_EQ(refused({0, 1, 1, 3}), "the order of commits has position 1 twice; "
                                   "each is committed once");
}

TEST(CheckOptions, LiftedConfidencesAreNotDrawn) {
  bundle::Manifest schedule;
  schedule.commit.near = 10;
  GenerateOptions options = {
      .genLength = 8, .steps = 8, .blockLength = 8, .sampling = {}};
  EXPECT_TRUE(checkSchedule(schedule, options));
  options.sampling.remasking = Remasking::Random;
  Status status = checkSchedule(schedule, options);
  ASSERT_FALSE(status);
  EXPECT_NE(status.error().text().find("is drawn for each (remasking random), "
                                       "whatever they are"),
            std::string::npos)
      << status.error().text();
  schedule.commit.kind = bundle::CommitRule::Kind::Above;
  schedule.commit.ratio = {1, 2};
  EXPECT_TRUE(checkSchedule(schedule, options)) << "a probability is none";
  schedule.commit = {};
  EXPECT_TRUE(checkSchedule(schedule, options));
}

TEST(CheckOptions, NamesNumbersThatWouldWork) {
  EXPECT_EQ(optionsRefusal(100, 32, 100),
            "gen-length 100 is not a multiple of block-length 32; block-length "
            "25 and 50 would work, or gen-length 96 and 128");
  EXPECT_EQ(optionsRefusal(64, 128, 64),
            "gen-length 64 is not a multiple of block-length 128; block-length "
            "64 would work, or gen-length 128");
  EXPECT_EQ(optionsRefusal(128, 32, 50),
            "steps 50 cannot be shared equally by the 4 blocks (gen-length 128 "
            "/ block-length 32); steps 48 and 52 would work");
  EXPECT_EQ(optionsRefusal(128, 32, 3),
            "steps 3 cannot be shared equally by the 4 blocks (gen-length 128 "
            "/ block-length 32); steps 4 would work");
}

TEST(CheckOptions, EverySuggestionHolds) {
  for (int64_t gen = 1; gen < 70; ++gen)
    for (int64_t block = 1; block < 80; ++block) {
      std::string text = optionsRefusal(gen, block, gen);
      if (gen % block == 0) {
        EXPECT_EQ(text, "accepted");
        continue;
      }
      // Block lengths, then gen lengths.
      size_t middle = text.find(" would work");
      size_t start = text.find("; block-length ") + 15;
      ASSERT_NE(middle, std::string::npos);
      for (int64_t suggested :
           {std::stoll(text.substr(start)),
            std::stoll(text.substr(text.rfind(' ', middle - 1)))})
        EXPECT_EQ(gen % suggested, 0) << text;
      EXPECT_EQ(std::stoll(text.substr(text.rfind(' '))) % block, 0) << text;
    }
}

TEST(CheckOptions, RefusesSenselessNumbers) {
  EXPECT_EQ(optionsRefusal(0, 1, 1),
            "gen-length is 0; it must be at least 1 and at most 1048576");
  EXPECT_EQ(optionsRefusal(1, -1, 1),
            "block-length is -1; it must be at least 1 and at most 1048576");
  EXPECT_EQ(optionsRefusal(1, 1, INT64_MAX),
            "steps is 9223372036854775807; it must be at least 1 and at most "
            "1048576");
  GenerateOptions options;
  options.sampling.temperature = -1;
  EXPECT_EQ(refusal(checkOptions(options)),
            "temperature is -1.000000; it must be a finite number that is not "
            "negative");
  options.sampling.temperature = std::numeric_limits<double>::quiet_NaN();
  EXPECT_FALSE(checkOptions(options));
  options.sampling.temperature = 1;
  options.sampling.cfgScale = std::numeric_limits<double>::infinity();
  EXPECT_FALSE(checkOptions(options));
}

TEST(CheckPrompts, SaysWhichPromptAndWhere) {
  FakeModel model;
  GenerateOptions options;
  options.genLength = 120;
  auto check = [&](const Prompts &prompts) {
    return refusal(checkPrompts(model.config(), prompts, options));
  };
  EXPECT_EQ(check({{1, 2, 3, 4, 5, 6, 7, 8}}), "accepted");
  EXPECT_EQ(check({}), "there is no prompt; give at least one");
  EXPECT_EQ(check({{}}),
            "the prompt is empty; it must hold at least one token");
  EXPECT_EQ(check({{1}, {}}),
            "prompt 2 is empty; it must hold at least one token");
  EXPECT_EQ(check({{1, 2, 3, 4, 5, 6, 7, 8, 9}}),
            "the prompt has 9 tokens; with gen-length 120 that is more than "
            "the 128 positions of the model: shorten it or use gen-length 119 "
            "or less");
  EXPECT_EQ(check({std::vector<int32_t>(128, 1)}),
            "the prompt has 128 tokens; with gen-length 120 that is more than "
            "the 128 positions of the model: shorten it");
  EXPECT_EQ(check({{1, 41}}), "the prompt has token id 41 at position 1; the "
                              "model's ids are 0 to 40");
  EXPECT_EQ(check({{1}, {-5}}), "prompt 2 has token id -5 at position 0; the "
                                "model's ids are 0 to 40");
  EXPECT_EQ(check({{1, 2, FakeModel::mask}}),
            "the prompt has the mask token (id 40) at position 2; only "
            "positions after the prompt are filled, remove it");
}

TEST(Generate, ChecksBeforeItAllocates) {
  FakeModel model;
  FakeExecutor executor;
  GenerateOptions options;
  options.genLength = 16;
  options.blockLength = 5;
  options.steps = 16;
  Prompts prompts = {{1, 2}};
  EXPECT_FALSE(generate(model, executor, prompts, options, nullptr));
  options.blockLength = 4;
  EXPECT_FALSE(generate(model, executor, Prompts{}, options, nullptr));

  executor.bytes = int64_t(1) << 60;
  Result<Generation> result =
      generate(model, executor, prompts, options, nullptr);
  ASSERT_FALSE(result);
  EXPECT_NE(result.error().text().find(
                "generating 1 sequences of 18 positions in all needs 1.2 EB"),
            std::string::npos)
      << result.error().text();
  EXPECT_EQ(executor.totalSteps, 0) << "beginRun was called";
  EXPECT_EQ(model.forwards, 0);
}

} // namespace
