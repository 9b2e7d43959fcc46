//===- RunLog.cpp - What a run did, step by step --------------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tools/explain/RunLog.h"

#include "bundle/format/StrictJson.h"
#include "bundle/program/Manifest.h"
#include "bundle/program/Printable.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <sstream>

using namespace heddle;
using namespace heddle::explain;

namespace {

using Json = nlohmann::json;

/// "a.jsonl: line 3 of the log".
std::string lineText(const std::string &name, int64_t number) {
  return (name.empty() ? "" : name + ": ") + "line " + std::to_string(number) +
         " of the log";
}

/// Numbers above all 64-bit ones are none, as those with a point are.
int64_t numberOf(const Json &object, const char *name, int64_t missing) {
  auto found = object.find(name);
  if (found == object.end() || !found->is_number_integer() ||
      (found->is_number_unsigned() && found->get<uint64_t>() > INT64_MAX))
    return missing;
  return found->get<int64_t>();
}

/// What a field says, at most a line's part of it; "none" if it is not there.
std::string foundIn(const Json &object, const char *name) {
  constexpr size_t most = 40;
  auto found = object.find(name);
  if (found == object.end())
    return "none";
  std::string text =
      printable(found->dump(-1, ' ', true, Json::error_handler_t::replace));
  if (text.size() > most)
    text.replace(most, std::string::npos, "...");
  return text;
}

bool isInt32(int64_t value) { return value >= 0 && value <= INT32_MAX; }

/// The list of this name; null if there is none.
const Json *listOf(const Json &object, const char *name) {
  auto found = object.find(name);
  return found != object.end() && found->is_array() ? &*found : nullptr;
}

/// Whether the line is of a batch, which may say so in any of these first.
bool isOfSeveral(const Json &line) {
  const Json *prompts = listOf(line, "prompt_lengths");
  if (prompts && prompts->size() > 1)
    return true;
  for (const char *name : {"commits", "verified", "predictions"})
    if (const Json *list = listOf(line, name))
      for (const Json &each : *list)
        if (each.is_object() && numberOf(each, "sequence", 0) > 0)
          return true;
  return false;
}

/// Whether a field is not there, true or false.
bool isTruth(const Json &object, const char *name) {
  auto found = object.find(name);
  return found == object.end() || found->is_boolean();
}

/// What of a line or a commit is of no kind that heddle-run writes, or "". What
/// is not read (RunLog.h) may be anything.
std::string wrongKind(const Json &line) {
  for (const char *name :
       {"commits", "predictions", "drawn", "similarity", "salient_rows"})
    if (line.contains(name) && !listOf(line, name))
      return "has \"" + std::string(name) + "\" " + foundIn(line, name) +
             ", which is no list";
  if (const Json *commits = listOf(line, "commits"))
    for (const Json &commit : *commits)
      for (const char *name : {"revoked", "edited"})
        if (commit.is_object() && !isTruth(commit, name))
          return "has a commit with \"" + std::string(name) + "\" " +
                 foundIn(commit, name) + ", which is neither true nor false";
  return "";
}

/// Takes a step's line; what is wrong with it, or "".
std::string readPass(const Json &line, rt::StepOutcome &made) {
  if (std::string wrong = wrongKind(line); !wrong.empty())
    return wrong;
  const Json *commits = listOf(line, "commits");
  if (!commits)
    return "has no commits";
  for (const Json &commit : *commits) {
    if (!commit.is_object() || numberOf(commit, "sequence", -1) != 0)
      return "commits tokens of no sequence";
    const int64_t position = numberOf(commit, "position", -1);
    const int64_t token = numberOf(commit, "token", -1);
    if (!isInt32(position) || !isInt32(token))
      return "commits at no position, or no token";
    made.commits.push_back(
        {.position = position,
         .token = static_cast<int32_t>(token),
         .revoked = commit.contains("revoked") && commit["revoked"] == true,
         .edited = commit.contains("edited") && commit["edited"] == true,
         .step = numberOf(commit, "step", 0)});
  }
  made.logitRows = numberOf(line, "logit_rows", -1);
  if (line.contains("verified")) {
    const Json &all = line["verified"];
    const bool one = all.is_array() && all.size() == 1 && all[0].is_object();
    const rt::Verified verified = {
        .copies = one ? numberOf(all[0], "copies", 0) : 0,
        .steps = one ? numberOf(all[0], "steps", 0) : 0};
    if (verified.steps < 1 || verified.steps > verified.copies ||
        verified.copies > 1 + bundle::maxDrafts || made.logitRows < 0)
      return "verifies no number of copies of the one sequence";
    made.verified = {verified};
  }
  if (const Json *predictions = listOf(line, "predictions"))
    for (const Json &each : *predictions) {
      const int64_t position =
          each.is_object() ? numberOf(each, "position", -1) : -1;
      if (!isInt32(position) || numberOf(each, "sequence", -1) != 0 ||
          !each.contains("confidence") || !each["confidence"].is_number())
        return "predicts at no position of the one sequence, or without a "
               "confidence";
      made.predictions.push_back(
          {0, position, each["confidence"].get<double>()});
    }
  if (const Json *drawn = listOf(line, "drawn")) {
    for (const Json &each : *drawn) {
      const Json *attention =
          each.is_object() ? listOf(each, "attention") : nullptr;
      if (!attention || numberOf(each, "sequence", -1) != 0 ||
          !std::ranges::all_of(*attention, [](const Json &one) {
            return one.is_number() && one.get<double>() >= 0;
          }))
        return "draws attention to no sequence that is the one, or what is no "
               "number from 0 on";
      made.drawn.push_back({0, attention->get<std::vector<double>>()});
    }
    if (made.drawn.size() > 1)
      return "says " + std::to_string(made.drawn.size()) +
             " times what attention the one sequence drew";
  }
  if (const Json *similarities = listOf(line, "similarity"))
    for (const Json &one : *similarities) {
      if (!one.is_number() && !one.is_null())
        return "has a similarity that is no number";
      made.counters.similarity.push_back(
          one.is_number() ? std::optional<double>(one.get<double>())
                          : std::nullopt);
    }
  made.rowsComputed = numberOf(line, "rows", -1);
  if (made.rowsComputed < 0)
    return "computes no number of rows";
  if (const Json *salient = listOf(line, "salient_rows"))
    for (const Json &rows : *salient) {
      if (!rows.is_number_integer() || !isInt32(rows.get<int64_t>()))
        return "has salient rows that are no number of rows";
      made.counters.salientRows.push_back(rows.get<int64_t>());
    }
  return "";
}

/// Takes the last line; what is wrong with it, or "".
std::string readEnd(const Json &line, RunLog &log) {
  const Json *prompts = listOf(line, "prompt_lengths");
  const bool one =
      prompts && prompts->size() == 1 && (*prompts)[0].is_number_integer();
  log.lengths = {.prompt = one ? (*prompts)[0].get<int64_t>() : 0,
                 .genLength = numberOf(line, "gen_length", 0),
                 .steps = numberOf(line, "steps", 0),
                 .blockLength = numberOf(line, "block_length", 0)};
  const std::pair<const char *, int64_t> all[] = {
      {"prompt_lengths", log.lengths.prompt},
      {"gen_length", log.lengths.genLength},
      {"steps", log.lengths.steps},
      {"block_length", log.lengths.blockLength}};
  for (auto [name, value] : all)
    if (value < 1 || value > INT32_MAX)
      return "ends the run without a number of \"" + std::string(name) + "\"";
  const Json *sequences = listOf(line, "sequences");
  const int64_t length = log.lengths.prompt + log.lengths.genLength;
  if (!sequences || sequences->size() != 1 || !(*sequences)[0].is_array() ||
      std::ssize((*sequences)[0]) != length)
    return "ends the run without its sequence of " + std::to_string(length) +
           " tokens";
  for (const Json &token : (*sequences)[0]) {
    if (!token.is_number_integer() || !isInt32(token.get<int64_t>()))
      return "ends the run with a token that is no number";
    log.tokens.push_back(static_cast<int32_t>(token.get<int64_t>()));
  }
  return "";
}

} // namespace

Error RunLog::unlike(size_t pass, const std::string &what) const {
  return Error(lineText(name, lines[pass]) + ", step " +
               std::to_string(pass + 1) + ", " + what +
               ": the log is of a run of another model (give the run's "
               "--model, or its --layers), with other lengths or another "
               "schedule, or was changed; give the log as heddle-run wrote it, "
               "and the run's schedule");
}

std::string RunLog::nameOfEnd() const { return lineText(name, lastLine); }

Error RunLog::badEnd(const std::string &what) const {
  return Error(nameOfEnd() + ", the last, " + what +
               ": the log was changed, or is of a run with another schedule; "
               "give the log as heddle-run wrote it, and the run's schedule");
}

Result<RunLog> explain::readRunLog(const std::string &text,
                                   const std::string &name) {
  RunLog log;
  log.name = name;
  std::istringstream lines(text);
  int64_t number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    if (line.find_first_not_of(" \t\r") == std::string::npos)
      continue;
    auto bad = [&](const std::string &what) {
      return Error(lineText(name, number) + " " + what +
                   ", expected what heddle-run --steps-json writes");
    };
    if (log.lastLine > 0)
      return Error(lineText(name, number) + " stands behind line " +
                   std::to_string(log.lastLine) +
                   ", which ends a run, expected the log of one run; give each "
                   "run a file of its own");
    if (std::string problem = bundle::jsonProblem(line, /*maxDepth=*/64);
        !problem.empty())
      return bad("is no good JSON: " + problem);
    const Json json = Json::parse(line, nullptr, false);
    if (!json.is_object())
      return bad("is no JSON object");
    if (isOfSeveral(json))
      return Error(lineText(name, number) +
                   " is of a run with several prompts, of which one can't be "
                   "followed alone; give heddle-run --steps-json one prompt");
    if (json.contains("done")) {
      if (json["done"] != true)
        return Error(lineText(name, number) + " has \"done\" " +
                     foundIn(json, "done") +
                     ", expected true, and in the last line alone");
      // What was not done can't be counted, and a part of a run is not to be
      // compared with a whole dense one.
      if (json.contains("complete") && json["complete"] == false)
        return Error(lineText(name, number) +
                     " says that the run was interrupted, after " +
                     std::to_string(log.passes.size()) + " of " +
                     std::to_string(numberOf(json, "steps", 0)) +
                     " steps; expected a run that came to its end, as only a "
                     "whole one compares with a dense run");
      if (std::string what = readEnd(json, log); !what.empty())
        return bad(what);
      if (!json.contains("complete") || json["complete"] != true)
        return bad("ends the run with \"complete\" " +
                   foundIn(json, "complete") + ", which is not true");
      log.lastLine = number;
      continue;
    }
    const int64_t pass = std::ssize(log.passes) + 1;
    if (listOf(json, "commits") && numberOf(json, "step", 0) != pass)
      return Error(lineText(name, number) + " is of step " +
                   foundIn(json, "step") + ", expected " +
                   std::to_string(pass) + ": each is there once, from 1 on");
    if (std::string what = readPass(json, log.passes.emplace_back());
        !what.empty())
      return bad(what);
    log.lines.push_back(number);
  }
  if (log.passes.empty())
    return Error((name.empty() ? "" : name + ": ") +
                 "the log has no step, expected what heddle-run --steps-json "
                 "writes");
  if (log.lastLine == 0)
    return Error(lineText(name, log.lines.back()) +
                 " is the last, expected another that says \"done\": the run "
                 "goes on or failed, or the log was cut off; give the log of a "
                 "run that came to its end");
  return log;
}
