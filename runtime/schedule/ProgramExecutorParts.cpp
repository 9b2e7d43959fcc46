//===- ProgramExecutorParts.cpp - Attention of which a part is kept -------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Reuse::Attention::Outside. The keys inside are one run of the visible ones,
// those outside what stands before and behind it; each is attended to by a
// launch of the layer's dense kernel, whose keys then begin elsewhere. All rows
// attend to those inside, and to those outside at a step that keeps what is
// over them; at another one the rows that are refreshed. All parts are written
// to the rows of the output, one after the other, or where some rows are
// gathered to theirs: those outside are merged into what is kept, by the
// log-sum-exps, and what is kept into the part inside.
//
//===----------------------------------------------------------------------===//

#include "runtime/schedule/ProgramExecutor.h"

#include <algorithm>
#include <array>

using namespace heddle;
using namespace heddle::rt;

/// What some rows of a part are merged by, and where they stand.
struct ProgramExecutor::PartRows {
  bool isAlone;                ///< their keys outside stand on one side
  bool isGathered;             ///< they are gathered ones
  std::vector<int32_t> from{}; ///< rows of the output, or gathered ones
  std::vector<int32_t> kept{}; ///< rows of the stores
  std::vector<int64_t> lseAt{};
  std::vector<int32_t> lseStride{};
};

int64_t ProgramExecutor::attendedKeys(const Sequence &sequence) const {
  if (!keepsOutside() || sequence.refreshed.count(sequence.rows.rows()) > 0)
    return sequence.rows.n();
  const SequenceRows::Inside &inside = sequence.rows.inside();
  return inside.end - inside.begin;
}

int64_t ProgramExecutor::cachedKeys(const Sequence &sequence) const {
  const std::vector<int32_t> &places = sequence.rows.activePlaces();
  if (attendedKeys(sequence) == sequence.rows.n())
    return sequence.rows.n() - sequence.rows.visibleRows();
  const SequenceRows::Inside &inside = sequence.rows.inside();
  auto behind = [&](int64_t place) {
    return std::lower_bound(places.begin(), places.end(), place);
  };
  return inside.end - inside.begin -
         (behind(inside.end) - behind(inside.begin));
}

Status ProgramExecutor::attendInParts(int64_t layer,
                                      const AttentionTensors &tensors) {
  Moves queries; // rows of the batch to rows of the gathered ones
  for (size_t at = 0; at < sequences.size(); ++at) {
    Sequence &sequence = *sequences[at];
    sequence.pairs = 0;
    const SequenceRows::Inside &inside = sequence.rows.inside();
    const int64_t rows = sequence.rows.rows();
    if (rows == 0 || inside.end - inside.begin == sequence.rows.n())
      continue;
    const int64_t refreshed = sequence.refreshed.count(rows);
    counted.mergedRows += rows;
    counted.cacheBytesWritten += refreshed * partBytes();
    counted.cacheBytesRead += (rows - refreshed) * partBytes();
    if (!sequence.refreshed.all && refreshed > 0) {
      sequence.gathered = sequence.refreshed.rows;
      placeGathered(static_cast<int64_t>(at), queries);
    }
  }
  if (Status status = memory->copy(
          {tensors.query, tensors.queryStride, queries.from},
          {gatherQ.get(), attentionWidth(), queries.to}, attentionWidth());
      !status)
    return status;
  for (Part part : {Part::Before, Part::Behind, Part::Inside})
    if (Status status = attendPart(layer, part, tensors); !status)
      return status;
  return Status::success();
}

/// Attends to the keys of a part for all sequences that have some, and merges.
Status ProgramExecutor::attendPart(int64_t layer, Part part,
                                   const AttentionTensors &tensors) {
  launches.clear();
  std::array<PartRows, 4> merged = {
      {{false, false}, {true, false}, {false, true}, {true, true}}};
  Moves unchanged; // kept rows to those of the output
  for (int64_t s : computing) {
    Sequence &sequence = *sequences[s];
    const int64_t n = sequence.rows.n();
    const SequenceRows::Inside &inside = sequence.rows.inside();
    // At a step that keeps what is outside, all rows are refreshed.
    const Picked &picked = part == Part::Inside ? Picked() : sequence.refreshed;
    const int64_t rows = picked.count(sequence.rows.rows());
    if (rows == 0)
      continue;
    const int64_t begin = part == Part::Before   ? 0
                          : part == Part::Behind ? inside.end
                                                 : inside.begin;
    const int64_t end = part == Part::Before   ? inside.begin
                        : part == Part::Behind ? n
                                               : inside.end;
    const int64_t row = batch.offsets[s];
    if (begin == end) {
      for (int64_t r = row; r < row + rows && part == Part::Inside; ++r)
        unchanged.add(keptRow[r], r);
      continue;
    }
    const auto kernel = static_cast<size_t>(phaseOf(layer, sequence).attention);
    abi::AttentionArgs args = argsOf(layer, s, kernel, tensors);
    if (!picked.all)
      useGathered(s, 0, rows, args);
    auto from = [&](const void *keys, int64_t stride) {
      return static_cast<const std::byte *>(keys) +
             begin * stride * byteSize(dtype);
    };
    args.key = from(args.key, args.keyStride);
    args.value = from(args.value, args.valueStride);
    args.position += begin;
    args.n = end - begin;
    launchOf(launches, kernel).blocks.push_back(args);
    sequence.pairs += queryHeads * rows * args.n;
    // All keys are inside: nothing is kept.
    if (part == Part::Inside && args.n == n)
      continue;
    const bool isAlone = inside.begin == 0 || inside.end == n;
    PartRows &to = merged[(isAlone ? 1 : 0) + (picked.all ? 0 : 2)];
    for (int64_t r = 0; r < rows; ++r) {
      to.from.push_back(
          static_cast<int32_t>((picked.all ? row : starts[s]) + r));
      to.kept.push_back(keptRow[row + (picked.all ? r : picked.rows[r])]);
      to.lseAt.push_back(starts[s] * queryHeads + r);
      to.lseStride.push_back(static_cast<int32_t>(rows));
    }
  }
  for (Launch &launch : launches)
    if (Status status = runner->attend(launch.kernel, launch.blocks); !status)
      return status;
  for (const PartRows &rows : merged)
    if (Status status = mergePart(layer, part, rows, tensors); !status)
      return status;
  return memory->copy(tableOf(outsideStore, layer, unchanged.from),
                      {tensors.output, tensors.outputStride, unchanged.to},
                      attentionWidth());
}

/// A part before the keys inside, with one behind them, goes by log-sum-exps of
/// its own, since those that are read and those that are written are to be
/// apart.
Status ProgramExecutor::mergePart(int64_t layer, Part part,
                                  const PartRows &rows,
                                  const AttentionTensors &tensors) {
  if (rows.from.empty())
    return Status::success();
  const RowTable output =
      rows.isGathered
          ? RowTable{gatherO.get(), attentionWidth(), rows.from}
          : RowTable{tensors.output, tensors.outputStride, rows.from};
  RowMerge merge{.now = output,
                 .lse = lseOf(layer, 0),
                 .lseAt = rows.lseAt,
                 .lseStride = rows.lseStride,
                 .kept = tableOf(outsideStore, layer, rows.kept),
                 .output = {}};
  auto *ofBefore = reinterpret_cast<float *>(beforeLse.get());
  auto *ofOutside = reinterpret_cast<float *>(outsideLseStore.layer(layer));
  switch (part) {
  case Part::Before:
    merge.newLse = rows.isAlone ? ofOutside : ofBefore;
    break;
  case Part::Behind:
    merge.keptLse = rows.isAlone ? nullptr : ofBefore;
    merge.newLse = ofOutside;
    break;
  case Part::Inside:
    merge.keptLse = ofOutside;
    merge.output = output;
    break;
  }
  return memory->merge(merge, queryHeads, headDim);
}
