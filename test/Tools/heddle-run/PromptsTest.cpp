//===- PromptsTest.cpp - Prompts as the user gives them -------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Prompts.h"

#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>

using namespace heddle;
using namespace heddle::run;

namespace {

using Ids = std::vector<int32_t>;

template <typename T> std::string failure(const Result<T> &result) {
  return result ? "accepted" : result.error().text();
}

TEST(ParseIds, ReadsLists) {
  EXPECT_EQ(*parseIds("1,2,3"), (Ids{1, 2, 3}));
  EXPECT_EQ(*parseIds(" 7 , 0"), (Ids{7, 0}));
  EXPECT_EQ(*parseIds("2147483647"), (Ids{2147483647}));
}

TEST(ParseIds, RefusesTheRest) {
  for (auto [text, item] :
       {std::pair("", "'' (item 1)"), std::pair("1,,2", "'' (item 2)"),
        std::pair("1,2,", "'' (item 3)"), std::pair("1,x", "'x' (item 2)"),
        std::pair("-1", "'-1' (item 1)"), std::pair("1 2", "'1 2' (item 1)"),
        std::pair("2147483648", "'2147483648' (item 1)"),
        std::pair("1.5", "'1.5' (item 1)")})
    EXPECT_EQ(failure(parseIds(text)),
              std::string(item) + " is not a token id; expected whole numbers "
                                  "from 0, as in 1,2,3");
}

TEST(PromptLines, ALineIsAPrompt) {
  auto prompts = parsePromptLines("first\r\nsecond one\nthird", "p.txt", {});
  ASSERT_TRUE(prompts) << failure(prompts);
  ASSERT_EQ(prompts->size(), 3u);
  EXPECT_EQ((*prompts)[0].text, "first");
  EXPECT_EQ((*prompts)[1].text, "second one");
  EXPECT_EQ((*prompts)[2].text, "third");
}

TEST(PromptLines, JsonLines) {
  auto prompts = parsePromptLines(
      "\"a \\u00e9\"\n{\"prompt\": \"b\", \"answer\": 1}\n"
      "{\"prompt_ids\": [4, 5]}\n"
      "{\"messages\": [{\"role\": \"user\", \"content\": \"hi\"}]}\n",
      "p.jsonl", {});
  ASSERT_TRUE(prompts) << failure(prompts);
  ASSERT_EQ(prompts->size(), 4u);
  EXPECT_EQ((*prompts)[0].text, "a \u00e9");
  EXPECT_EQ((*prompts)[1].text, "b");
  EXPECT_EQ((*prompts)[2].ids, (Ids{4, 5}));
  EXPECT_FALSE((*prompts)[2].isText);
  rt::ChatMessage message{"user", "hi"};
  EXPECT_EQ((*prompts)[3].text,
            rt::formatChat(rt::ChatFormat::LLaDA, std::span(&message, 1)));
}

TEST(PromptLines, BlankLinesOfJsonAreNone) {
  auto prompts =
      parsePromptLines("\n\"a\"\r\n\r\n \t\n\"b\"\n\n", "p.jsonl", {});
  ASSERT_TRUE(prompts) << failure(prompts);
  ASSERT_EQ(prompts->size(), 2u);
  EXPECT_EQ((*prompts)[0].text, "a");
  EXPECT_EQ((*prompts)[1].text, "b");
  EXPECT_EQ(failure(parsePromptLines("\n\r\n", "p.jsonl", {})),
            "p.jsonl: no prompt in it; expected one a line");
  EXPECT_EQ(failure(parsePromptLines("\n\n{oops\n", "p.jsonl", {})),
            "p.jsonl:3: not a JSON value; a .jsonl file holds one a line");
}

TEST(PromptLines, ErrorsNameTheLine) {
  auto lines = [](const char *text) {
    return failure(parsePromptLines(text, "p.txt", {}));
  };
  EXPECT_EQ(lines(""), "p.txt: no prompt in it; expected one a line");
  EXPECT_EQ(lines("a\n\nb"),
            "p.txt:2: the prompt is empty; it must hold some text");
  EXPECT_EQ(lines("a\nb \xff\n"),
            "p.txt:2: not UTF-8 at byte 2 (0xff); prompts are UTF-8 text");
  auto json = [](const char *text) {
    return failure(parsePromptLines(text, "p.jsonl", {}));
  };
  EXPECT_EQ(json("\"a\"\n{oops"),
            "p.jsonl:2: not a JSON value; a .jsonl file holds one a line");
  EXPECT_EQ(json("[1]").find("p.jsonl:1: expected a string, or an object"), 0u);
  EXPECT_EQ(json("{\"prompt\": \"a\", \"prompt_ids\": [1]}")
                .find("p.jsonl:1: expected a string, or an object"),
            0u);
  EXPECT_EQ(json("{\"prompt\": \"a\", \"prompt\": \"b\"}"),
            "p.jsonl:1: an object has the key 'prompt' twice");
  EXPECT_EQ(json("{\"prompt\": 3}"), "p.jsonl:1: \"prompt\" is not a string");
  EXPECT_EQ(json("{\"prompt_ids\": [1, -2]}"),
            "p.jsonl:1: \"prompt_ids\" holds -2; token ids are whole numbers "
            "from 0");
  EXPECT_EQ(json("{\"prompt_ids\": [1.5]}"),
            "p.jsonl:1: \"prompt_ids\" holds 1.5; token ids are whole numbers "
            "from 0");
  EXPECT_EQ(
      json("{\"messages\": [{\"role\": \"robot\", \"content\": \"x\"}]}"),
      "p.jsonl:1: a message has the role \"robot\"; expected system, user or "
      "assistant");
  EXPECT_NE(json("{\"messages\": [{\"role\": \"user\"}]}"), "accepted");
  EXPECT_NE(json("{\"messages\": []}"), "accepted");
}

TEST(PromptLines, AByteOf0EndsNoLine) {
  using namespace std::string_literals;
  EXPECT_EQ(failure(parsePromptLines("\"a\"\n\"b\"\0 \"c\"\n"s, "p.jsonl", {})),
            "p.jsonl:2: byte 3 is 0, which no JSON has");
  EXPECT_EQ(failure(parsePromptLines("{\"prompt\": \"b\"}\0"s, "p.jsonl", {})),
            "p.jsonl:1: byte 15 is 0, which no JSON has");
  auto prompts = parsePromptLines("a\0b\n"s, "p.txt", {});
  ASSERT_TRUE(prompts) << failure(prompts);
  EXPECT_EQ((*prompts)[0].text, "a\0b"s);
}

TEST(ReadPrompts, ChatUsesTheTemplate) {
  RunOptions options;
  options.prompt = {PromptSource::Kind::Argument, "hello", {}};
  options.chat = true;
  options.system = "be brief";
  auto prompts = readPrompts(options);
  ASSERT_TRUE(prompts);
  rt::ChatMessage messages[] = {{"system", "be brief"}, {"user", "hello"}};
  EXPECT_EQ((*prompts)[0].text,
            rt::formatChat(rt::ChatFormat::LLaDA, messages));
  options.chat = false;
  EXPECT_EQ((*readPrompts(options))[0].text, "hello");
}

TEST(ReadPrompts, AFileLosesOneFinalLineBreak) {
  std::string path = testing::TempDir() + "heddle-run-prompt.txt";
  RunOptions options;
  options.prompt = {PromptSource::Kind::File, path, {}};
  for (auto [content, expected] :
       {std::pair("a\nb\n", "a\nb"), std::pair("a\r\n", "a"),
        std::pair("a\n\n", "a\n"), std::pair("a", "a")}) {
    std::ofstream(path, std::ios::binary) << content;
    auto prompts = readPrompts(options);
    ASSERT_TRUE(prompts) << failure(prompts);
    EXPECT_EQ((*prompts)[0].text, expected);
  }
  std::ofstream(path, std::ios::binary) << "\n";
  EXPECT_EQ(failure(readPrompts(options)),
            path + ": the prompt is empty; it must hold some text");
  std::filesystem::remove(path);
  EXPECT_EQ(failure(readPrompts(options)).find(path), 0u);
}

TEST(EncodePrompts, IdsNeedNoTokenizer) {
  std::vector<Prompt> prompts = {{.text = "", .ids = {3, 4}, .isText = false}};
  EXPECT_EQ(*encodePrompts(prompts, nullptr), (std::vector<Ids>{{3, 4}}));
  prompts.push_back({.text = "x", .ids = {}, .isText = true});
  EXPECT_EQ(failure(encodePrompts(prompts, nullptr)),
            "the model's folder has no tokenizer (tokenizer.json, or "
            "vocab.json and merges.txt), so text cannot become token ids; "
            "give --prompt-ids");
}

} // namespace
