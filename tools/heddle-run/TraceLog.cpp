//===- TraceLog.cpp - What every step computed ----------------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "TraceLog.h"

#include <algorithm>

#include <nlohmann/json.hpp>

namespace heddle::run {

namespace {

using Json = nlohmann::ordered_json;
using Rows = std::vector<int32_t>;

/// null for all positions of the sequence.
Json rowsJson(const Rows &rows, int64_t length) {
  return static_cast<int64_t>(rows.size()) == length ? Json() : Json(rows);
}

int64_t size(const Rows &rows) { return static_cast<int64_t>(rows.size()); }

/// How many of the rows are keys; both ascend.
int64_t sizeVisible(const Rows &rows, const Rows &visible) {
  return std::ranges::count_if(rows, [&](int32_t row) {
    return std::ranges::binary_search(visible, row);
  });
}

/// The lists of a selection for one head: keys as positions in the sequence,
/// blocks by number; those of the response apart if spans are isolated.
void addLists(Json &entry, const bundle::Selection &selection,
              const rt::SequenceTrace &trace,
              const rt::SequenceTrace::Refreshed &refreshed,
              int64_t promptLength) {
  Json lists = Json::array(), response = Json::array();
  if (selection.kind == bundle::Selection::Kind::Columns) {
    for (Rows list : refreshed.lists) {
      for (int32_t &place : list)
        place = trace.visible[place];
      lists.push_back(std::move(list));
    }
  } else {
    bool isolates = selection.isolation == bundle::Selection::Isolation::Spans;
    int64_t places = std::lower_bound(trace.visible.begin(),
                                      trace.visible.end(), promptLength) -
                     trace.visible.begin();
    int64_t blocks = (places + selection.group - 1) / selection.group;
    for (const Rows &list : refreshed.lists) {
      Rows first, second;
      for (int32_t block : list) {
        if (block < 0)
          continue; // fewer than could be
        if (isolates && block >= blocks)
          second.push_back(static_cast<int32_t>(block - blocks));
        else
          first.push_back(block);
      }
      lists.push_back(std::move(first));
      response.push_back(std::move(second));
    }
    entry["kind"] = "blocks";
    if (isolates) {
      entry["response"] = std::move(response);
      entry["split"] = promptLength;
    }
  }
  entry["lists"] = std::move(lists);
}

} // namespace

void TraceLog::step(const rt::StepRecord &record) {
  for (const rt::SequenceTrace &trace : record.traces) {
    const int64_t n = trace.length;
    int64_t rows = 0, pairs = 0, ffnRows = 0, written = 0, read = 0;
    Json layers = Json::array();
    for (const rt::LayerTrace &layer : trace.layers) {
      Json entry{{"queries", rowsJson(layer.queryRows, n)},
                 {"keys_values", rowsJson(layer.keyRows, n)},
                 {"ffn", rowsJson(layer.ffnRows, n)},
                 {"pairs", layer.pairs}};
      if (layer.valueRows != layer.keyRows)
        entry["values"] = rowsJson(layer.valueRows, n);
      if (layer.exactRows != layer.queryRows)
        entry["exact"] = rowsJson(layer.exactRows, n);
      layers.push_back(std::move(entry));
      rows += size(layer.queryRows);
      pairs += layer.pairs;
      ffnRows += size(layer.ffnRows);
      written += kvBytes * (size(layer.keyRows) + size(layer.valueRows));
      read += kvBytes * (2 * (size(trace.visible) - layer.unreadKeys) -
                         sizeVisible(layer.keyRows, trace.visible) -
                         sizeVisible(layer.valueRows, trace.visible));
    }
    Json refreshed = Json::array();
    for (const rt::SequenceTrace::Refreshed &each : trace.refreshed) {
      const bundle::Selection &selection = selections[each.selection];
      // Shared lists count for every query head that reads them.
      const int64_t sharing = selection.headsPerList(queryHeads, kvHeads);
      for (int64_t head = each.head * sharing; head < (each.head + 1) * sharing;
           ++head) {
        Json entry{{"layer", each.layer}, {"head", head}, {"kind", "columns"}};
        addLists(entry, selection, trace, each, promptLengths[trace.sequence]);
        refreshed.push_back(std::move(entry));
      }
    }
    Json committed = Json::array();
    for (const rt::Commit &commit : record.commits)
      if (commit.sequence == trace.sequence && commit.step == trace.step)
        committed.push_back({commit.position, commit.token, commit.confidence});
    Json line{{"sequence", trace.sequence},
              {"step", trace.step},
              {"n", n},
              {"layers", std::move(layers)},
              {"visible", rowsJson(trace.visible, n)},
              {"refreshed", std::move(refreshed)},
              {"logits", rowsJson(trace.logits, n)},
              {"committed", std::move(committed)},
              {"rows", rows},
              {"pairs", pairs},
              {"ffn_rows", ffnRows},
              {"kv_written", written},
              {"kv_read", read}};
    if (!record.verified.empty())
      line["pass"] = record.step;
    file.write(line.dump());
  }
}

} // namespace heddle::run
