//===- TokenizerFuzzer.cpp - tokenizer.json -------------------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "test/fuzz/Folder.h"
#include "test/fuzz/Mutators.h"
#include "test/fuzz/TextUse.h"

using namespace heddle;

void fuzz::runInput(const std::string &input) {
  static const Folder folder;
  folder.write("tokenizer.json", input);
  Result<std::unique_ptr<rt::Tokenizer>> tokenizer =
      rt::Tokenizer::load(folder.path());
  if (tokenizer)
    useTokenizer(**tokenizer);
}

std::string fuzz::mutated(const std::string &input, Random &random) {
  return mutatedJson(input, random);
}

std::string fuzz::crossed(const std::string &input, const std::string &other,
                          Random &random) {
  return crossedJson(input, other, random);
}
