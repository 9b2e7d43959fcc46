//===- StepLog.cpp - A JSON line for every step ---------------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "StepLog.h"

#include <nlohmann/json.hpp>

namespace heddle::run {

using Json = nlohmann::ordered_json;

void StepLog::step(const rt::StepRecord &record) {
  Json commits = Json::array();
  for (const rt::Commit &commit : record.commits) {
    commits.push_back({{"sequence", commit.sequence},
                       {"position", commit.position},
                       {"token", commit.token},
                       {"confidence", commit.confidence}});
    if (commit.revoked)
      commits.back()["revoked"] = true;
    if (commit.edited)
      commits.back()["edited"] = true;
    if (!record.verified.empty())
      commits.back()["step"] = commit.step;
  }
  Json similarity = Json::array();
  for (const std::optional<double> &each : record.counters.similarity)
    similarity.push_back(each ? Json(*each) : Json(nullptr));
  Json line{{"step", record.step},
            {"block", record.block},
            {"blocks", record.blocks},
            {"rows", record.rowsComputed},
            {"logit_rows", record.logitRows},
            {"pairs", record.counters.pairs},
            {"dense_pairs", record.counters.densePairs},
            {"score_pairs", record.counters.scorePairs},
            {"lse_pairs", record.counters.lsePairs},
            {"refreshes", record.counters.refreshes},
            {"query_rows", record.counters.queryRows},
            {"key_rows", record.counters.keyRows},
            {"value_rows", record.counters.valueRows},
            {"projected_rows", record.counters.projectedRows},
            {"ffn_rows", record.counters.ffnRows},
            {"salient_rows", record.counters.salientRows},
            {"similarity", std::move(similarity)},
            {"cache_bytes_written", record.counters.cacheBytesWritten},
            {"cache_bytes_read", record.counters.cacheBytesRead},
            {"seconds", record.seconds},
            {"commits", std::move(commits)}};
  if (!record.predictions.empty()) {
    Json &predictions = line["predictions"] = Json::array();
    for (const rt::Prediction &each : record.predictions)
      predictions.push_back({{"sequence", each.sequence},
                             {"position", each.position},
                             {"confidence", each.confidence}});
  }
  if (!record.drawn.empty()) {
    Json &drawn = line["drawn"] = Json::array();
    for (const rt::Drawn &each : record.drawn)
      drawn.push_back(
          {{"sequence", each.sequence}, {"attention", each.attention}});
  }
  if (!record.verified.empty()) {
    Json &verified = line["verified"] = Json::array();
    for (const rt::Verified &each : record.verified)
      verified.push_back({{"sequence", each.sequence},
                          {"copies", each.copies},
                          {"steps", each.steps}});
  }
  file.write(line.dump());
}

Status StepLog::finish(const rt::Generation &generation,
                       const std::vector<int64_t> &promptLengths,
                       const rt::GenerateOptions &lengths) {
  file.write(Json{{"done", true},
                  {"complete", generation.complete},
                  {"prompt_lengths", promptLengths},
                  {"gen_length", lengths.genLength},
                  {"steps", lengths.steps},
                  {"block_length", lengths.blockLength},
                  {"sequences", generation.sequences}}
                 .dump());
  return file.finish();
}

} // namespace heddle::run
