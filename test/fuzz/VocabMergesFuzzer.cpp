//===- VocabMergesFuzzer.cpp - vocab.json and merges.txt ------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Inputs are vocab.json, merges.txt, tokenizer_config.json and, where that has
// no added tokens, added_tokens.json and special_tokens_map.json.
//
//===----------------------------------------------------------------------===//

#include "test/fuzz/Folder.h"
#include "test/fuzz/Mutators.h"
#include "test/fuzz/TextUse.h"

using namespace heddle;

void fuzz::runInput(const std::string &input) {
  static const Folder folder;
  static constexpr const char *names[] = {
      "vocab.json", "merges.txt", "tokenizer_config.json", "added_tokens.json",
      "special_tokens_map.json"};
  std::vector<std::string> parts = splitParts(input);
  for (size_t i = 0; i < std::size(names); ++i)
    if (i < parts.size())
      folder.write(names[i], parts[i]);
    else
      folder.remove(names[i]);
  Result<std::unique_ptr<rt::Tokenizer>> tokenizer =
      rt::Tokenizer::load(folder.path());
  if (tokenizer)
    useTokenizer(**tokenizer);
}

std::string fuzz::mutated(const std::string &input, Random &random) {
  std::vector<std::string> parts = splitParts(input);
  const size_t at = below(random, parts.size());
  parts[at] = at == 1 ? mutatedWords(parts[at], {}, random)
                      : mutatedJson(parts[at], random);
  return joinParts(parts);
}

std::string fuzz::crossed(const std::string &input, const std::string &other,
                          Random &random) {
  std::vector<std::string> parts = splitParts(input), from = splitParts(other);
  const size_t at = below(random, std::min(parts.size(), from.size()));
  if (below(random, 2))
    parts[at] = from[at];
  else if (at == 1)
    parts[at] = crossedLines(parts[at], from[at], random);
  else
    parts[at] = crossedJson(parts[at], from[at], random);
  return joinParts(parts);
}
