//===- StepLog.cpp - A JSON line for every step ---------------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "StepLog.h"

#include <cerrno>
#include <cstring>

#include <nlohmann/json.hpp>

namespace heddle::run {

using Json = nlohmann::ordered_json;

Result<StepLog> StepLog::open(const std::string &path) {
  std::FILE *file = path == "-" ? stdout : std::fopen(path.c_str(), "w");
  if (!file)
    return Error(path +
                 ": could not be opened for writing: " + std::strerror(errno));
  return StepLog(path, file);
}

void StepLog::step(const rt::StepRecord &record) {
  Json commits = Json::array();
  for (const rt::Commit &commit : record.commits)
    commits.push_back({{"sequence", commit.sequence},
                       {"position", commit.position},
                       {"token", commit.token},
                       {"confidence", commit.confidence}});
  write(Json{{"step", record.step},
             {"block", record.block},
             {"rows", record.rowsComputed},
             {"logit_rows", record.logitRows},
             {"pairs", record.counters.pairs},
             {"dense_pairs", record.counters.densePairs},
             {"score_pairs", record.counters.scorePairs},
             {"refreshes", record.counters.refreshes},
             {"seconds", record.seconds},
             {"commits", std::move(commits)}}
            .dump());
}

Status StepLog::finish(const rt::Generation &generation) {
  write(Json{{"done", true},
             {"complete", generation.complete},
             {"sequences", generation.sequences}}
            .dump());
  if (std::fflush(file.get()) != 0 || std::ferror(file.get()))
    return Error((path == "-" ? "standard output" : path) +
                 ": could not be written: " + std::strerror(errno));
  return Status::success();
}

void StepLog::write(const std::string &line) {
  std::fwrite(line.data(), 1, line.size(), file.get());
  std::fputc('\n', file.get());
  // Readers may follow along.
  std::fflush(file.get());
}

} // namespace heddle::run
