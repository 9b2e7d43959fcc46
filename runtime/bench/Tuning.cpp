//===- Tuning.cpp - The fastest of several tilings ------------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/bench/Tuning.h"

#include "bundle/format/File.h"
#include "bundle/format/StrictJson.h"
#include "bundle/format/Tilings.h"
#include "bundle/program/Printable.h"
#include "runtime/bench/CudaBench.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>

using namespace heddle;
using namespace heddle::bench;
using Json = nlohmann::ordered_json;

/// The tilings of a table for heddlec --tuning.
static Result<Json> readTable(const std::string &path) {
  Result<std::string> text =
      bundle::readRegularFile(path, 0, [](std::string_view, uint64_t size) {
        return bundle::checkTilingsSize(size);
      });
  if (!text)
    return text.takeError();
  if (std::string problem = bundle::jsonProblem(*text, /*maxDepth=*/64);
      !problem.empty())
    return fileError(path, "a table of tilings: " + problem);
  Json table = Json::parse(*text, nullptr, /*allow_exceptions=*/false);
  if (!table.is_object() || !table.contains("wgmma") ||
      !table["wgmma"].is_array() ||
      !std::ranges::all_of(table["wgmma"],
                           [](const Json &each) { return each.is_object(); }))
    return fileError(path, "expected a table of tilings, an object with a list "
                           "'wgmma' of objects, as heddlec --tuning takes it");
  return table;
}

Result<std::vector<Candidate>>
heddle::bench::readCandidates(const std::vector<std::string> &bundles) {
  std::vector<Candidate> result;
  size_t baselines = 0;
  for (const std::string &bundle : bundles) {
    const std::filesystem::path path(bundle);
    std::filesystem::path beside = path;
    beside.replace_extension(".json");
    Result<Json> table = readTable(beside.string());
    if (!table)
      return table.takeError().withContext(
          "the table that " + printablePath(bundle) +
          " was compiled with is to stand beside it");
    const Json &tilings = (*table)["wgmma"];
    if (tilings.size() > 1)
      return Error(printablePath(beside.string()) + " has " +
                   std::to_string(tilings.size()) +
                   " tilings; a candidate is compiled with one, the baseline "
                   "with none");
    baselines += tilings.empty();
    result.push_back({bundle, printablePath(path.stem().string()),
                      tilings.empty() ? "" : tilings.front().dump()});
  }
  if (baselines != 1 || result.size() < 2)
    return Error("of " + std::to_string(result.size()) + " bundles " +
                 std::to_string(baselines) +
                 " have a table without tilings; give one such, the baseline, "
                 "and a bundle for each candidate");
  return result;
}

static TuneRow rowOf(size_t candidate, int64_t length, bool finalist,
                     std::vector<double> rates) {
  const auto [median, least, most] = timesOf(std::move(rates));
  return {candidate, length, median, least, most, finalist};
}

Result<TuneResult>
heddle::bench::chooseTiling(const std::vector<Candidate> &candidates,
                            const std::vector<int64_t> &lengths,
                            const TuneRequest &request,
                            const Measure &measure) {
  TuneResult result;
  std::vector<double> first(candidates.size());
  std::vector<size_t> order;
  size_t baseline = 0;
  for (size_t i = 0; i < candidates.size(); ++i) {
    Result<double> rate = measure(i, lengths.front(), /*last=*/true);
    if (!rate)
      return rate.takeError();
    first[i] = *rate;
    if (candidates[i].tiling.empty())
      baseline = i;
    else
      order.push_back(i);
    result.rows.push_back(rowOf(i, lengths.front(), false, {*rate}));
  }
  std::ranges::stable_sort(
      order, [&](size_t x, size_t y) { return first[x] > first[y]; });
  order.resize(std::min(order.size(), static_cast<size_t>(request.finalists)));
  order.push_back(baseline);

  std::vector<double> logarithms(order.size(), 0.0);
  std::vector<bool> faster(order.size(), true);
  for (int64_t length : lengths) {
    std::vector<std::vector<double>> rates(order.size());
    for (int round = 0; round < request.rounds; ++round)
      for (size_t i = 0; i < order.size(); ++i) {
        const size_t at = round % 2 ? order.size() - 1 - i : i;
        Result<double> rate =
            measure(order[at], length, round + 1 == request.rounds);
        if (!rate)
          return rate.takeError();
        rates[at].push_back(*rate);
      }
    std::vector<double> medians;
    for (size_t i = 0; i < order.size(); ++i) {
      result.rows.push_back(rowOf(order[i], length, true, rates[i]));
      medians.push_back(result.rows.back().median);
    }
    for (size_t i = 0; i < order.size(); ++i) {
      logarithms[i] += std::log(medians[i]);
      faster[i] = faster[i] && medians[i] > medians.back();
    }
  }
  std::optional<size_t> best;
  for (size_t i = 0; i + 1 < order.size(); ++i)
    if (faster[i] && (!best || logarithms[i] > logarithms[*best]))
      best = i;
  if (best)
    result.best = order[*best];
  return result;
}

/// The table to add to: empty where no file is.
static Result<Json> openTable(const std::string &path) {
  std::error_code missing;
  if (std::filesystem::exists(path, missing) || missing)
    return readTable(path);
  return Json{{"wgmma", Json::array()}};
}

Status heddle::bench::checkTable(const std::string &path) {
  if (Result<Json> table = openTable(path); !table)
    return table.takeError();
  return bundle::checkWritable(path);
}

/// An entry as heddlec reads it, for each element; none where it refuses it.
static std::vector<bundle::TilingRule> rulesOf(const Json &entry) {
  Result<std::vector<bundle::TilingRule>> rules =
      bundle::tilingsFromJson(Json{{"wgmma", Json::array({entry})}}.dump());
  return rules ? *rules : std::vector<bundle::TilingRule>();
}

/// Whether no kernel is left for a rule behind one of `added`.
static bool hasNone(const bundle::TilingRule &rule,
                    const std::vector<bundle::TilingRule> &added) {
  return std::ranges::any_of(added, [&](const bundle::TilingRule &other) {
    return (!other.checkSums || rule.checkSums) &&
           bundle::takesAllOf(other, rule);
  });
}

Status heddle::bench::addToTable(const std::string &path,
                                 const std::string &tiling) {
  Result<Json> table = openTable(path);
  if (!table)
    return table.takeError();
  const Json entry = Json::parse(tiling);
  Json &tilings = (*table)["wgmma"];
  // An entry behind it that has no kernel left goes: with `check_sums` it would
  // have heddlec refuse the table.
  const std::vector<bundle::TilingRule> added = rulesOf(entry);
  std::erase_if(*tilings.get_ptr<Json::array_t *>(), [&](const Json &each) {
    const std::vector<bundle::TilingRule> rules = rulesOf(each);
    return each == entry ||
           (!rules.empty() &&
            std::ranges::all_of(rules, [&](const bundle::TilingRule &rule) {
              return hasNone(rule, added);
            }));
  });
  tilings.insert(tilings.begin(), entry);
  return bundle::writeFileAtomically(path, table->dump(1) + "\n");
}

std::string heddle::bench::toTable(const std::vector<Candidate> &candidates,
                                   const TuneResult &result) {
  size_t width = 20;
  for (const Candidate &each : candidates)
    width = std::max(width, each.name.size());
  char line[256];
  auto format = [&](const char *name, const std::string &rest) {
    std::snprintf(line, sizeof(line), "%-*.200s%s\n", int(width), name,
                  rest.c_str());
    return std::string(line);
  };
  auto baselineAt = [&](const TuneRow &row) {
    for (const TuneRow &other : result.rows)
      if (other.length == row.length && other.finalist == row.finalist &&
          candidates[other.candidate].tiling.empty())
        return other.median;
    return row.median;
  };
  char rest[96];
  std::snprintf(rest, sizeof(rest), "%9s%10s%12s%19s", "n", "TFLOP/s",
                "/ baseline", "least - most");
  std::string table = format("", rest);
  for (const TuneRow &row : result.rows) {
    std::snprintf(rest, sizeof(rest), "%9lld%10.1f%12.3f",
                  static_cast<long long>(row.length), row.median,
                  row.median / baselineAt(row));
    std::string text = rest;
    if (row.finalist) {
      std::snprintf(rest, sizeof(rest), "%10.1f -%7.1f", row.least, row.most);
      text += rest;
    }
    table += format(candidates[row.candidate].name.c_str(), text);
  }
  return table;
}

std::string heddle::bench::toJson(const std::vector<Candidate> &candidates,
                                  const TuneResult &result,
                                  const std::string &device) {
  Json json{{"device", device}, {"benchmarks", Json::array()}};
  for (const TuneRow &row : result.rows)
    json["benchmarks"].push_back({{"bundle", candidates[row.candidate].name},
                                  {"length", row.length},
                                  {"finalist", row.finalist},
                                  {"tflops", row.median},
                                  {"least_tflops", row.least},
                                  {"most_tflops", row.most}});
  json["chosen"] =
      result.best ? Json(candidates[*result.best].name) : Json(nullptr);
  return json.dump(2) + "\n";
}
