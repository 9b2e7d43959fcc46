//===- ChatTemplate.cpp - Chat messages as a model's text -----------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/text/ChatFormat.h"
#include "runtime/text/Utf8.h"

#include <algorithm>

using namespace heddle::rt;

/// What Python's str.strip, and with it Jinja's trim filter, removes: white
/// space, and the four information separators.
static bool isStripped(int32_t codepoint) {
  return text::isWhiteSpace(codepoint) ||
         (codepoint >= 0x1C && codepoint <= 0x1F);
}

static std::string_view strip(std::string_view content) {
  size_t begin = content.size(), end = 0;
  for (size_t at = 0; at < content.size();) {
    heddle::Utf8Step step = heddle::utf8Step(content, at);
    if (!isStripped(step.codepoint)) {
      begin = std::min(begin, at);
      end = at + step.length;
    }
    at += step.length;
  }
  return begin < end ? content.substr(begin, end - begin) : std::string_view();
}

// Source: the chat_template of GSAI-ML/LLaDA-8B-Instruct's
// tokenizer_config.json: the beginning-of-sequence text belongs to the first
// message, and the assistant's header always closes the prompt.
static std::string formatLLaDA(std::span<const ChatMessage> messages) {
  auto header = [](std::string_view role) {
    return "<|start_header_id|>" + std::string(role) + "<|end_header_id|>\n\n";
  };
  std::string prompt;
  for (const ChatMessage &message : messages) {
    if (prompt.empty())
      prompt = "<|startoftext|>";
    prompt += header(message.role);
    prompt += strip(message.content);
    prompt += "<|eot_id|>";
  }
  return prompt + header("assistant");
}

// Source: the chat_template of Dream-org/Dream-v0-Instruct-7B's
// tokenizer_config.json, with add_generation_prompt.
static std::string formatChatML(std::span<const ChatMessage> messages) {
  std::string prompt;
  auto add = [&](std::string_view role, std::string_view content) {
    prompt += "<|im_start|>";
    prompt += role;
    prompt += "\n";
    prompt += content;
    prompt += "<|im_end|>\n";
  };
  if (messages.empty() || messages.front().role != "system")
    add("system", "You are a helpful assistant.");
  for (const ChatMessage &message : messages)
    add(message.role, message.content);
  return prompt + "<|im_start|>assistant\n";
}

std::string heddle::rt::formatChat(ChatFormat format,
                                   std::span<const ChatMessage> messages) {
  return format == ChatFormat::LLaDA ? formatLLaDA(messages)
                                     : formatChatML(messages);
}

std::string_view heddle::rt::endOfTurnToken(ChatFormat format) {
  return format == ChatFormat::LLaDA ? "<|eot_id|>" : "<|im_end|>";
}
