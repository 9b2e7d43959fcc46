//===- HostileTest.cpp - Inputs made to hang or to crash ------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/test/text/TestFiles.h"

#include <gtest/gtest.h>

#include <chrono>
#include <ctime>

using namespace heddle::rt;
using nlohmann::json;

/// Generous: what is bad here takes minutes or years, and sanitizers are slow.
static constexpr auto bearable = std::chrono::seconds(60);

class Hostile : public testing::Test {
  void TearDown() override {
    EXPECT_LT(std::chrono::steady_clock::now() - start, bearable);
  }
  std::chrono::steady_clock::time_point start =
      std::chrono::steady_clock::now();
};

static json splitOn(const std::string &pattern) {
  json file = test::gpt2File();
  file["pre_tokenizer"] = {{"type", "Sequence"},
                           {"pretokenizers",
                            {{{"type", "Split"},
                              {"pattern", {{"Regex", pattern}}},
                              {"behavior", "Isolated"},
                              {"invert", false}},
                             {{"type", "ByteLevel"},
                              {"add_prefix_space", false},
                              {"use_regex", false}}}}};
  return file;
}

static std::string repeat(const std::string &unit, size_t bytes) {
  std::string text;
  while (text.size() < bytes)
    text += unit;
  return text;
}

TEST_F(Hostile, LongRunsOfOneCharacter) {
  for (const char *name :
       {"gpt2", "qwen2", "llada", "flags", "split_behaviors"}) {
    auto tokenizer = test::loadText(test::readGolden(name, "tokenizer.json"));
    ASSERT_TRUE(tokenizer) << tokenizer.error().text();
    for (const char *unit : {"a", " ", "\n", "1", "!", "é", "the", " \n", "<",
                             "\u0301\u0327", "👍"}) {
      // The simplest one on a megabyte; what is linear there is here too.
      bool simplest = std::string_view(name) == "gpt2";
      std::string text = repeat(unit, simplest ? 1 << 20 : 1 << 17);
      auto ids = (*tokenizer)->encode(text);
      ASSERT_TRUE(ids) << name << unit << ids.error().text();
      EXPECT_FALSE(ids->empty());
      if (simplest) {
        EXPECT_EQ((*tokenizer)->decode(*ids, false), text);
      }
    }
  }
}

TEST_F(Hostile, CombiningMarksOutOfOrder) {
  auto tokenizer = test::loadText(test::readGolden("qwen2", "tokenizer.json"));
  ASSERT_TRUE(tokenizer);
  // U+0F73 decomposes into two marks that canonical order sorts apart.
  auto ids = (*tokenizer)->encode("a" + repeat("\u0F73", 1 << 20));
  ASSERT_TRUE(ids) << ids.error().text();
  size_t count = (1 << 20) / 3 + 1;
  EXPECT_EQ((*tokenizer)->decode(*ids, false),
            "a" + repeat("\u0F71", count * 3) + repeat("\u0F72", count * 3));
}

TEST_F(Hostile, BacktrackingBombsAreErrors) {
  for (const char *bomb : {"(a+)+$", "(a|a)*[bc]", "(a|aa)+[bc]", "(?:a*)*[bc]",
                           "(a?){50}a{50}[bc]", "((a+)+)+[!?]"}) {
    auto tokenizer = test::loadText(splitOn(bomb).dump());
    ASSERT_TRUE(tokenizer) << tokenizer.error().text();
    auto ids = (*tokenizer)->encode(std::string(5000, 'a') + "X");
    ASSERT_FALSE(ids) << bomb;
    // On a slow machine the deadline comes before the limit.
    const std::string text = ids.error().text();
    EXPECT_TRUE(text.find("match limit") != std::string::npos ||
                text.find("takes too long") != std::string::npos)
        << text;
  }
}

TEST_F(Hostile, PatternsThatRescanTheTextAreErrors) {
  auto tokenizer = test::loadText(splitOn("a(?=[^x]*+[xy])").dump());
  ASSERT_TRUE(tokenizer) << tokenizer.error().text();
  auto ids = (*tokenizer)->encode(std::string(1 << 18, 'a'));
  ASSERT_FALSE(ids);
  EXPECT_NE(ids.error().text().find("too long"), std::string::npos)
      << ids.error().text();
}

/// Steps of the engine that run over the whole text, and millions of steps in
/// one call: the deadline must hold within it, for texts short and long.
TEST_F(Hostile, StepsThatRescanTheTextAreErrors) {
  struct {
    const char *pattern, *unit;
    size_t bytes;
  } const cases[] = {{"(?:a(?=[^x]*+[xy])|a)+[bc]", "a", 200'000},
                     {"(?:a(?=[^x]*+[xy])|a)+[bc]", "a", 20'000},
                     {R"(\s+(?!\S)(?=[^x]*+x))", " ", 1 << 17}};
  for (const auto &[pattern, unit, bytes] : cases) {
    auto tokenizer = test::loadText(splitOn(pattern).dump());
    ASSERT_TRUE(tokenizer) << tokenizer.error().text();
    const std::string text = repeat(unit, bytes);
    const std::clock_t begin = std::clock();
    auto ids = (*tokenizer)->encode(text);
    // The deadline is two seconds, by the clock. Of the CPU's time it is never
    // more, however busy the machine; one call that nobody watches took six.
    EXPECT_LT(std::clock() - begin, 4 * CLOCKS_PER_SEC) << pattern;
    ASSERT_FALSE(ids) << pattern;
    EXPECT_NE(ids.error().text().find("too long"), std::string::npos)
        << ids.error().text();
  }
}

TEST_F(Hostile, PatternsTooLargeToCompileAreErrors) {
  for (std::string pattern :
       {repeat("(", 5000), std::string("((a{1000}){1000}){1000}"),
        std::string(100000, 'a'), repeat("[a-z]{1,500}", 60000)}) {
    auto tokenizer = test::loadText(splitOn(pattern).dump());
    EXPECT_FALSE(tokenizer) << pattern.substr(0, 30);
  }
}

TEST_F(Hostile, DeepNesting) {
  EXPECT_NE(test::loadError(std::string(1 << 20, '[')).find("nested deeper"),
            std::string::npos);
  EXPECT_NE(test::loadError(repeat("{\"a\":", 1 << 20)).find("nested deeper"),
            std::string::npos);
}

TEST_F(Hostile, ManyOverlappingAddedTokens) {
  json file = test::gpt2File();
  int id = static_cast<int>(file["model"]["vocab"].size()) + 1;
  for (size_t n = 100; n <= 1000; n += 100)
    file["added_tokens"].push_back({{"id", id++},
                                    {"content", std::string(n, 'q') + "!"},
                                    {"normalized", false}});
  auto tokenizer = test::loadText(file.dump());
  ASSERT_TRUE(tokenizer) << tokenizer.error().text();
  std::string text(1 << 14, 'q');
  auto ids = (*tokenizer)->encode(text);
  ASSERT_TRUE(ids) << ids.error().text();
  EXPECT_EQ((*tokenizer)->decode(*ids, false), text);
}
