//===- GoldenTest.cpp - Encodings recorded from Hugging Face tokenizers ---===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/test/text/TestFiles.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include <unistd.h>

using namespace heddle;
using namespace heddle::rt;
using nlohmann::json;

std::string test::readGolden(const std::string &name, const std::string &file) {
  std::ifstream stream(HEDDLE_TEXT_GOLDENS "/" + name + "/" + file,
                       std::ios::binary);
  EXPECT_TRUE(stream.good()) << name << "/" << file;
  return std::string(std::istreambuf_iterator<char>(stream), {});
}

json test::gpt2File() {
  return json::parse(readGolden("gpt2", "tokenizer.json"));
}

Result<std::unique_ptr<Tokenizer>> test::loadText(const std::string &text) {
  // Tests run as processes side by side.
  std::filesystem::path folder = std::filesystem::path(testing::TempDir()) /
                                 ("heddle-text-" + std::to_string(getpid()));
  std::filesystem::create_directories(folder);
  std::ofstream(folder / "tokenizer.json", std::ios::binary) << text;
  Result<std::unique_ptr<Tokenizer>> result = Tokenizer::load(folder.string());
  std::filesystem::remove_all(folder);
  return result;
}

std::string test::loadError(const std::string &text) {
  Result<std::unique_ptr<Tokenizer>> result = loadText(text);
  return result ? "" : result.error().text();
}

class Golden : public testing::TestWithParam<const char *> {};

TEST_P(Golden, EncodesAndDecodesAsRecorded) {
  Result<std::unique_ptr<Tokenizer>> loaded =
      Tokenizer::load(std::string(HEDDLE_TEXT_GOLDENS "/") + GetParam());
  ASSERT_TRUE(loaded) << loaded.error().text();
  const Tokenizer &tokenizer = **loaded;
  json cases = json::parse(test::readGolden(GetParam(), "cases.json"));
  ASSERT_GT(cases.size(), 100u);
  // Twice: the second time out of the cache of words.
  for (int round = 0; round < 2; ++round)
    for (const json &one : cases) {
      std::string text = one[0];
      SCOPED_TRACE(one[0].dump());
      Result<std::vector<int32_t>> ids = tokenizer.encode(text);
      ASSERT_TRUE(ids) << ids.error().text();
      EXPECT_EQ(*ids, one[1].get<std::vector<int32_t>>());
      EXPECT_EQ(tokenizer.decode(*ids, false), one[2].get<std::string>());
      EXPECT_EQ(tokenizer.decode(*ids, true), one[3].get<std::string>());
      std::vector<int32_t> reversed(ids->rbegin(), ids->rend());
      EXPECT_EQ(tokenizer.decode(reversed, false), one[4].get<std::string>());
    }
}

INSTANTIATE_TEST_SUITE_P(All, Golden,
                         testing::Values("gpt2", "prefix_space", "qwen2",
                                         "llama3", "llada", "flags",
                                         "split_behaviors", "separate_files"),
                         [](const auto &info) {
                           return std::string(info.param);
                         });
