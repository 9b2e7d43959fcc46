//===- PromptsFuzzer.cpp - Files of prompts -------------------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The input is read as a file of texts, of JSON lines and as token ids.
//
//===----------------------------------------------------------------------===//

#include "test/fuzz/Mutators.h"

#include "runtime/text/Utf8.h"
#include "tools/heddle-run/Prompts.h"

#include <algorithm>

using namespace heddle;

void fuzz::runInput(const std::string &input) {
  for (bool chat : {false, true})
    for (const char *name : {"p.txt", "p.jsonl"}) {
      run::RunOptions options;
      options.chat = chat;
      const auto format = chat ? rt::ChatFormat::ChatML : rt::ChatFormat::LLaDA;
      Result<std::vector<run::Prompt>> prompts =
          run::parsePromptLines(input, name, options, format);
      if (!prompts)
        continue;
      for (const run::Prompt &prompt : *prompts)
        require(!prompt.isText || (!prompt.text.empty() &&
                                   !rt::text::findInvalidUtf8(prompt.text)),
                "prompts are UTF-8 and not empty");
    }
  Result<std::vector<int32_t>> ids = run::parseIds(input);
  if (ids)
    require(std::all_of(ids->begin(), ids->end(),
                        [](int32_t id) { return id >= 0; }),
            "ids are not negative");
}

std::string fuzz::mutated(const std::string &input, Random &random) {
  // One line as JSON, or the lines.
  if (below(random, 3) == 0)
    return mutatedWords(input,
                        {"\"prompt\"", "\"prompt_ids\"", "\"messages\"", "\n",
                         "\r\n", ",", "1"},
                        random);
  const size_t from = below(random, input.size() + 1);
  const size_t before = input.rfind('\n', from ? from - 1 : 0);
  const size_t begin = before == input.npos || from == 0 ? 0 : before + 1;
  const size_t end = std::min(input.find('\n', begin), input.size());
  return input.substr(0, begin) +
         mutatedJson(input.substr(begin, end - begin), random) +
         input.substr(end);
}

std::string fuzz::crossed(const std::string &input, const std::string &other,
                          Random &random) {
  return crossedLines(input, other, random);
}
