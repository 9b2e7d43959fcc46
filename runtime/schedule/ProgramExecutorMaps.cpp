//===- ProgramExecutorMaps.cpp - Pictures of a layer's attention ----------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Some query rows of each cell are scored against all visible keys, in fp32 and
// beside the run: at 65,536 positions and 64 cells 256 rows of a head, 2 GFLOP
// at a head dim of 64.
//
//===----------------------------------------------------------------------===//

#include "runtime/base/Parallel.h"
#include "runtime/schedule/PairCount.h"
#include "runtime/schedule/ProgramExecutor.h"
#include "runtime/tensor/Convert.h"

#include <algorithm>
#include <cmath>
#include <numeric>

using namespace heddle;
using namespace heddle::rt;
using bundle::Phase;
using bundle::Selection;
using bundle::Term;

/// The pairs to draw: those of the phase's kernel, or where that is dense those
/// of the selections that the step refreshes, which later steps read.
static std::vector<Term> pictured(const std::vector<Term> &terms,
                                  const std::vector<int64_t> &refreshed,
                                  const std::vector<Selection> &selections) {
  if (!terms.empty())
    return terms;
  std::vector<Term> result;
  for (int64_t s : refreshed)
    result.push_back({.kind = selections[s].kind == Selection::Kind::Columns
                                  ? Term::Kind::Columns
                                  : Term::Kind::Blocks,
                      .selection = s});
  return result;
}

Status ProgramExecutor::mapLayer(int64_t layer,
                                 const AttentionTensors &tensors) {
  Sequence &sequence = *sequences.front();
  const int64_t active = sequence.rows.rows(), n = sequence.rows.n();
  const int64_t length = sequence.rows.shape().length;
  const int64_t cells = std::min(mapping.cells, length);
  if (sequence.exact.count(active) == 0)
    return Status::success();
  auto cellOf = [&](int64_t position) { return position * cells / length; };

  // Of each cell some rows, evenly.
  std::vector<std::vector<int32_t>> rowsOf(static_cast<size_t>(cells));
  for (int64_t i = 0; i < sequence.exact.count(active); ++i) {
    int64_t row = sequence.exact.all ? i : sequence.exact.rows[i];
    rowsOf[cellOf(batch.positions[batch.offsets[0] + row])].push_back(
        static_cast<int32_t>(row));
  }
  AttentionMap &map = mapped.emplace_back();
  map.layer = layer;
  map.heads = queryHeads;
  map.cells = cells;
  std::vector<int32_t> index, cell, place;
  for (int64_t c = 0; c < cells; ++c) {
    const auto all = static_cast<int64_t>(rowsOf[c].size());
    const int64_t some = std::min(all, mapping.rowsPerCell);
    map.rows.push_back(static_cast<uint8_t>(some));
    for (int64_t k = 0; k < some; ++k) {
      const int32_t row = rowsOf[c][k * all / some];
      index.push_back(static_cast<int32_t>(batch.offsets[0]) + row);
      cell.push_back(static_cast<int32_t>(c));
      place.push_back(sequence.rows.activePlaces()[row]);
    }
  }

  // Queries and keys in fp32.
  const auto kernel = static_cast<size_t>(phaseOf(layer, sequence).attention);
  abi::AttentionArgs args = argsOf(layer, 0, kernel, tensors);
  auto fetched = [&](const RowTable &rows,
                     int64_t width) -> Result<std::vector<float>> {
    const int64_t count = static_cast<int64_t>(rows.index.size()) * width;
    std::vector<std::byte> raw(static_cast<size_t>(count * byteSize(dtype)));
    if (Status status = memory->fetch(rows, width, raw.data()); !status)
      return status.takeError();
    std::vector<float> result(static_cast<size_t>(count));
    convert(dtype, raw.data(), DType::F32, result.data(), count);
    return result;
  };
  Result<std::vector<float>> queries =
      fetched({tensors.query, tensors.queryStride, index}, attentionWidth());
  if (!queries)
    return queries.takeError();
  std::vector<int32_t> all(static_cast<size_t>(n));
  std::iota(all.begin(), all.end(), 0);
  Result<std::vector<float>> keys =
      fetched({args.key, args.keyStride, all}, kvWidth());
  if (!keys)
    return keys.takeError();

  // The lists, on the host.
  std::vector<Term> terms = pictured(schedule.kernels[kernel].terms,
                                     refreshedNow.front(), schedule.selections);
  args.sinks = bundle::sinkBound(terms, length);
  std::vector<int64_t> groups;
  std::vector<std::unique_ptr<int32_t[]>> memories(terms.size());
  size_t listed = 0;
  for (const Term &term : terms) {
    if (!bundle::readsList(term))
      continue;
    const Selection &selection = schedule.selections[term.selection];
    abi::IndexList &list = args.lists[listed];
    list = lists.list(layer, 0, term.selection);
    if (Status status =
            runner->read(selection, n, queryHeads / list.headsPerList,
                         {0, list.groups}, list, memories[listed]);
        !status)
      return status;
    groups.push_back(selection.group);
    ++listed;
  }

  const std::span<const int32_t> positions = sequence.rows.positions();
  std::vector<float> visibleIn(static_cast<size_t>(cells));
  for (int32_t position : positions)
    ++visibleIn[cellOf(position)];
  map.mass.assign(queryHeads * cells * cells, 0);
  map.kept.assign(queryHeads * cells * cells, 0);
  map.recall.assign(queryHeads, 0);
  parallelFor(queryHeads, [&](int64_t head, int) {
    std::vector<float> p(static_cast<size_t>(n));
    std::vector<int32_t> paired;
    const int64_t kvHead = head / args.kvGroup;
    double recalled = 0;
    for (size_t i = 0; i < cell.size(); ++i) {
      const float *query = queries->data() + i * attentionWidth() +
                           static_cast<size_t>(head * headDim);
      float most = -INFINITY;
      for (int64_t j = 0; j < n; ++j) {
        const float *key = keys->data() + j * kvWidth() + kvHead * headDim;
        float sum = 0;
        for (int64_t d = 0; d < headDim; ++d)
          sum += query[d] * key[d];
        p[j] = sum * args.scale;
        most = std::max(most, p[j]);
      }
      double total = 0;
      for (float &each : p)
        total += each = std::exp(each - most);
      const int64_t first = (head * cells + cell[i]) * cells;
      const auto rows = static_cast<float>(map.rows[cell[i]]);
      for (int64_t j = 0; j < n; ++j)
        map.mass[first + cellOf(positions[j])] +=
            p[j] / static_cast<float>(total) / rows;
      keysOfRow(terms, args, head, groups, place[i], paired);
      // What is kept of the keys outside is of an earlier step.
      if (keepsOutside() && !sequence.refreshed.all &&
          !std::ranges::binary_search(sequence.refreshed.rows,
                                      index[i] - batch.offsets[0]))
        std::erase_if(paired, [&](int32_t j) {
          return j < sequence.rows.inside().begin ||
                 j >= sequence.rows.inside().end;
        });
      for (int32_t j : paired) {
        const int64_t at = cellOf(positions[j]);
        map.kept[first + at] += 1 / (visibleIn[at] * rows);
        recalled += p[j] / total;
      }
    }
    map.recall[head] =
        static_cast<float>(recalled / static_cast<double>(cell.size()));
  });
  return Status::success();
}
