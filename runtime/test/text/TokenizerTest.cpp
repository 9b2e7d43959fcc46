//===- TokenizerTest.cpp - The tokenizer's interface ----------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/test/text/TestFiles.h"
#include "runtime/text/Bpe.h"
#include "runtime/text/ByteLevel.h"
#include "runtime/text/Utf8.h"

#include <gtest/gtest.h>

#include <random>
#include <thread>

using namespace heddle::rt;
using nlohmann::json;

static std::unique_ptr<Tokenizer> load(const json &file) {
  auto result = test::loadText(file.dump());
  EXPECT_TRUE(result) << result.error().text();
  return result ? std::move(*result) : nullptr;
}

TEST(Tokenizer, KnowsItsTokens) {
  auto tokenizer =
      load(json::parse(test::readGolden("llada", "tokenizer.json")));
  ASSERT_TRUE(tokenizer);
  int32_t mask = tokenizer->tokenId("<|mdm_mask|>");
  EXPECT_EQ(mask, 562);
  EXPECT_TRUE(tokenizer->isSpecial(mask));
  EXPECT_EQ(tokenizer->vocabSize(), 572);
  int32_t letter = tokenizer->tokenId("a");
  ASSERT_GE(letter, 0);
  EXPECT_FALSE(tokenizer->isSpecial(letter));
  EXPECT_EQ(tokenizer->tokenId("no such token"), -1);
  EXPECT_EQ(tokenizer->tokenId(""), -1);
  EXPECT_FALSE(tokenizer->isSpecial(-1));
  EXPECT_FALSE(tokenizer->isSpecial(1 << 30));
}

TEST(Tokenizer, DecodesNothingOfIdsWithoutTokens) {
  auto tokenizer = load(test::gpt2File());
  ASSERT_TRUE(tokenizer);
  int32_t a = tokenizer->tokenId("a");
  std::vector<int32_t> ids = {-1, a, 1 << 30, a, INT32_MIN, INT32_MAX};
  EXPECT_EQ(tokenizer->decode(ids, false), "aa");
}

TEST(Tokenizer, InvalidUtf8IsAnErrorWithItsOffset) {
  auto tokenizer = load(test::gpt2File());
  ASSERT_TRUE(tokenizer);
  struct {
    std::string text;
    const char *at;
  } cases[] = {{"ab\xFF", "byte 2"},        {"\xC0\x80", "byte 0"},
               {"a\xED\xA0\x80", "byte 1"}, {"\xF4\x90\x80\x80", "byte 0"},
               {"\xE2\x82", "byte 0"},      {"é\x80", "byte 2"},
               {"\xF0\x9F\x91", "byte 0"}};
  for (const auto &one : cases) {
    auto ids = tokenizer->encode(one.text);
    ASSERT_FALSE(ids);
    EXPECT_NE(ids.error().text().find(one.at), std::string::npos)
        << ids.error().text();
  }
}

/// Table 3-8 and the examples of Unicode 15, section 3.9.
TEST(Utf8, OneReplacementForEachMaximalSubpart) {
  const std::string r = "\uFFFD";
  EXPECT_EQ(text::utf8Lossy("\xC0\xAF\xE0\x80\xBF\xF0\x81\x82"
                            "A"),
            r + r + r + r + r + r + r + r + "A");
  EXPECT_EQ(text::utf8Lossy("\xED\xA0\x80\xED\xBF\xBF\xED\xAF"
                            "A"),
            r + r + r + r + r + r + r + r + "A");
  EXPECT_EQ(text::utf8Lossy("\xF4\x91\x92\x93\xFF"
                            "A\x80\xBF"
                            "B"),
            r + r + r + r + r + "A" + r + r + "B");
  EXPECT_EQ(text::utf8Lossy("\xE1\x80\xE2\xF0\x91\x92\xF1\xBF"
                            "A"),
            r + r + r + r + "A");
  EXPECT_EQ(text::utf8Lossy(""), "");
  EXPECT_EQ(text::utf8Lossy("plain é 👍"), "plain é 👍");
}

TEST(Utf8, StepsInvertAppend) {
  for (int32_t c = 0; c < 0x110000; c += c < 0x3000 ? 1 : 61) {
    if (c >= 0xD800 && c < 0xE000)
      continue;
    std::string encoded;
    text::appendUtf8(encoded, c);
    heddle::Utf8Step step = heddle::utf8Step(encoded, 0);
    ASSERT_EQ(step.codepoint, c);
    ASSERT_EQ(step.length, encoded.size());
  }
}

TEST(ByteLevel, TheAlphabetIsABijection) {
  std::string all;
  for (int b = 0; b < 256; ++b)
    all += static_cast<char>(b);
  EXPECT_EQ(text::charsToBytes(text::bytesToChars(all)), all);
  EXPECT_EQ(text::bytesToChars(" \n\xAD"), "\u0120\u010A\u0143");
  EXPECT_FALSE(text::charsToBytes(" "));
  EXPECT_FALSE(text::charsToBytes("\u0144"));
  EXPECT_FALSE(text::charsToBytes("\xFF"));
}

/// A normalized added token is found by its normalized text.
TEST(AddedTokens, NormalizedTokensAreSearchedInNormalizedText) {
  json file = test::gpt2File();
  int id = static_cast<int>(file["model"]["vocab"].size()) + 1;
  file["normalizer"] = {{"type", "Lowercase"}};
  file["added_tokens"].push_back({{"id", id},
                                  {"content", "SHUTTLE"},
                                  {"normalized", true},
                                  {"special", false}});
  auto tokenizer = load(file);
  ASSERT_TRUE(tokenizer);
  for (const char *text : {"shuttle", "SHUTTLE", "ShuttlE"})
    EXPECT_EQ(*tokenizer->encode(text), std::vector<int32_t>{id});
  EXPECT_EQ(tokenizer->decode(std::vector<int32_t>{id}, true), "SHUTTLE");
}

TEST(Bpe, MergesAsPairsAndAsStringsAreTheSame) {
  json file = test::gpt2File();
  auto fromPairs = load(file);
  ASSERT_TRUE(file["model"]["merges"][0].is_array());
  json &merges = file["model"]["merges"];
  for (json &merge : merges)
    merge = merge[0].get<std::string>() + " " + merge[1].get<std::string>();
  merges.insert(merges.begin(), "#version: 0.2");
  auto fromStrings = load(file);
  ASSERT_TRUE(fromPairs && fromStrings);
  std::string text = "The loom lifts the warp threads, and the shuttle";
  auto ids = fromPairs->encode(text);
  EXPECT_LT(ids->size(), text.size() / 2);
  EXPECT_EQ(*ids, *fromStrings->encode(text));
}

/// The definition, word by word: find the first pair of the list, leftmost.
static std::vector<std::string>
mergeObviously(const std::string &word,
               const std::vector<std::pair<std::string, std::string>> &merges) {
  std::vector<std::string> symbols;
  for (char c : word)
    symbols.emplace_back(1, c);
  for (;;) {
    size_t best = merges.size(), at = 0;
    for (size_t i = 0; i + 1 < symbols.size(); ++i)
      for (size_t m = 0; m < best; ++m)
        if (merges[m] == std::pair(symbols[i], symbols[i + 1])) {
          best = m;
          at = i;
        }
    if (best == merges.size())
      return symbols;
    symbols[at] += symbols[at + 1];
    symbols.erase(symbols.begin() + at + 1);
  }
}

TEST(Bpe, IsTheDefinitionOnRandomMergesAndWords) {
  std::mt19937 random(7);
  auto below = [&](size_t n) { return random() % n; };
  for (int round = 0; round < 60; ++round) {
    // Random merges over two letters collide and overlap as much as they can.
    std::vector<std::string> tokens = {"a", "b"};
    std::vector<std::pair<std::string, std::string>> merges;
    json file = test::gpt2File();
    json vocab = json::object();
    for (int b = 0; b < 256; ++b)
      vocab[text::bytesToChars(std::string(1, static_cast<char>(b)))] = b;
    json mergeList = json::array();
    for (int m = 0; m < 25; ++m) {
      auto pair =
          std::pair(tokens[below(tokens.size())], tokens[below(tokens.size())]);
      std::string joined = pair.first + pair.second;
      if (joined.size() > 12 ||
          std::find(merges.begin(), merges.end(), pair) != merges.end())
        continue;
      merges.push_back(pair);
      mergeList.push_back({pair.first, pair.second});
      if (!vocab.contains(joined)) {
        vocab[joined] = vocab.size();
        tokens.push_back(joined);
      }
    }
    file["model"]["vocab"] = vocab;
    file["model"]["merges"] = mergeList;
    file["added_tokens"] = json::array();
    auto tokenizer = load(file);
    ASSERT_TRUE(tokenizer);
    for (int w = 0; w < 20; ++w) {
      std::string word;
      for (size_t i = 0, n = 1 + below(90); i < n; ++i)
        word += below(2) ? 'a' : 'b';
      std::vector<int32_t> expected;
      for (const std::string &symbol : mergeObviously(word, merges))
        expected.push_back(tokenizer->tokenId(symbol));
      auto ids = tokenizer->encode(word);
      ASSERT_TRUE(ids);
      EXPECT_EQ(*ids, expected) << word;
    }
  }
}

TEST(Tokenizer, ThreadsShareOne) {
  auto tokenizer =
      load(json::parse(test::readGolden("qwen2", "tokenizer.json")));
  ASSERT_TRUE(tokenizer);
  std::string text;
  for (int i = 0; i < 500; ++i)
    text += "thread" + std::to_string(i) + " lifts é\n";
  std::vector<int32_t> expected = *tokenizer->encode(text);
  std::vector<int> equal(4);
  std::vector<std::thread> threads;
  for (int &result : equal)
    threads.emplace_back([&] {
      result = 1;
      for (int i = 0; i < 10; ++i)
        result &= *tokenizer->encode(text) == expected;
    });
  for (std::thread &thread : threads)
    thread.join();
  EXPECT_EQ(equal, std::vector<int>(4, 1));
}
