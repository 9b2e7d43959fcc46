//===- Sampling.cpp - The sampler that a model runs with ------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Sampling.h"

#include <sstream>
#include <utility>

namespace heddle::run {

namespace {

using rt::TransferRule;

constexpr std::pair<std::string_view, TransferRule> algs[] = {
    {"origin", TransferRule::Origin},
    {"maskgit_plus", TransferRule::MaskgitPlus},
    {"topk_margin", TransferRule::TopkMargin},
    {"entropy", TransferRule::Entropy},
};

Result<TransferRule> ruleNamed(const std::string &name) {
  std::string all;
  for (const auto &[known, rule] : algs) {
    if (known == name)
      return rule;
    all += (all.empty() ? "" : ", ") + std::string(known);
  }
  return Error("'" + name + "' is none of " + all);
}

std::string text(double value) {
  std::ostringstream out;
  out << value;
  return out.str();
}

Status checkRange(const char *option, double value, double least, double most,
                  const char *expected) {
  if (value >= least && value <= most)
    return Status::success();
  return Error(std::string(option) + ": " + text(value) +
               " is out of range; expected " + expected);
}

/// Less would divide logits beyond fp32; what differs is then drawn as at 0.
/// More leaves nothing of the logits, and at last overflows.
Status checkTemperature(const char *option, double value) {
  return value == 0
             ? Status::success()
             : checkRange(option, value, 1e-6, 1e6, "0, or 1e-06 to 1e+06");
}

Status checkTimesteps(const rt::SampleOptions &sampling) {
  const rt::TimestepOptions &timesteps = *sampling.timesteps;
  if (Status status = checkTemperature("--temperature", sampling.temperature);
      !status)
    return status;
  if (Status status = checkTemperature("--alg-temp", timesteps.ruleTemperature);
      !status)
    return status;
  if (!(timesteps.eps > 0 && timesteps.eps < 1))
    return Error("--eps: " + text(timesteps.eps) +
                 " is out of range; expected a number between 0 and 1");
  if (timesteps.topK < 0)
    return Error("--top-k: " + std::to_string(timesteps.topK) +
                 " is out of range; expected at least 1, or 0 for all tokens");
  return checkRange("--top-p", timesteps.topP, 0, 1, "0 to 1");
}

} // namespace

std::string_view algName(TransferRule rule) {
  for (const auto &[name, known] : algs)
    if (known == rule)
      return name;
  return "?";
}

Result<rt::SampleOptions>
resolveSampling(const RunOptions &options, const rt::ModelConfig &config,
                const rt::GenerationConfig &defaults) {
  const bool byTimesteps = config.sampler == rt::SamplerFamily::Timesteps;
  const std::vector<std::string> &foreign =
      byTimesteps ? options.blockOptions : options.timestepOptions;
  if (!foreign.empty())
    return Error(foreign.front() + ": models of the architecture '" +
                 config.architecture +
                 (byTimesteps
                      ? "' are sampled by timesteps, which has no such option; "
                        "see --alg"
                      : "' are sampled in blocks, which has no such option; "
                        "see --remasking"));
  rt::SampleOptions sampling = options.sampling;
  if (!byTimesteps) {
    sampling.temperature = options.temperature.value_or(0);
    if (Status status = checkTemperature("--temperature", sampling.temperature);
        !status)
      return status.takeError();
    return sampling;
  }
  auto either = [](const auto &given, const auto &file, auto fallback) {
    return given ? *given : file ? *file : fallback;
  };
  rt::TimestepOptions timesteps;
  Result<TransferRule> rule =
      ruleNamed(either(options.alg, defaults.alg, std::string("origin")));
  if (!rule)
    return rule.takeError().withContext(
        options.alg ? "--alg" : "generation_config.json: field 'alg'");
  timesteps.rule = *rule;
  timesteps.eps = either(options.eps, defaults.eps, timesteps.eps);
  timesteps.topP = either(options.topP, defaults.topP, timesteps.topP);
  timesteps.topK = either(options.topK, defaults.topK, timesteps.topK);
  timesteps.ruleTemperature = either(options.algTemp, defaults.algTemp, 0.0);
  sampling.temperature = either(options.temperature, defaults.temperature, 0.0);
  sampling.timesteps = timesteps;
  if (Status status = checkTimesteps(sampling); !status)
    return status.takeError();
  return sampling;
}

} // namespace heddle::run
