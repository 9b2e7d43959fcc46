//===- generate.cpp - Text from a model and a bundle, as a library --------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// usage: generate MODEL_FOLDER BUNDLE PROMPT
//
// What heddle-run does at its core, for models that are sampled in blocks:
// 128 tokens in 128 steps, each block of 32 before the next.
//
//===----------------------------------------------------------------------===//

#include "bundle/format/Bundle.h"
#include "runtime/denoise/Denoise.h"
#include "runtime/engine/Device.h"
#include "runtime/text/Tokenizer.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>

using namespace heddle;

/// The value, or the end of the program with the sentence that says why not.
template <typename T> static T orExit(Result<T> result) {
  if (result)
    return std::move(*result);
  std::fprintf(stderr, "generate: %s\n", result.error().text().c_str());
  std::exit(1);
}

static void orExit(Status status) {
  if (status)
    return;
  std::fprintf(stderr, "generate: %s\n", status.error().text().c_str());
  std::exit(1);
}

int main(int argc, char **argv) {
  if (argc != 4) {
    std::fprintf(stderr, "usage: generate MODEL_FOLDER BUNDLE PROMPT\n");
    return 2;
  }
  rt::ModelConfig config = orExit(rt::ModelConfig::load(argv[1]));
  auto tokenizer = orExit(rt::Tokenizer::load(argv[1]));
  bundle::Bundle schedule = orExit(bundle::Bundle::read(argv[2]));
  std::vector<std::vector<int32_t>> prompts = {
      orExit(tokenizer->encode(argv[3]))};

  rt::GenerateOptions options;
  options.blockLength = 32;
  options.sampling.eosToken = config.eosToken;
  orExit(rt::checkOptions(options));
  orExit(rt::checkPrompts(config, prompts, options));

  // The device checks that it has the memory before it loads the weights.
  auto device = orExit(rt::Device::open({.name = "cpu"}, config));
  auto engine = orExit(device->engine(schedule));
  orExit(device->checkRun(*engine, {static_cast<int64_t>(prompts[0].size())},
                          options));
  orExit(device->load(argv[1], {}));
  int64_t rows = 0;
  rt::Generation generation = orExit(
      rt::generate(*engine, prompts, options, [&](const rt::StepRecord &step) {
        rows += step.rowsComputed;
        return true; // false ends the run
      }));
  std::fprintf(stderr, "%lld steps computed %lld rows\n",
               static_cast<long long>(generation.stepsDone),
               static_cast<long long>(rows));

  std::span<const int32_t> response(generation.sequences[0]);
  response = response.subspan(prompts[0].size());
  auto end = std::find(response.begin(), response.end(), config.eosToken);
  std::printf(
      "%s\n",
      tokenizer->decode({response.begin(), end}, /*skipSpecial=*/true).c_str());
}
