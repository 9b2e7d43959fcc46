//===- RunRecord.cpp - A run to look at -----------------------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "RunRecord.h"

#include "bundle/format/File.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include <nlohmann/json.hpp>

namespace heddle::run {

namespace {

using Json = nlohmann::ordered_json;

constexpr int64_t mostBins = 128;
constexpr int64_t mostTexts = 4096; ///< tokens whose text is written

/// A share of attention mass in 8 bits: 0 is 1e-5 or less, 255 is 1.
uint8_t massCode(float share) {
  return share <= 1e-5F
             ? 0
             : static_cast<uint8_t>(std::clamp(
                   std::lround(51 * (std::log10(share) + 5)), 0L, 255L));
}

/// A share in 8 bits; only 0 is 0.
uint8_t shareCode(double share) {
  return share <= 0 ? 0
                    : static_cast<uint8_t>(
                          std::clamp(std::lround(255 * share), 1L, 255L));
}

/// Tensors of a safetensors file, one behind the other.
class Tensors {
public:
  template <typename T>
  void add(const char *name, const char *dtype, std::vector<int64_t> shape,
           const std::vector<T> &values) {
    const size_t begin = data.size();
    data.resize(begin + values.size() * sizeof(T));
    if (!values.empty())
      std::memcpy(data.data() + begin, values.data(),
                  values.size() * sizeof(T));
    header[name] = {{"dtype", dtype},
                    {"shape", shape},
                    {"data_offsets", {begin, data.size()}}};
  }

  Json header = Json::object();
  std::string data;
};

} // namespace

/// The number of these positions' shares of the bins.
int32_t RunRecord::shareOf(const std::vector<int32_t> &positions, int64_t n) {
  const int64_t bins = std::min(mostBins, n);
  std::vector<int64_t> inBin(static_cast<size_t>(bins));
  for (int32_t position : positions)
    ++inBin[position * bins / n];
  std::vector<uint8_t> codes;
  for (int64_t bin = 0; bin < bins; ++bin) {
    // Positions p with p * bins / n == bin.
    const int64_t first = (bin * n + bins - 1) / bins;
    const int64_t end = ((bin + 1) * n + bins - 1) / bins;
    codes.push_back(shareCode(static_cast<double>(inBin[bin]) /
                              static_cast<double>(end - first)));
  }
  auto [found, added] =
      shareNumber.try_emplace(codes, static_cast<int32_t>(shareNumber.size()));
  if (added)
    shares.insert(shares.end(), codes.begin(), codes.end());
  return found->second;
}

void RunRecord::step(const rt::StepRecord &record) {
  // None once the sequence is done.
  std::vector<const rt::SequenceTrace *> made;
  for (const rt::SequenceTrace &trace : record.traces)
    if (trace.sequence == 0)
      made.push_back(&trace);
  if (made.empty())
    return;
  for (const rt::Commit &commit : record.commits)
    if (commit.sequence == 0) {
      commits.insert(commits.end(), {static_cast<int32_t>(commit.step),
                                     static_cast<int32_t>(commit.position),
                                     commit.revoked ? -1 : commit.token});
      confidences.push_back(static_cast<float>(commit.confidence));
    }
  int64_t copies = 1;
  for (const rt::Verified &verified : record.verified)
    if (verified.sequence == 0)
      copies = verified.copies;
  for (const rt::SequenceTrace *trace : made) {
    passes.insert(passes.end(), {static_cast<int32_t>(record.step),
                                 static_cast<int32_t>(copies)});
    seconds.push_back(
        static_cast<float>(record.seconds / static_cast<double>(made.size())));
    addStep(*trace);
  }
  addMaps(record, made.front()->step);
}

void RunRecord::addStep(const rt::SequenceTrace &trace) {
  length = trace.length;
  const int32_t none = shareOf({}, length);
  const size_t first = queries.size();
  visible.push_back(shareOf(trace.visible, length));
  queries.resize(first + config.layers, none);
  exact.resize(first + config.layers, none);
  counts.resize(3 * queries.size());
  for (const rt::LayerTrace &layer : trace.layers) {
    const size_t at = first + layer.layer;
    queries[at] = shareOf(layer.queryRows, length);
    exact[at] = shareOf(layer.exactRows, length);
    counts[3 * at] = static_cast<int32_t>(layer.queryRows.size());
    counts[3 * at + 1] = static_cast<int32_t>(layer.exactRows.size());
    counts[3 * at + 2] = static_cast<int32_t>(layer.ffnRows.size());
  }
  addDrift(trace);
}

/// Of a pass, whose first copy of the sequence makes `step`.
void RunRecord::addMaps(const rt::StepRecord &record, int64_t step) {
  if (record.maps.empty())
    return;
  const size_t map = mapSteps.size();
  mapSteps.push_back(static_cast<int32_t>(step));
  cells = record.maps.front().cells;
  const int64_t heads = config.queryHeads, square = cells * cells;
  mapRows.resize((map + 1) * config.layers * cells);
  mass.resize((map + 1) * config.layers * heads * square);
  kept.resize(mass.size());
  recall.resize((map + 1) * config.layers * heads);
  for (const rt::AttentionMap &each : record.maps) {
    const int64_t at = static_cast<int64_t>(map) * config.layers + each.layer;
    std::copy(each.rows.begin(), each.rows.end(), mapRows.begin() + at * cells);
    std::transform(each.mass.begin(), each.mass.end(),
                   mass.begin() + at * heads * square, massCode);
    std::transform(each.kept.begin(), each.kept.end(),
                   kept.begin() + at * heads * square, shareCode);
    std::copy(each.recall.begin(), each.recall.end(),
              recall.begin() + at * heads);
  }
}

/// How much of each list was in the one before.
void RunRecord::addDrift(const rt::SequenceTrace &trace) {
  for (const rt::SequenceTrace::Refreshed &each : trace.refreshed) {
    std::vector<std::vector<int32_t>> lists = each.lists;
    // Keys as positions: places change with what is visible.
    const bool columns = about.selections[each.selection].kind ==
                         bundle::Selection::Kind::Columns;
    for (std::vector<int32_t> &list : lists) {
      if (columns)
        for (int32_t &place : list)
          place = trace.visible[place];
      std::sort(list.begin(), list.end());
    }
    std::vector<std::vector<int32_t>> &last =
        before[{each.layer, each.head, each.selection}];
    double same = 0, entries = 0;
    for (size_t group = 0; group < std::min(lists.size(), last.size());
         ++group) {
      std::vector<int32_t> both;
      std::set_intersection(lists[group].begin(), lists[group].end(),
                            last[group].begin(), last[group].end(),
                            std::back_inserter(both));
      same += static_cast<double>(both.size());
      entries += static_cast<double>(lists[group].size());
    }
    driftAt.insert(driftAt.end(), {static_cast<int32_t>(seconds.size()),
                                   static_cast<int32_t>(each.layer),
                                   static_cast<int32_t>(each.head),
                                   static_cast<int32_t>(each.selection)});
    drift.push_back(entries > 0 ? static_cast<float>(same / entries) : -1);
    last = std::move(lists);
  }
}

Status RunRecord::finish(const std::string &path,
                         const rt::Generation &generation) {
  const auto steps = std::ssize(seconds);
  const auto maps = std::ssize(mapSteps);
  const int64_t layers = config.layers, heads = config.queryHeads;
  const int64_t bins = std::min(mostBins, std::max<int64_t>(1, length));
  Json selections = Json::array();
  for (const bundle::Selection &each : about.selections) {
    selections.push_back(
        {{"name", each.name},
         {"kind",
          each.kind == bundle::Selection::Kind::Columns ? "columns" : "blocks"},
         {"group", each.group},
         {"keep", bundle::keepText(each)},
         {"per_kv_head", each.perKvHead},
         {"per_layer", each.perLayer}});
    if (each.within >= 0)
      selections.back()["within"] =
          about.selections[static_cast<size_t>(each.within)].name;
  }
  Json texts = Json::array();
  if (!generation.sequences.empty() && about.text) {
    const std::vector<int32_t> &all = generation.sequences.front();
    // The response, and as much of the prompt's end as there is room for.
    const auto size = static_cast<int64_t>(all.size());
    const int64_t from =
        std::max<int64_t>(0, std::min(about.promptLength, size - mostTexts));
    for (int64_t i = from; i < std::min(size, from + mostTexts); ++i)
      texts.push_back(about.text(all[i]));
  }
  Json run{{"schedule", about.schedule},
           {"source", about.source},
           {"model", about.model},
           {"device", about.device},
           {"dtype", about.dtype},
           {"date", about.date},
           {"producer", "heddle-run " HEDDLE_VERSION},
           {"complete", generation.complete},
           {"length", length},
           {"prompt", about.promptLength},
           {"planned_steps", about.lengths.steps},
           {"block_length", about.lengths.blockLength},
           {"seed", about.lengths.sampling.seed},
           {"layers", layers},
           {"heads", heads},
           {"kv_heads", config.kvHeads},
           {"head_dim", config.headDim},
           {"rows_per_cell", about.lengths.maps.rowsPerCell},
           {"selections", selections},
           {"texts", texts}};
  Tensors file;
  file.header["__metadata__"] = {
      {"format", "heddle-run record 2"},
      {"run", run.dump(-1, ' ', false, Json::error_handler_t::replace)}};
  // Four-byte elements first: all are aligned.
  file.add("commits", "I32", {std::ssize(confidences), 3}, commits);
  file.add("confidences", "F32", {std::ssize(confidences)}, confidences);
  file.add("passes", "I32", {steps, 2}, passes);
  file.add("seconds", "F32", {steps}, seconds);
  file.add("visible", "I32", {steps}, visible);
  file.add("queries", "I32", {steps, layers}, queries);
  file.add("exact", "I32", {steps, layers}, exact);
  file.add("counts", "I32", {steps, layers, 3}, counts);
  file.add("drift.at", "I32", {std::ssize(drift), 4}, driftAt);
  file.add("drift", "F32", {std::ssize(drift)}, drift);
  file.add("maps.steps", "I32", {maps}, mapSteps);
  file.add("maps.recall", "F32", {maps, layers, heads}, recall);
  file.add("shares", "U8", {std::ssize(shareNumber), bins}, shares);
  file.add("maps.rows", "U8", {maps, layers, cells}, mapRows);
  file.add("maps.mass", "U8", {maps, layers, heads, cells, cells}, mass);
  file.add("maps.kept", "U8", {maps, layers, heads, cells, cells}, kept);

  std::string header = file.header.dump();
  header.resize((header.size() + 7) / 8 * 8, ' ');
  uint64_t size = header.size();
  std::string bytes(reinterpret_cast<const char *>(&size), sizeof(size));
  bytes += header;
  bytes += file.data;
  if (Status status = bundle::writeFileAtomically(path, bytes); !status)
    return status.takeError().withContext("--record");
  return Status::success();
}

} // namespace heddle::run
