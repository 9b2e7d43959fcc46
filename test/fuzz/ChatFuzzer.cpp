//===- ChatFuzzer.cpp - Chat templates ------------------------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Inputs are messages: the role in a part's first line, the content below.
//
//===----------------------------------------------------------------------===//

#include "test/fuzz/Mutators.h"

#include "runtime/text/ChatFormat.h"

#include <algorithm>

using namespace heddle;

void fuzz::runInput(const std::string &input) {
  std::vector<rt::ChatMessage> messages;
  for (const std::string &part : splitParts(input)) {
    const size_t end = std::min(part.find('\n'), part.size());
    messages.push_back(
        {part.substr(0, end), part.substr(std::min(end + 1, part.size()))});
  }
  for (auto format : {rt::ChatFormat::LLaDA, rt::ChatFormat::ChatML}) {
    const std::string prompt = rt::formatChat(format, messages);
    const std::string turn(rt::endOfTurnToken(format));
    size_t turns = 0, at = 0;
    while ((at = prompt.find(turn, at)) != prompt.npos) {
      ++turns;
      at += turn.size();
    }
    require(turns >= messages.size(), "each message is a turn that ends");
    require(prompt.find("assistant") != prompt.npos,
            "the prompt asks for an answer");
  }
}

std::string fuzz::mutated(const std::string &input, Random &random) {
  return mutatedWords(input,
                      {"system\n", "user\n", "assistant\n", "\n=====\n",
                       "\u2003", "\u0085", "\x1c", " ", "\xC2", "<|eot_id|>"},
                      random);
}

std::string fuzz::crossed(const std::string &input, const std::string &other,
                          Random &random) {
  return crossedLines(input, other, random);
}
