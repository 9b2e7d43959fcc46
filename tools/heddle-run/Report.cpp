//===- Report.cpp - What a run says at its end ----------------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Report.h"

#include "Progress.h"
#include "Sampling.h"
#include "runtime/base/Machine.h"
#include "tools/explain/CostJson.h"
#include "tools/explain/RunCost.h"

#include <algorithm>
#include <cstdio>

#include <nlohmann/json.hpp>

namespace heddle::run {

namespace {

using Json = nlohmann::ordered_json;
using explain::counted;

std::string number(double value, int digits) {
  char text[64];
  std::snprintf(text, sizeof(text), "%.*f", digits, value);
  return text;
}

/// "6.9 ms", "0.52 s", "75.31 s".
std::string seconds(double value) {
  return value < 0.1 ? number(1000 * value, 1) + " ms"
                     : number(value, 2) + " s";
}

std::string dump(const Json &value) {
  // Paths need not be UTF-8.
  return value.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::span<const int32_t> responseOf(const RunResult &result, size_t s) {
  return std::span(result.generation.sequences[s])
      .subspan(result.promptLengths[s]);
}

/// True if a whole run printed nothing, which looks like a failure.
bool saysNothing(const RunResult &result) {
  if (!result.generation.complete)
    return false;
  for (size_t s = 0; s < result.promptLengths.size(); ++s)
    if (!cutAtEnd(responseOf(result, s), result.rules).empty())
      return false;
  return true;
}

Json sequenceJson(const RunResult &result, size_t s) {
  std::span<const int32_t> response = responseOf(result, s);
  std::span<const int32_t> prompt =
      std::span(result.generation.sequences[s]).first(result.promptLengths[s]);
  Json json{{"prompt_ids", std::vector<int32_t>(prompt.begin(), prompt.end())},
            {"ids", std::vector<int32_t>(response.begin(), response.end())},
            {"ids_before_end", cutAtEnd(response, result.rules).size()}};
  if (result.rules.tokenizer)
    json["text"] = responseText(response, result.rules);
  return json;
}

Json optionsJson(const RunResult &result) {
  const rt::SampleOptions &sampling = result.lengths.sampling;
  Json json{{"gen_length", result.lengths.genLength},
            {"steps", result.lengths.steps},
            {"block_length", result.lengths.blockLength},
            {"temperature", sampling.temperature},
            {"seed", sampling.seed}};
  if (!result.lengths.commitOrder.empty())
    json["commit_order"] = result.lengths.commitOrder;
  if (const auto &timesteps = sampling.timesteps) {
    json["alg"] = algName(timesteps->rule);
    json["alg_temp"] = timesteps->ruleTemperature;
    json["eps"] = timesteps->eps;
    json["top_p"] = timesteps->topP;
    json["top_k"] = timesteps->topK;
  } else {
    json["cfg_scale"] = sampling.cfgScale;
    json["remasking"] = sampling.remasking == rt::Remasking::LowConfidence
                            ? "low_confidence"
                            : "random";
    json["logits_eos_inf"] = sampling.logitsEosInf;
    json["confidence_eos_eot_inf"] = sampling.confidenceEosEotInf;
  }
  json["device"] = result.options->device;
  json["dtype"] = rt::name(result.dtype);
  if (result.weights)
    json["weights_dtype"] = rt::name(*result.weights);
  json["threads"] = result.threads;
  return json;
}

/// Under the names of --explain=json: the steps that were done, and all steps
/// of a dense run of the same lengths.
Json costJson(const RunResult &result) {
  return {{"steps", result.totals.steps},
          {"dense_steps", result.lengths.steps},
          {"work", workJson(result.shape, result.cost.work)},
          {"dense_work", workJson(result.shape, result.dense.work)},
          {"bytes", explain::sumOf(result.cost.bytes)},
          {"dense_bytes", explain::sumOf(result.dense.bytes)},
          {"parts", partsJson(result.shape, result.cost)},
          {"dense_parts", partsJson(result.shape, result.dense)}};
}

/// What a whole run cost beside a dense one, and what it lacked.
std::string costReport(const RunResult &result) {
  std::string text = explain::shareText(result.shape, result.cost, result.dense,
                                        explain::Certainty::Exact) +
                     "\n";
  if (result.selects && result.totals.attention.refreshes == 0)
    text += "no selection was made: no step of this run is in the cadence of "
            "one\n";
  const rt::StepCounters &pairs = result.totals.attention;
  if (!result.isDense && pairs.pairs >= pairs.densePairs)
    text += result.totals.steps < result.lengths.steps
                ? "what was saved is steps, " +
                      std::to_string(result.totals.steps) + " in place of " +
                      std::to_string(result.lengths.steps) +
                      ": each computed all rows and pairs\n"
                : "no step was sparse: each computed all rows and pairs\n";
  return text;
}

} // namespace

Comparison compareResponses(const rt::Generation &run,
                            const rt::Generation &dense,
                            const std::vector<int64_t> &promptLengths) {
  Comparison comparison;
  for (size_t s = 0; s < promptLengths.size(); ++s) {
    int64_t size = static_cast<int64_t>(run.sequences[s].size());
    for (int64_t i = promptLengths[s]; i < size; ++i) {
      ++comparison.tokens;
      if (run.sequences[s][i] == dense.sequences[s][i])
        continue;
      ++comparison.differing;
      int64_t position = i - promptLengths[s];
      if (comparison.firstPosition < 0 || position < comparison.firstPosition) {
        comparison.firstPosition = position;
        comparison.firstSequence = static_cast<int64_t>(s);
      }
    }
  }
  return comparison;
}

std::string textReport(const RunResult &result) {
  std::string report;
  size_t count = result.promptLengths.size();
  for (size_t s = 0; s < count; ++s) {
    if (count > 1)
      report += "--- " + std::to_string(s + 1) + " of " +
                std::to_string(count) + "\n";
    report += responseText(responseOf(result, s), result.rules);
    report += "\n";
  }
  return report;
}

std::string jsonReport(const RunResult &result) {
  const Totals &totals = result.totals;
  Json json{{"complete", result.generation.complete},
            {"steps_done", result.generation.stepsDone},
            {"model", result.options->model},
            {"bundle", result.options->bundle},
            {"schedule", result.schedule},
            {"machine", result.device},
            {"options", optionsJson(result)}};
  json["results"] = Json::array();
  for (size_t s = 0; s < result.promptLengths.size(); ++s)
    json["results"].push_back(sequenceJson(result, s));
  json["timing"] = {{"load_seconds", result.loadSeconds},
                    {"first_step_seconds", result.firstStepSeconds},
                    {"generate_seconds", totals.seconds},
                    {"tokens_per_second", totals.tokensPerSecond()}};
  json["memory"] = {{"weight_bytes", result.memory.weights},
                    {"run_bytes", result.memory.run},
                    {"index_layout_bytes", result.memory.indexLayouts}};
  // What both runs compute stands in "cost" alone.
  json["counters"] = {
      {"tokens", totals.tokens},
      {"rows", totals.rows},
      {"refreshes", totals.attention.refreshes},
      {"cache_bytes_written", totals.attention.cacheBytesWritten},
      {"cache_bytes_read", totals.attention.cacheBytesRead}};
  if (totals.verified.copies > 0)
    json["counters"]["verified"] = {{"copies", totals.verified.copies},
                                    {"steps", totals.verified.steps}};
  json["cost"] = costJson(result);
  if (const auto &comparison = result.comparison) {
    Json entry{{"bundle", comparison->bundle},
               {"tokens", comparison->tokens},
               {"differing", comparison->differing},
               {"seconds", comparison->seconds}};
    if (totals.seconds > 0)
      entry["times_as_fast"] = comparison->seconds / totals.seconds;
    if (comparison->differing > 0)
      entry["first"] = {{"sequence", comparison->firstSequence},
                        {"position", comparison->firstPosition}};
    json["compare_dense"] = std::move(entry);
  } else if (!result.comparisonError.empty()) {
    json["compare_dense"] = {{"error", result.comparisonError}};
  }
  return dump(json);
}

std::string jsonFailure(const std::string &error) {
  return dump(Json{{"complete", false}, {"error", error}});
}

std::string summary(const RunResult &result) {
  const Totals &totals = result.totals;
  std::string text;
  if (!result.generation.complete)
    text += "interrupted after step " +
            std::to_string(result.generation.stepsDone) + " of " +
            std::to_string(result.lengths.steps) +
            ": the text is incomplete, " + maskSign +
            " marks masked positions\n";
  text += counted(totals.tokens, "token") + " in " + seconds(totals.seconds) +
          " (" + number(totals.tokensPerSecond(), 1) + " tok/s), " +
          counted(totals.steps, "step") + " of " + result.schedule;
  text += ", " + std::string(rt::name(result.dtype));
  if (result.onHost)
    text += ", " + counted(result.threads, "thread") + "\n";
  else
    text += ", " + result.device + "\nmemory: weights " +
            rt::formatBytes(result.memory.weights) + ", run " +
            rt::formatBytes(result.memory.run) +
            " at its peak (index layouts " +
            rt::formatBytes(result.memory.indexLayouts) + ")\n";
  if (const rt::Verified &all = totals.verified; all.copies > 0)
    text += "verified: " + counted(all.steps, "step") + " of " +
            counted(std::ssize(result.promptLengths), "sequence") +
            " made in " + std::to_string(totals.steps) +
            (totals.steps == 1 ? " forward pass, " : " forward passes, ") +
            number(static_cast<double>(all.copies) /
                       static_cast<double>(totals.steps),
                   1) +
            " copies a pass\n";
  if (result.generation.complete && result.dense.work.pairs > 0)
    text += costReport(result);
  if (saysNothing(result))
    text += "the text is empty: the first token ends it (--raw prints all)\n";
  if (const auto &comparison = result.comparison) {
    text += "against " + comparison->bundle + ": ";
    if (comparison->differing == 0)
      text +=
          "all " + std::to_string(comparison->tokens) + " tokens are the same";
    else
      text +=
          std::to_string(comparison->differing) + " of " +
          std::to_string(comparison->tokens) + " tokens differ (" +
          number(100.0 * static_cast<double>(comparison->differing) /
                     static_cast<double>(comparison->tokens),
                 1) +
          "%), first token " + std::to_string(comparison->firstPosition + 1) +
          (result.promptLengths.size() > 1
               ? " of response " + std::to_string(comparison->firstSequence + 1)
               : "");
    text += "; dense took " + seconds(comparison->seconds);
    if (totals.seconds > 0 && comparison->seconds > 0)
      text += ", so this run was " +
              number(comparison->seconds / totals.seconds, 2) +
              " times as fast";
    text += "\n";
  }
  return text;
}

} // namespace heddle::run
