//===- ConfigFuzzer.cpp - config.json -------------------------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "test/fuzz/Folder.h"
#include "test/fuzz/Mutators.h"

#include "runtime/model/Config.h"
#include "runtime/model/GenerationConfig.h"

using namespace heddle;

void fuzz::runInput(const std::string &input) {
  static const Folder folder;
  folder.write("config.json", input);
  folder.write("generation_config.json", input);
  Result<rt::ModelConfig> config = rt::ModelConfig::load(folder.path());
  if (config) {
    require(config->layers > 0 && config->vocabSize > 0 &&
                config->headDim * config->queryHeads > 0,
            "a configuration that is accepted has sizes");
    require(config->queryHeads % config->kvHeads == 0,
            "query heads share key heads evenly");
  }
  use(&config);
  Result<rt::GenerationConfig> generation =
      rt::GenerationConfig::load(folder.path());
  use(&generation);
}

std::string fuzz::mutated(const std::string &input, Random &random) {
  return mutatedJson(input, random);
}

std::string fuzz::crossed(const std::string &input, const std::string &other,
                          Random &random) {
  return crossedJson(input, other, random);
}
