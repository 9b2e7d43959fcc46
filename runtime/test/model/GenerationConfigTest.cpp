//===- GenerationConfigTest.cpp - generation_config.json ------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "TinyModel.h"

#include "runtime/model/GenerationConfig.h"

#include <gtest/gtest.h>

using namespace heddle;
using namespace heddle::rt;
using namespace heddle::rt::test;

namespace {

Result<GenerationConfig> load(const std::string &text) {
  TemporaryFolder folder;
  folder.write("generation_config.json", text);
  Result<GenerationConfig> config = GenerationConfig::load(folder.path);
  if (config)
    return config;
  std::string prefix = folder.path + "/generation_config.json: ";
  EXPECT_EQ(config.error().text().substr(0, prefix.size()), prefix);
  return Error(config.error().text().substr(prefix.size()));
}

std::string errorOf(const std::string &text) {
  Result<GenerationConfig> config = load(text);
  return config ? "no error" : config.error().text();
}

TEST(GenerationConfig, ReadsDream7BAsReleased) {
  Result<GenerationConfig> config = load(R"({
    "_from_model_config": true, "alg": "origin", "alg_temp": null,
    "bos_token_id": 151643, "eos_token_id": 151643, "eps": 0.001,
    "mask_token_id": null, "output_history": false, "pad_token_id": 151643,
    "steps": 512, "temperature": 0.0, "top_k": null, "top_p": null,
    "transformers_version": "4.46.2"})");
  ASSERT_TRUE(config) << config.error().text();
  EXPECT_EQ(config->alg, "origin");
  EXPECT_EQ(config->eps, 0.001);
  EXPECT_EQ(config->temperature, 0);
  EXPECT_FALSE(config->topP || config->topK || config->algTemp);
}

TEST(GenerationConfig, WithoutAFileNothingIsSaid) {
  TemporaryFolder folder;
  Result<GenerationConfig> config = GenerationConfig::load(folder.path);
  ASSERT_TRUE(config);
  EXPECT_FALSE(config->alg || config->eps || config->temperature);
}

TEST(GenerationConfig, ErrorsNameTheField) {
  EXPECT_EQ(errorOf(R"({"alg": 3})"),
            "field 'alg': found 3, expected a string");
  EXPECT_EQ(errorOf(R"({"eps": 2})"),
            "field 'eps': found 2, expected a number from 0 to 1");
  EXPECT_EQ(errorOf(R"({"eps": 0})"),
            "field 'eps': found 0, expected a number between 0 and 1");
  EXPECT_EQ(errorOf(R"({"temperature": -0.5})"),
            "field 'temperature': found -0.5, expected a number from 0 to "
            "1e+06");
  EXPECT_EQ(errorOf(R"({"top_p": "0.9"})"),
            "field 'top_p': found \"0.9\", expected a number from 0 to 1");
  EXPECT_EQ(errorOf(R"({"top_k": 0})"),
            "field 'top_k': found 0, expected an integer from 1 to 2147483648");
  EXPECT_EQ(errorOf(R"({"top_k": 2.5})"),
            "field 'top_k': found 2.5, expected an integer from 1 to "
            "2147483648");
  EXPECT_EQ(errorOf(R"({"alg_temp": true})"),
            "field 'alg_temp': found true, expected a number from 0 to 1e+06");
  EXPECT_EQ(errorOf("[]"), "expected a JSON object ({...}), found array");
  EXPECT_NE(errorOf("{"), "no error");
}

} // namespace
