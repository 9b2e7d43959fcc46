//===- ProgramExecutorAttend.cpp - The attention of a layer ---------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "bundle/abi/IndexLayout.h"
#include "runtime/base/Parallel.h"
#include "runtime/schedule/PairCount.h"
#include "runtime/schedule/ProgramExecutor.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>

using namespace heddle;
using namespace heddle::rt;
using bundle::Pass;
using bundle::Phase;
using bundle::Reuse;
using bundle::Selection;

namespace {

/// Row `row` of a tensor of element type `dtype`.
const std::byte *rowOf(const void *tensor, int64_t row, int64_t stride,
                       DType dtype) {
  return static_cast<const std::byte *>(tensor) +
         row * stride * byteSize(dtype);
}
std::byte *rowOf(void *tensor, int64_t row, int64_t stride, DType dtype) {
  return static_cast<std::byte *>(tensor) + row * stride * byteSize(dtype);
}

} // namespace

/// How a step of `sequence` in `phase` refreshes a selection; null: it does
/// not.
const Phase::Refresh *
ProgramExecutor::dueRefresh(const Phase &phase, int64_t selection,
                            const Sequence &sequence) const {
  for (const Phase::Refresh &each : program.due(phase, sequence.rows.place()))
    if (each.selection == selection)
      return &each;
  return nullptr;
}

/// The launch of a kernel, which is added where there is none.
ProgramExecutor::Launch &ProgramExecutor::launchOf(std::vector<Launch> &all,
                                                   size_t kernel) {
  auto found = std::ranges::find(all, kernel, &Launch::kernel);
  return found == all.end() ? all.emplace_back(Launch{kernel, {}}) : *found;
}

/// Every list that this layer reads has been filled, or will be before.
Status ProgramExecutor::checkLists(int64_t layer) const {
  for (int64_t s : computing) {
    const Phase &phase = phaseOf(layer, *sequences[s]);
    for (int64_t selection : listsOf[phase.attention])
      if (!lists.filled(layer, s, selection) &&
          !(phase.refreshesFirst &&
            dueRefresh(phase, selection, *sequences[s])))
        return Error(
            "step " + std::to_string(sequences[s]->rows.place().step) +
            " of sequence " + std::to_string(s) + " reads selection '" +
            schedule.selections[selection].name + "' in layer " +
            std::to_string(layer) +
            ", which has not been refreshed since its visible positions "
            "last changed; name a step before this one in its cadence");
  }
  return Status::success();
}

//===----------------------------------------------------------------------===//
// Caches and gathered rows
//===----------------------------------------------------------------------===//

/// Refreshes the cached K of exact rows and the cached V of all rows whose V
/// was computed; keeps what V changed by where it will be propagated. Rows that
/// are not visible are all exact, and nobody's keys.
Status ProgramExecutor::storeKeysAndValues(int64_t layer,
                                           const AttentionTensors &tensors) {
  const int64_t width = kvWidth(), bytes = width * byteSize(dtype);
  Moves keys, values, changed; // rows of the batch to rows of the stores
  for (int64_t s : computing) {
    const Sequence &sequence = *sequences[s];
    const int64_t rows = sequence.rows.rows();
    const Picked &exact = sequence.exact, &valued = valueRows(layer, sequence);
    auto add = [&](const Picked &picked, Moves &moves) {
      for (int64_t i = 0; i < picked.count(rows); ++i) {
        const int64_t active = picked.all ? i : picked.rows[i];
        const int64_t row = batch.offsets[s] + active;
        if (sequence.rows.isVisible(sequence.rows.activePlaces()[active]))
          moves.add(row, keptRow[row]);
      }
    };
    add(exact, keys);
    if (sequence.propagates)
      add(exact, changed);
    if (!sequence.propagates || &valued != &exact)
      add(valued, values);
    const int64_t seen = sequence.rows.visibleRows();
    const int64_t written =
        exact.count(rows) + valued.count(rows) - 2 * (rows - seen);
    counted.cacheBytesWritten += written * bytes;
    counted.cacheBytesRead +=
        (2 * (cachedKeys(sequence) + seen) - written) * bytes;
  }
  if (Status status = memory->copy({tensors.key, tensors.keyStride, keys.from},
                                   tableOf(keyStore, layer, keys.to), width);
      !status)
    return status;
  if (!changed.to.empty())
    if (Status status = memory->replace(
            {tensors.value, tensors.valueStride, changed.from},
            tableOf(valueStore, layer, changed.to), delta.layer(0), width);
        !status)
      return status;
  return memory->copy({tensors.value, tensors.valueStride, values.from},
                      tableOf(valueStore, layer, values.to), width);
}

/// Lays out a sequence's gathered rows, the exact ones first and behind them
/// those to correct; adds their queries to `queries`.
void ProgramExecutor::gather(int64_t s, Moves &queries) {
  Sequence &sequence = *sequences[s];
  sequence.gathered = sequence.exact.rows;
  if (sequence.propagates) {
    size_t next = 0;
    for (int64_t i = 0; i < sequence.in.count(sequence.rows.rows()); ++i) {
      const int32_t row =
          sequence.in.all ? static_cast<int32_t>(i) : sequence.in.rows[i];
      if (next < sequence.exact.rows.size() && sequence.exact.rows[next] == row)
        ++next;
      else
        sequence.gathered.push_back(row);
    }
  }
  placeGathered(s, queries);
}

/// Of rows to gather the places, and where their queries go.
void ProgramExecutor::placeGathered(int64_t s, Moves &queries) {
  Sequence &sequence = *sequences[s];
  sequence.places.clear();
  int64_t to = starts[s];
  for (int32_t row : sequence.gathered) {
    sequence.places.push_back(sequence.rows.activePlaces()[row]);
    queries.add(batch.offsets[s] + row, to++);
  }
}

//===----------------------------------------------------------------------===//
// Launches
//===----------------------------------------------------------------------===//

float ProgramExecutor::scaleOf(Selection::Scale scale) const {
  const int64_t of = scale == Selection::Scale::Heads ? queryHeads : headDim;
  return static_cast<float>(1 / std::sqrt(static_cast<double>(of)));
}

/// Arguments for all active rows of a sequence, in the model's tensors. A
/// shadow's rows stand in them right behind its sequence's, and so do its keys.
abi::AttentionArgs ProgramExecutor::argsOf(int64_t layer, int64_t s,
                                           size_t kernel,
                                           const AttentionTensors &tensors) {
  const SequenceRows &rows = sequences[s]->rows;
  abi::AttentionArgs args{};
  int64_t first = batch.offsets[s];
  args.query = rowOf(tensors.query, first, tensors.queryStride, dtype);
  args.output = rowOf(tensors.output, first, tensors.outputStride, dtype);
  args.queryStride = tensors.queryStride;
  args.outputStride = tensors.outputStride;
  if (schedule.reuse.kv) {
    args.key = keyStore.row(layer, s, 0);
    args.value = valueStore.row(layer, s, 0);
    args.keyStride = args.valueStride = kvWidth();
  } else {
    const int64_t firstKey = batch.offsets[rows.shape().isShadow() ? s - 1 : s];
    args.key = rowOf(tensors.key, firstKey, tensors.keyStride, dtype);
    args.value = rowOf(tensors.value, firstKey, tensors.valueStride, dtype);
    args.keyStride = tensors.keyStride;
    args.valueStride = tensors.valueStride;
  }
  args.lse = needsLse ? lseOf(layer, starts[s]) : nullptr;
  args.n = rows.n();
  args.kvGroup = queryHeads / kvHeads;
  args.scale = scaleOf(Selection::Scale::HeadDim);
  args.heads = static_cast<uint32_t>(queryHeads);
  for (size_t c = 0; c < listsOf[kernel].size(); ++c)
    args.lists[c] = lists.list(layer, s, listsOf[kernel][c]);
  args.rows = rows.rows();
  args.place = rows.activePlaces().data();
  args.position = rows.positions().data();
  args.sinks =
      bundle::sinkBound(schedule.kernels[kernel].terms, rows.shape().length);
  return args;
}

/// Has `args` be of `count` gathered rows of a sequence, from the `first` on.
void ProgramExecutor::useGathered(int64_t s, int64_t first, int64_t count,
                                  abi::AttentionArgs &args) const {
  args.query = rowOf(gatherQ.get(), starts[s] + first, attentionWidth(), dtype);
  args.output =
      rowOf(gatherO.get(), starts[s] + first, attentionWidth(), dtype);
  args.queryStride = args.outputStride = attentionWidth();
  if (needsLse)
    args.lse = lseOf(layerNow, starts[s] + first);
  args.rows = count;
  args.place = sequences[s]->places.data() + first;
}

/// Fills in `launches`, one for each attention kernel that some sequence runs,
/// and brings the queries of rows together that are not all of a sequence's.
Status ProgramExecutor::planLaunches(int64_t layer,
                                     const AttentionTensors &tensors) {
  Moves queries; // rows of the batch to rows of the gathered ones
  launches.clear();
  for (size_t at = 0; at < sequences.size(); ++at) {
    auto s = static_cast<int64_t>(at);
    Sequence &sequence = *sequences[at];
    sequence.exactBlock = -1;
    sequence.pairs = 0;
    int64_t exact = sequence.exact.count(sequence.rows.rows());
    if (exact == 0)
      continue;
    const size_t kernel = attentionOf(layer, sequence);
    Launch &launch = launchOf(launches, kernel);
    abi::AttentionArgs args = argsOf(layer, s, kernel, tensors);
    sequence.exactBlock = static_cast<int64_t>(launch.blocks.size());
    if (sequence.exact.all) {
      launch.blocks.push_back(args);
      if (Status status = countPairs(layer, s, kernel, args); !status)
        return status;
      continue;
    }
    gather(s, queries);
    auto addPart = [&](int64_t first, int64_t count) -> Status {
      useGathered(s, first, count, args);
      launch.blocks.push_back(args);
      return countPairs(layer, s, kernel, args);
    };
    if (Status status = addPart(0, exact); !status)
      return status;
    auto rest = static_cast<int64_t>(sequence.gathered.size()) - exact;
    if (rest > 0) {
      args.value = delta.row(0, s, 0);
      args.valueStride = kvWidth();
      if (Status status = addPart(exact, rest); !status)
        return status;
    }
  }
  return memory->copy({tensors.query, tensors.queryStride, queries.from},
                      {gatherQ.get(), attentionWidth(), queries.to},
                      attentionWidth());
}

/// Counts what a kernel computes for the rows of `args` of a sequence.
Status ProgramExecutor::countPairs(int64_t layer, int64_t s, size_t kernel,
                                   const abi::AttentionArgs &args) {
  Result<int64_t> pairs = pairsOf(layer, s, kernel, args);
  if (!pairs)
    return pairs.takeError().withContext("layer " + std::to_string(layer) +
                                         ", sequence " + std::to_string(s));
  sequences[s]->pairs += *pairs;
  return Status::success();
}

/// Pairs of all heads.
Result<int64_t> ProgramExecutor::pairsOf(int64_t layer, int64_t s,
                                         size_t kernel,
                                         abi::AttentionArgs args) {
  const std::vector<bundle::Term> &terms = schedule.kernels[kernel].terms;
  if (terms.empty())
    return queryHeads * args.rows * args.n;
  const bool listed = pairsDependOnLists(terms);
  if (!listed && !listsOf[kernel].empty())
    return queryHeads * args.rows * args.lists[0].keep;
  // Without lists the pairs are those of any layer. Who reads another's lists
  // has its pairs.
  const int64_t reads = sequences[s]->rows.shape().readsAs;
  std::vector<int64_t> &known =
      knownPairsOf(listed ? layer : 0, reads < 0 ? s : reads)[kernel];
  // Lists lie on the device and a window with gaps has many runs of keys, so
  // what a row has is counted once: steps that compute a few rows, others each
  // time, find them here.
  known.resize(static_cast<size_t>(args.n), -1);
  auto placeOf = [&](int64_t row) {
    return args.rows == args.n ? row : args.place[row];
  };
  std::vector<int32_t> places; // of rows that are not yet counted
  for (int64_t row = 0; row < args.rows; ++row)
    if (known[placeOf(row)] < 0)
      places.push_back(static_cast<int32_t>(placeOf(row)));
  if (!places.empty())
    if (Status status = countPlaces(kernel, args, places, known); !status)
      return status.takeError();
  int64_t pairs = 0;
  for (int64_t row = 0; row < args.rows; ++row)
    pairs += known[placeOf(row)];
  return pairs;
}

/// Counts the pairs of the rows at `places`, which ascend; with lists, those of
/// all rows of the groups between the first and the last of them.
Status ProgramExecutor::countPlaces(size_t kernel, abi::AttentionArgs args,
                                    std::vector<int32_t> places,
                                    std::vector<int64_t> &known) {
  const std::vector<bundle::Term> &terms = schedule.kernels[kernel].terms;
  const std::vector<int64_t> &groups = groupsOf[kernel];
  const bool listed = pairsDependOnLists(terms);
  int64_t piece = 64;
  std::vector<std::unique_ptr<int32_t[]>> memories(listed ? groups.size() : 0);
  if (listed) {
    // Whole groups, so that no two pieces merge the same lists.
    piece = *std::ranges::max_element(groups);
    const int64_t first = places.front() / piece * piece;
    const int64_t end = std::min(args.n, (places.back() / piece + 1) * piece);
    places.resize(static_cast<size_t>(end - first));
    std::iota(places.begin(), places.end(), static_cast<int32_t>(first));
    for (size_t c = 0; c < memories.size(); ++c) {
      abi::IndexList &list = args.lists[c];
      const int64_t group = first / groups[c], last = (end - 1) / groups[c];
      if (Status status =
              runner->read(schedule.selections[listsOf[kernel][c]], args.n,
                           queryHeads / list.headsPerList,
                           {group, last - group + 1}, list, memories[c]);
          !status)
        return status;
    }
  }
  const auto rows = static_cast<int64_t>(places.size());
  std::vector<int64_t> counts(places.size());
  parallelFor((rows + piece - 1) / piece, [&](int64_t at, int) {
    abi::AttentionArgs part = args;
    part.place = places.data() + at * piece;
    part.rows = std::min(piece, rows - at * piece);
    const std::span<int64_t> ofRow = std::span(counts).subspan(
        static_cast<size_t>(at * piece), static_cast<size_t>(part.rows));
    if (listed) {
      for (int64_t head = 0; head < queryHeads; ++head)
        pairsOfRows(terms, part, head, groups, ofRow);
      return;
    }
    pairsOfRows(terms, part, 0, {}, ofRow);
    for (int64_t &pairs : ofRow)
      pairs *= queryHeads;
  });
  for (int64_t row = 0; row < rows; ++row)
    known[places[row]] = counts[row];
  return Status::success();
}

//===----------------------------------------------------------------------===//
// What rows that are not exact contribute
//===----------------------------------------------------------------------===//

/// Completes the output of all rows from what was gathered and cached,
/// refreshes the cached contexts and finds the next layer's salient rows.
/// Source: DyLLM, algorithm 1 and released code.
Status ProgramExecutor::combine(int64_t layer,
                                const AttentionTensors &tensors) {
  const int64_t width = attentionWidth(), bytes = width * byteSize(dtype);
  Moves placed;    // gathered rows to those of the output
  Moves unchanged; // kept rows to those of the output
  Moves refreshed; // rows of the output to kept ones
  Moves compared;  // likewise, and compared
  Moves added;     // gathered rows to kept ones, which they add to
  std::vector<int32_t> addedOutput; // their rows of the output
  // Of each row of the batch the place among the similarities, -1: unchanged;
  // those of added rows come after all others.
  std::vector<int32_t> similarityAt(static_cast<size_t>(batch.rows()), -1);
  const bool keepsContext = reuseOf(layer).keepsContext();
  bool anyCompares = false;
  for (int64_t s : computing) {
    const Sequence &sequence = *sequences[s];
    const int64_t active = sequence.rows.rows(), first = batch.offsets[s];
    if (!keepsContext && sequence.exact.all)
      continue;
    const bool compares = bound(layer, sequence).has_value();
    anyCompares |= compares;
    const int64_t exact = sequence.exact.count(active);
    std::vector<bool> gathered(static_cast<size_t>(active), sequence.exact.all);
    if (!sequence.exact.all && sequence.exactBlock >= 0)
      for (size_t i = 0; i < sequence.gathered.size(); ++i) {
        int64_t row = sequence.gathered[i];
        int64_t at = starts[s] + static_cast<int64_t>(i);
        gathered[row] = true;
        if (static_cast<int64_t>(i) < exact) {
          placed.add(at, first + row);
        } else { // what the changed values add
          added.add(at, keptRow[first + row]);
          addedOutput.push_back(static_cast<int32_t>(first + row));
        }
      }
    if (!keepsContext)
      continue; // attention's projected output is what is kept
    for (int64_t i = 0; i < exact; ++i) {
      int64_t row = first + (sequence.exact.all ? i : sequence.exact.rows[i]);
      if (compares)
        similarityAt[row] = static_cast<int32_t>(compared.from.size());
      (compares ? compared : refreshed).add(row, keptRow[row]);
    }
    const int64_t out = sequence.out.count(active);
    for (int64_t i = 0; i < out; ++i)
      if (int64_t row = sequence.out.all ? i : sequence.out.rows[i];
          !gathered[row])
        unchanged.add(keptRow[first + row], first + row);
    counted.cacheBytesWritten += out * bytes;
    counted.cacheBytesRead += (compares ? out : out - exact) * bytes;
  }
  auto outputRows = [&](std::span<const int32_t> rows) {
    return RowTable{tensors.output, tensors.outputStride, rows};
  };
  auto gatheredRows = [&](std::span<const int32_t> rows) {
    return RowTable{gatherO.get(), width, rows};
  };
  if (Status status =
          memory->copy(gatheredRows(placed.from), outputRows(placed.to), width);
      !status)
    return status;
  if (!keepsContext)
    return Status::success();
  if (Status status = memory->copy(tableOf(contextStore, layer, unchanged.from),
                                   outputRows(unchanged.to), width);
      !status)
    return status;
  if (Status status =
          memory->copy(outputRows(refreshed.from),
                       tableOf(contextStore, layer, refreshed.to), width);
      !status)
    return status;
  if (Status status =
          memory->compare({.now = outputRows(compared.from),
                           .kept = tableOf(contextStore, layer, compared.to),
                           .output = {},
                           .writes = true},
                          width, 0);
      !status)
    return status;
  auto behind = static_cast<int64_t>(compared.from.size());
  if (Status status =
          memory->compare({.now = gatheredRows(added.from),
                           .kept = tableOf(contextStore, layer, added.to),
                           .output = outputRows(addedOutput),
                           .adds = true,
                           .writes = true},
                          width, behind);
      !status)
    return status;
  if (!anyCompares)
    return Status::success();
  for (size_t i = 0; i < addedOutput.size(); ++i)
    similarityAt[addedOutput[i]] =
        static_cast<int32_t>(behind + static_cast<int64_t>(i));
  Result<std::span<const float>> similarity = memory->similarities(
      0, behind + static_cast<int64_t>(addedOutput.size()));
  if (!similarity)
    return similarity.takeError();
  pickSalient(layer, *similarity, similarityAt);
  return Status::success();
}

/// `similarityAt` [batch rows]: the place of each row's similarity; -1: the row
/// is as it was.
void ProgramExecutor::pickSalient(int64_t layer,
                                  std::span<const float> similarity,
                                  std::span<const int32_t> similarityAt) {
  for (int64_t s : computing) {
    Sequence &sequence = *sequences[s];
    const std::optional<bundle::Ratio> below = bound(layer, sequence);
    if (!below)
      continue;
    double limit =
        static_cast<double>(below->num) / static_cast<double>(below->den);
    sequence.salient = {false, {}};
    for (int64_t row = 0; row < sequence.rows.rows(); ++row) {
      int32_t at = similarityAt[batch.offsets[s] + row];
      double value = at < 0 ? 1 : static_cast<double>(similarity[at]);
      if (!(value >= limit)) // NaN is salient
        sequence.salient.rows.push_back(static_cast<int32_t>(row));
    }
  }
}

/// The changes of V of this layer are no longer needed.
Status ProgramExecutor::clearDelta() {
  std::vector<int32_t> rows;
  for (int64_t s : computing)
    if (sequences[s]->propagates)
      for (int32_t row : sequences[s]->exact.rows)
        rows.push_back(keptRow[batch.offsets[s] + row]);
  return rows.empty() ? Status::success()
                      : memory->clear(tableOf(delta, 0, rows), kvWidth());
}

//===----------------------------------------------------------------------===//
// Selections
//===----------------------------------------------------------------------===//

/// The rows that score a selection's keys, the keys that it always lists and
/// those that it chooses from, and so how many its lists have.
Status ProgramExecutor::setRanges(int64_t layer, int64_t s, int64_t selection,
                                  abi::SelectArgs &args) {
  const Selection &what = schedule.selections[selection];
  SequenceRows &rows = sequences[s]->rows;
  if (what.rows >= 0) {
    Result<SequenceRows::Range> range = rows.rangeOf(what.rows);
    if (!range)
      return range.takeError().withContext("the rows of " + what.name);
    if (range->begin < range->end) {
      args.rowBegin = range->begin;
      args.rowEnd = range->end;
    }
  }
  if (what.always >= 0) {
    Result<SequenceRows::Range> range = rows.rangeOf(what.always);
    if (!range)
      return range.takeError().withContext("the keys always in " + what.name);
    args.alwaysBegin = range->begin;
    args.alwaysEnd = range->end;
  }
  int64_t from = args.n;
  if (what.within >= 0) {
    const Selection &outer = schedule.selections[what.within];
    if (!lists.filled(layer, s, what.within))
      return Error("selection '" + what.name + "' is refreshed in layer " +
                   std::to_string(layer) + " within '" + outer.name +
                   "', which has not been refreshed since the visible "
                   "positions last changed");
    args.within = lists.list(layer, s, what.within);
    from = outer.kind == Selection::Kind::Columns
               ? args.within.keep
               : keysToChoose(schedule.selections, what, args.n,
                              rows.promptPlaces(), 0);
  }
  if (what.always >= 0 || what.within >= 0)
    lists.keep(layer, s, selection, args.n,
               what.listed(from, args.alwaysEnd - args.alwaysBegin));
  return Status::success();
}

/// Runs the attention that a refresh is scored by besides; `args` are those of
/// its phase's.
Status ProgramExecutor::score(const Phase::Scoring &scoring, int64_t group,
                              abi::AttentionArgs args, abi::SelectArgs &select,
                              int64_t start) {
  args.output = rowOf(scoringO.get(), start, attentionWidth(), dtype);
  args.outputStride = attentionWidth();
  args.scale = scaleOf(scoring.scale);
  args.lse = reinterpret_cast<float *>(scoringL.get()) + 2 * start * queryHeads;
  if (scoring.ofResponse) {
    if (select.boundary == 0)
      return Status::success();
    const int64_t firstKey = select.boundary * group;
    args.key = rowOf(args.key, firstKey, args.keyStride, dtype);
    args.value = rowOf(args.value, firstKey, args.valueStride, dtype);
    args.position += firstKey;
    args.n -= firstKey;
    args.lse += args.rows * queryHeads;
  }
  (scoring.ofResponse ? select.spanLse : select.lse) = args.lse;
  counted.lsePairs += queryHeads * args.rows * args.n;
  return runner->attend(static_cast<size_t>(scoring.kernel),
                        std::span(&args, 1));
}

/// Refreshes what attention is to read in this very step. Its rows are all
/// visible ones, and the output of what scores it is a place that attention
/// writes after.
Status ProgramExecutor::scoreFirst(int64_t layer,
                                   const AttentionTensors &tensors) {
  std::vector<Launch> scoring;
  for (int64_t s : computing) {
    const Sequence &sequence = *sequences[s];
    const Phase &phase = phaseOf(layer, sequence);
    if (phase.scoring < 0 || !program.readsLse(phase, sequence.rows.place()))
      continue;
    const auto kernel = static_cast<size_t>(phase.scoring);
    const abi::AttentionArgs args = argsOf(layer, s, kernel, tensors);
    launchOf(scoring, kernel).blocks.push_back(args);
    counted.lsePairs += queryHeads * args.rows * args.n;
  }
  for (Launch &launch : scoring)
    if (Status status = runner->attend(launch.kernel, launch.blocks); !status)
      return status;
  return refresh(layer, tensors, /*first=*/true);
}

/// Refreshes the selections that are due, by this layer's Q, K and the
/// log-sum-exps of the attention before: those of phases that do so first, or
/// behind their attention.
Status ProgramExecutor::refresh(int64_t layer, const AttentionTensors &tensors,
                                bool first) {
  struct Choice {
    int64_t kernel;
    std::vector<abi::SelectArgs> blocks;
    std::vector<int64_t> refreshed; ///< sequences
  };
  for (int64_t selection = 0; selection < std::ssize(schedule.selections);
       ++selection) {
    std::vector<Choice> choices; // one for each kernel
    for (int64_t s : computing) {
      const Sequence &sequence = *sequences[s];
      const Phase &phase = phaseOf(layer, sequence);
      const Phase::Refresh *due = phase.refreshesFirst == first
                                      ? dueRefresh(phase, selection, sequence)
                                      : nullptr;
      if (!due)
        continue;
      const Selection &what = schedule.selections[selection];
      const abi::AttentionArgs attention =
          argsOf(layer, s, static_cast<size_t>(phase.scorer()), tensors);
      abi::SelectArgs args = abi::selectArgsOf(attention);
      args.scale = scaleOf(what.scale);
      if (Status status = setRanges(layer, s, selection, args); !status)
        return status;
      args.list = lists.list(layer, s, selection);
      if (what.kind == Selection::Kind::Blocks) {
        BlockSpans spans =
            blockSpans(what, args.n, sequence.rows.promptPlaces());
        args.boundary = spans.boundary;
        args.spanKeep = spans.spanKeep;
      }
      for (const Phase::Scoring &scoring : due->scorings)
        if (Status status =
                score(scoring, what.group, attention, args, starts[s]);
            !status)
          return status;
      counted.scorePairs +=
          what.scoringRows(args.rowEnd - args.rowBegin) * args.n * queryHeads;
      auto choice = std::ranges::find(choices, due->kernel, &Choice::kernel);
      if (choice == choices.end())
        choice = choices.insert(choice, Choice{due->kernel, {}, {}});
      choice->blocks.push_back(args);
      choice->refreshed.push_back(s);
    }
    for (const Choice &choice : choices) {
      if (Status status =
              runner->select(static_cast<size_t>(choice.kernel), choice.blocks);
          !status)
        return status;
      for (int64_t s : choice.refreshed) {
        int64_t n = sequences[s]->rows.n();
        lists.markFilled(layer, s, selection);
        for (int64_t reader = layer;
             reader < layers && program.source(reader, selection) == layer;
             ++reader)
          std::ranges::fill(knownPairsOf(reader, s), std::vector<int64_t>());
        if (refreshedNow[s].empty())
          counted.scoredKeys += n;
        refreshedNow[s].push_back(selection);
        ++counted.refreshes;
      }
    }
  }
  return Status::success();
}

//===----------------------------------------------------------------------===//
// The layer
//===----------------------------------------------------------------------===//

/// Attention of each row in one launch.
Status ProgramExecutor::attendWhole(int64_t layer,
                                    const AttentionTensors &tensors) {
  if (Status status = scoreFirst(layer, tensors); !status)
    return status;
  if (Status status = planLaunches(layer, tensors); !status)
    return status;
  for (Launch &launch : launches)
    if (Status status = runner->attend(launch.kernel, launch.blocks); !status)
      return status;
  if (Status status = combine(layer, tensors); !status)
    return status;
  if (Status status = clearDelta(); !status)
    return status;
  return refresh(layer, tensors, /*first=*/false);
}

Status ProgramExecutor::attend(int64_t layer, const PackedBatch &given,
                               const AttentionTensors &tensors) {
  if (Status status = enter(layer, Stage::Attend); !status)
    return status;
  if (Status status = checkTensors(given, tensors); !status)
    return status;
  if (Status status = checkLists(layer); !status)
    return status;
  underWay = true;
  for (std::vector<int64_t> &refreshed : refreshedNow)
    refreshed.clear();
  if (schedule.reuse.kv)
    if (Status status = storeKeysAndValues(layer, tensors); !status)
      return status;
  if (program.rollsOut())
    if (Status status = keepQueries(layer, tensors); !status)
      return status;
  if (Status status = keepsOutside() ? attendInParts(layer, tensors)
                                     : attendWhole(layer, tensors);
      !status)
    return status;
  for (const std::unique_ptr<Sequence> &sequence : sequences) {
    int64_t length = sequence->rows.shape().length;
    if (sequence->rows.inStep() && !sequence->rows.shape().isShadow())
      counted.densePairs += queryHeads * length * length;
    counted.pairs += sequence->pairs;
    if (sequence->pairs > 0)
      counted.attendedKeys += attendedKeys(*sequence);
  }
  if (Status status = measureDrift(layer, tensors); !status)
    return status;
  if (program.rollsOut() && layer == layers - 1)
    if (Status status = rollOut(); !status)
      return status;
  return mapping.cells > 0 ? mapLayer(layer, tensors) : Status::success();
}
