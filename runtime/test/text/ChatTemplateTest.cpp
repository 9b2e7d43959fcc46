//===- ChatTemplateTest.cpp - Chat templates ------------------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/test/text/TestFiles.h"
#include "runtime/text/ChatFormat.h"

#include <gtest/gtest.h>

using namespace heddle::rt;

TEST(ChatTemplate, OneUserMessage) {
  ChatMessage message{"user", "How many threads?"};
  EXPECT_EQ(formatChat(ChatFormat::LLaDA, std::span(&message, 1)),
            "<|startoftext|><|start_header_id|>user<|end_header_id|>\n\n"
            "How many threads?<|eot_id|>"
            "<|start_header_id|>assistant<|end_header_id|>\n\n");
}

TEST(ChatTemplate, BeginningOfTextOnlyOnceAndHeaderAlwaysLast) {
  ChatMessage messages[] = {
      {"system", "Be brief."}, {"user", "Hi"}, {"assistant", "Hello"}};
  EXPECT_EQ(formatChat(ChatFormat::LLaDA, messages),
            "<|startoftext|><|start_header_id|>system<|end_header_id|>\n\n"
            "Be brief.<|eot_id|>"
            "<|start_header_id|>user<|end_header_id|>\n\nHi<|eot_id|>"
            "<|start_header_id|>assistant<|end_header_id|>\n\nHello<|eot_id|>"
            "<|start_header_id|>assistant<|end_header_id|>\n\n");
}

TEST(ChatTemplate, WithoutMessagesOnlyTheHeader) {
  EXPECT_EQ(formatChat(ChatFormat::LLaDA, {}),
            "<|start_header_id|>assistant<|end_header_id|>\n\n");
}

/// What Python's str.strip removes and what it leaves.
TEST(ChatTemplate, ContentIsStripped) {
  auto content = [](std::string text) {
    ChatMessage message{"user", std::move(text)};
    std::string prompt = formatChat(ChatFormat::LLaDA, std::span(&message, 1));
    size_t begin = prompt.find("\n\n") + 2;
    return prompt.substr(begin, prompt.find("<|eot_id|>") - begin);
  };
  EXPECT_EQ(content(" \t\r\n a  b \n"), "a  b");
  EXPECT_EQ(content("\u00A0\u3000\u0085\u2028a\x1C\x1F\v\f"), "a");
  EXPECT_EQ(content("\u200Ba\uFEFF"), "\u200Ba\uFEFF"); // no white space
  EXPECT_EQ(content(" \n "), "");
  EXPECT_EQ(content(""), "");
  EXPECT_EQ(content(" \xFF "), "\xFF"); // left for encode() to refuse
}

TEST(ChatTemplate, ChatMLAddsItsSystemMessage) {
  ChatMessage message{"user", " How many threads?\n"};
  EXPECT_EQ(formatChat(ChatFormat::ChatML, std::span(&message, 1)),
            "<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n"
            "<|im_start|>user\n How many threads?\n<|im_end|>\n"
            "<|im_start|>assistant\n");
}

TEST(ChatTemplate, ChatMLKeepsAGivenSystemMessage) {
  ChatMessage messages[] = {{"system", "Be brief."},
                            {"user", "Hi"},
                            {"assistant", "Hello"},
                            {"user", ""}};
  EXPECT_EQ(formatChat(ChatFormat::ChatML, messages),
            "<|im_start|>system\nBe brief.<|im_end|>\n"
            "<|im_start|>user\nHi<|im_end|>\n"
            "<|im_start|>assistant\nHello<|im_end|>\n"
            "<|im_start|>user\n<|im_end|>\n"
            "<|im_start|>assistant\n");
}

TEST(ChatTemplate, EncodesWithItsSpecialTokens) {
  auto tokenizer = test::loadText(test::readGolden("llada", "tokenizer.json"));
  ASSERT_TRUE(tokenizer) << tokenizer.error().text();
  ChatMessage message{"user", "the loom"};
  auto ids =
      (*tokenizer)
          ->encode(formatChat(ChatFormat::LLaDA, std::span(&message, 1)));
  ASSERT_TRUE(ids) << ids.error().text();
  auto id = [&](const char *token) { return (*tokenizer)->tokenId(token); };
  EXPECT_EQ(ids->front(), id("<|startoftext|>"));
  EXPECT_EQ((*ids)[1], id("<|start_header_id|>"));
  EXPECT_EQ(std::count(ids->begin(), ids->end(), id("<|eot_id|>")), 1);
  EXPECT_EQ(std::count(ids->begin(), ids->end(), id("<|end_header_id|>")), 2);
  EXPECT_EQ((*tokenizer)->decode(*ids, true), "user\n\nthe loomassistant\n\n");
}
