//===- Info.cpp - What a model and a bundle are ---------------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Info.h"

#include "Bundles.h"
#include "Sampling.h"
#include "bundle/program/Printable.h"
#include "runtime/engine/Device.h"
#include "tools/explain/RequestOptions.h"

#include <cstdio>
#include <sstream>
#include <string>

#include <nlohmann/json.hpp>

namespace heddle::run {

namespace {

using Json = nlohmann::ordered_json;

Json modelJson(const rt::ModelConfig &config, const std::string &folder) {
  return Json{{"folder", folder},
              {"architecture", config.architecture},
              {"layers", config.layers},
              {"hidden", config.hidden},
              {"query_heads", config.queryHeads},
              {"kv_heads", config.kvHeads},
              {"head_dim", config.headDim},
              {"mlp_hidden", config.mlpHidden},
              {"vocabulary", config.vocabSize},
              {"max_sequence_length", config.maxSequenceLength},
              {"sampler", config.sampler == rt::SamplerFamily::Blocks
                              ? "in blocks"
                              : "by timesteps"},
              {"mask_token", config.maskToken},
              {"eos_token", config.eosToken}};
}

/// "head dim    64", a line a field.
std::string modelText(const Json &model) {
  std::string text;
  for (auto &[key, value] : model.items()) {
    std::string label = key;
    for (char &c : label)
      c = c == '_' ? ' ' : c;
    label.resize(20, ' ');
    text += label +
            (value.is_string() ? printablePath(value.get<std::string>())
                               : value.dump()) +
            "\n";
  }
  return text;
}

std::string headText(const bundle::Manifest &manifest,
                     const std::string &path) {
  std::string text = "bundle              " + printablePath(path) +
                     "\nschedule            " + manifest.schedule +
                     "\nproducer            " + manifest.producer + "\n";
  for (const bundle::Target &target : manifest.targets) {
    text +=
        "target              " + toString(target) + "\n  needs             ";
    for (const std::string &feature : target.features)
      text += " " + feature;
    text += target.features.empty() ? " nothing special\n" : "\n";
  }
  return text;
}

} // namespace

Status printInfo(const RunOptions &options) {
  std::string text;
  Json all = Json::object();
  explain::ExplainRequest request;
  if (!options.model.empty()) {
    Result<rt::ModelConfig> config = rt::ModelConfig::load(options.model);
    if (!config)
      return config.takeError();
    all["model"] = modelJson(*config, options.model);
    text += modelText(all["model"]);
    request.shape = explain::shapeOf(*config);
    request.run.shifted = config->shiftedLogits;
    rt::GenerateOptions lengths;
    if (config->sampler == rt::SamplerFamily::Timesteps) {
      Result<rt::GenerationConfig> defaults =
          rt::GenerationConfig::load(options.model);
      if (!defaults)
        return defaults.takeError();
      Result<rt::SampleOptions> sampling =
          resolveSampling(options, *config, *defaults);
      if (!sampling)
        return sampling.takeError();
      lengths.sampling = *sampling;
      request.run.eps = sampling->timesteps->eps;
      request.run.drawn = sampling->timesteps->rule == rt::TransferRule::Origin;
    }
    // Of the longest prompt that the model takes with this response.
    request.run.length = config->maxSequenceLength;
    resolveLengths(options, config->maxSequenceLength - 1, lengths);
    request.run.prompt = request.run.length - lengths.genLength;
    request.run.steps = lengths.steps;
    request.run.blockLength = lengths.blockLength;
  }
  if (!options.bundle.empty()) {
    Result<bundle::Bundle> read =
        readBundle(options.bundle, options.digests, options.rebuild);
    if (!read)
      return read.takeError();
    explain::takeFrom(request, *read);
    Result<explain::Explanation> explanation =
        explain::explainRun(read->manifest(), request);
    if (!explanation)
      return explanation.takeError().withContext(printablePath(options.bundle));
    all["bundle"] = Json::parse(explain::toJson(*explanation));
    text += (text.empty() ? "" : "\n") +
            headText(read->manifest(), options.bundle) + "\n" +
            explain::toText(*explanation);
  }
  if (options.device != "cpu") {
    std::string gpus = rt::describeGpus();
    all["gpus"] = Json::array();
    std::istringstream lines(gpus);
    for (std::string line; std::getline(lines, line);)
      all["gpus"].push_back(line);
    text += (text.empty() ? "" : "\n") + gpus;
  }
  if (options.json)
    text = all.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
  std::fwrite(text.data(), 1, text.size(), stdout);
  if (std::fflush(stdout) != 0 || std::ferror(stdout))
    return Error("standard output could not be written");
  return Status::success();
}

} // namespace heddle::run
