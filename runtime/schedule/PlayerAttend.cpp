//===- PlayerAttend.cpp - The attention of a layer ------------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "bundle/IndexLayout.h"
#include "runtime/base/Parallel.h"
#include "runtime/schedule/PairCount.h"
#include "runtime/schedule/Player.h"
#include "runtime/schedule/Similarity.h"
#include "runtime/tensor/Convert.h"

#include <algorithm>
#include <cmath>
#include <cstring>
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

/// body(row) for each of `rows` rows, some at a time to a thread.
void forRows(int64_t rows, const std::function<void(int64_t row)> &body) {
  constexpr int64_t some = 16;
  parallelFor((rows + some - 1) / some, [&](int64_t task, int) {
    for (int64_t row = task * some; row < std::min(rows, (task + 1) * some);
         ++row)
      body(row);
  });
}

/// Memory for a row in fp32.
float *rowBuffer(std::vector<float> &memory, int64_t n) {
  memory.resize(static_cast<size_t>(n));
  return memory.data();
}

} // namespace

/// Every list that this layer reads has been filled.
Status Player::checkLists(int64_t layer) const {
  for (size_t s = 0; s < sequences.size(); ++s) {
    if (sequences[s]->rows.rows() == 0)
      continue;
    for (int64_t selection : listsOf[phaseOf(layer, *sequences[s]).attention])
      if (!lists.filled(layer, static_cast<int64_t>(s), selection))
        return Error("step " + std::to_string(sequences[s]->rows.place().step) +
                     " of sequence " + std::to_string(s) +
                     " reads selection '" +
                     schedule.selections[selection].name + "' in layer " +
                     std::to_string(layer) +
                     ", which has not been renewed since its visible positions "
                     "last changed; name an earlier step in its cadence");
  }
  return Status::success();
}

//===----------------------------------------------------------------------===//
// Caches and gathered rows
//===----------------------------------------------------------------------===//

/// Renews the cached K of exact rows and the cached V of all rows whose V was
/// computed; keeps what V changed by where it will be propagated.
void Player::storeKeysAndValues(int64_t layer,
                                const AttentionTensors &tensors) {
  const int64_t width = kvWidth(), bytes = width * byteSize(dtype);
  for (size_t at = 0; at < sequences.size(); ++at) {
    auto s = static_cast<int64_t>(at);
    Sequence &sequence = *sequences[at];
    const std::vector<int32_t> &places = sequence.rows.livePlaces();
    if (places.empty())
      continue;
    const Picked &exact = sequence.exact, &valued = valueRows(sequence);
    int64_t exactCount = exact.count(sequence.rows.rows());
    int64_t valueCount = valued.count(sequence.rows.rows());
    auto rowAt = [&](const Picked &picked, int64_t i) {
      return picked.all ? i : picked.rows[i];
    };
    forRows(exactCount, [&](int64_t i) {
      int64_t row = rowAt(exact, i);
      std::memcpy(
          keyStore.row(layer, s, places[row]),
          rowOf(tensors.key, batch.offsets[at] + row, tensors.keyStride, dtype),
          bytes);
      if (!sequence.propagates)
        return;
      thread_local std::vector<float> nowMemory, beforeMemory;
      float *now = rowBuffer(nowMemory, width);
      float *before = rowBuffer(beforeMemory, width);
      convert(dtype,
              rowOf(tensors.value, batch.offsets[at] + row, tensors.valueStride,
                    dtype),
              DType::F32, now, width);
      convert(dtype, valueStore.row(layer, s, places[row]), DType::F32, before,
              width);
      for (int64_t e = 0; e < width; ++e)
        now[e] -= before[e];
      convert(DType::F32, now, dtype, delta.row(0, s, places[row]), width);
    });
    forRows(valueCount, [&](int64_t i) {
      int64_t row = rowAt(valued, i);
      std::memcpy(valueStore.row(layer, s, places[row]),
                  rowOf(tensors.value, batch.offsets[at] + row,
                        tensors.valueStride, dtype),
                  bytes);
    });
    counted.cacheBytesWritten += (exactCount + valueCount) * bytes;
    counted.cacheBytesRead +=
        (2 * sequence.rows.n() - exactCount - valueCount) * bytes;
  }
}

/// Brings the queries of exact rows together and, behind them, those of rows
/// to correct.
void Player::gather(int64_t s, const AttentionTensors &tensors) {
  Sequence &sequence = *sequences[s];
  sequence.gathered = sequence.exact.rows;
  if (sequence.propagates) {
    size_t next = 0;
    for (int32_t row = 0; row < sequence.rows.rows(); ++row)
      if (next < sequence.exact.rows.size() && sequence.exact.rows[next] == row)
        ++next;
      else
        sequence.gathered.push_back(row);
  }
  sequence.places.clear();
  for (int32_t row : sequence.gathered)
    sequence.places.push_back(sequence.rows.livePlaces()[row]);
  forRows(static_cast<int64_t>(sequence.gathered.size()), [&](int64_t i) {
    std::memcpy(rowOf(gatherQ.data(), starts[s] + i, attentionWidth(), dtype),
                rowOf(tensors.query, batch.offsets[s] + sequence.gathered[i],
                      tensors.queryStride, dtype),
                attentionWidth() * byteSize(dtype));
  });
}

//===----------------------------------------------------------------------===//
// Launches
//===----------------------------------------------------------------------===//

/// Arguments for all live rows of a sequence, in the model's tensors.
abi::AttentionArgs Player::argsOf(int64_t layer, int64_t s, size_t kernel,
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
    args.key = rowOf(tensors.key, first, tensors.keyStride, dtype);
    args.value = rowOf(tensors.value, first, tensors.valueStride, dtype);
    args.keyStride = tensors.keyStride;
    args.valueStride = tensors.valueStride;
  }
  args.lse = needsLse ? lse.as<float>() + starts[s] * queryHeads : nullptr;
  args.n = rows.n();
  args.kvGroup = queryHeads / kvHeads;
  args.scale = static_cast<float>(1 / std::sqrt(static_cast<double>(headDim)));
  args.heads = static_cast<uint32_t>(queryHeads);
  for (size_t c = 0; c < listsOf[kernel].size(); ++c)
    args.lists[c] = lists.list(layer, s, listsOf[kernel][c]);
  args.rows = rows.rows();
  args.place = rows.livePlaces().data();
  args.position = rows.positions().data();
  return args;
}

/// Fills in `launches`: one for each attention kernel that some sequence runs.
void Player::planLaunches(int64_t layer, const AttentionTensors &tensors) {
  launches.clear();
  for (size_t at = 0; at < sequences.size(); ++at) {
    auto s = static_cast<int64_t>(at);
    Sequence &sequence = *sequences[at];
    sequence.exactBlock = -1;
    sequence.pairs = 0;
    int64_t exact = sequence.exact.count(sequence.rows.rows());
    if (exact == 0)
      continue;
    auto kernel = static_cast<size_t>(phaseOf(layer, sequence).attention);
    auto launch =
        std::find_if(launches.begin(), launches.end(),
                     [&](const Launch &each) { return each.kernel == kernel; });
    if (launch == launches.end())
      launch = launches.insert(launches.end(), Launch{kernel, {}});
    abi::AttentionArgs args = argsOf(layer, s, kernel, tensors);
    sequence.exactBlock = static_cast<int64_t>(launch->blocks.size());
    if (sequence.exact.all) {
      launch->blocks.push_back(args);
      sequence.pairs += pairsOf(layer, s, kernel, args);
      continue;
    }
    gather(s, tensors);
    auto addPart = [&](int64_t first, int64_t count) {
      args.query =
          rowOf(gatherQ.data(), starts[s] + first, attentionWidth(), dtype);
      args.output =
          rowOf(gatherO.data(), starts[s] + first, attentionWidth(), dtype);
      args.queryStride = args.outputStride = attentionWidth();
      if (needsLse)
        args.lse = lse.as<float>() + (starts[s] + first) * queryHeads;
      args.rows = count;
      args.place = sequence.places.data() + first;
      launch->blocks.push_back(args);
      sequence.pairs += pairsOf(layer, s, kernel, args);
    };
    addPart(0, exact);
    auto rest = static_cast<int64_t>(sequence.gathered.size()) - exact;
    if (rest > 0) {
      args.value = delta.row(0, s, 0);
      args.valueStride = kvWidth();
      addPart(exact, rest);
    }
  }
}

/// Pairs that a kernel computes for the rows of `args`, all heads.
int64_t Player::pairsOf(int64_t layer, int64_t s, size_t kernel,
                        const abi::AttentionArgs &args) {
  const std::vector<bundle::Term> &terms = schedule.kernels[kernel].terms;
  if (terms.empty())
    return queryHeads * args.rows * args.n;
  if (!pairsDependOnLists(terms)) {
    if (!listsOf[kernel].empty())
      return queryHeads * args.rows * args.lists[0].keep;
    return queryHeads * pairsOfRows(terms, args, 0, {}, {});
  }
  int64_t &known =
      knownPairs[(layer * static_cast<int64_t>(sequences.size()) + s) *
                     static_cast<int64_t>(schedule.kernels.size()) +
                 static_cast<int64_t>(kernel)];
  bool whole = args.rows == args.n;
  if (whole && known >= 0)
    return known;
  std::vector<int64_t> ofHead(static_cast<size_t>(queryHeads));
  parallelFor(queryHeads, [&](int64_t head, int) {
    std::vector<int32_t> merged(
        static_cast<size_t>(mergedKeys(terms, args, groupsOf[kernel])));
    ofHead[head] = pairsOfRows(terms, args, head, groupsOf[kernel], merged);
  });
  int64_t pairs = 0;
  for (int64_t each : ofHead)
    pairs += each;
  if (whole)
    known = pairs;
  return pairs;
}

//===----------------------------------------------------------------------===//
// What rows that are not exact contribute
//===----------------------------------------------------------------------===//

/// Completes the output of a sequence's rows from what was gathered and cached,
/// renews the cached contexts and finds the next layer's salient rows.
/// Source: DyLLM, algorithm 1 and released code.
void Player::combine(int64_t layer, int64_t s,
                     const AttentionTensors &tensors) {
  Sequence &sequence = *sequences[s];
  const SequenceRows &rows = sequence.rows;
  const int64_t live = rows.rows(), width = attentionWidth();
  const int64_t bytes = width * byteSize(dtype);
  const bool compare = rows.pass().exact == Pass::Exact::Salient;
  if (!keepsContext() && sequence.exact.all)
    return;

  // Of each live row the gathered row, -1: none.
  std::vector<int32_t> gatheredAt(static_cast<size_t>(live), -1);
  if (!sequence.exact.all && sequence.exactBlock >= 0)
    for (size_t i = 0; i < sequence.gathered.size(); ++i)
      gatheredAt[sequence.gathered[i]] = static_cast<int32_t>(i);
  auto exactRows = static_cast<int32_t>(sequence.exact.count(live));
  std::vector<float> similarity(compare ? live : 0);
  forRows(live, [&](int64_t row) {
    std::byte *output = rowOf(tensors.output, batch.offsets[s] + row,
                              tensors.outputStride, dtype);
    int32_t at = gatheredAt[row];
    const std::byte *from =
        at < 0 ? nullptr : rowOf(gatherO.data(), starts[s] + at, width, dtype);
    bool exact = sequence.exact.all || (at >= 0 && at < exactRows);
    if (exact && from)
      std::memcpy(output, from, bytes);
    if (!keepsContext())
      return; // attention's projected output is what is kept
    std::byte *cached = contextStore.row(layer, s, rows.livePlaces()[row]);
    if (!exact && !from) { // nothing has changed
      std::memcpy(output, cached, bytes);
      if (compare)
        similarity[row] = 1;
      return;
    }
    if (exact && !compare) {
      std::memcpy(cached, output, bytes);
      return;
    }
    thread_local std::vector<float> nowMemory, beforeMemory;
    float *now = rowBuffer(nowMemory, width);
    float *before = rowBuffer(beforeMemory, width);
    convert(dtype, cached, DType::F32, before, width);
    convert(dtype, exact ? output : from, DType::F32, now, width);
    if (!exact) { // `from` is what the changed values add
      for (int64_t e = 0; e < width; ++e)
        now[e] += before[e];
      convert(DType::F32, now, dtype, output, width);
    }
    if (compare)
      similarity[row] = cosine(now, before, width);
    std::memcpy(cached, output, bytes);
  });
  if (keepsContext()) {
    counted.cacheBytesWritten += live * bytes;
    counted.cacheBytesRead += (compare ? live : live - exactRows) * bytes;
  }
  if (!compare)
    return;
  const bundle::Ratio below = rows.pass().below;
  double limit =
      static_cast<double>(below.num) / static_cast<double>(below.den);
  sequence.salient = {false, {}};
  for (int64_t row = 0; row < live; ++row)
    if (!(static_cast<double>(similarity[row]) >= limit)) // NaN is salient
      sequence.salient.rows.push_back(static_cast<int32_t>(row));
}

/// The changes of V of this layer are no longer needed.
void Player::clearDelta(int64_t s) {
  const Sequence &sequence = *sequences[s];
  if (!sequence.propagates)
    return;
  for (int32_t row : sequence.exact.rows)
    std::memset(delta.row(0, s, sequence.rows.livePlaces()[row]), 0,
                delta.rowBytes());
}

//===----------------------------------------------------------------------===//
// Selections
//===----------------------------------------------------------------------===//

/// Runs attention once more for the log-sum-exps that a selection is scored by
/// where attention's own are not those: with another scale, or over the keys of
/// the second span alone. `args` are attention's.
Status Player::scoringLse(const Selection &selection, size_t kernel,
                          abi::AttentionArgs args, abi::SelectArgs &select,
                          int64_t start) {
  if (!needsScoring)
    return Status::success();
  args.output = rowOf(scoringO.data(), start, attentionWidth(), dtype);
  args.outputStride = attentionWidth();
  args.scale = select.scale;
  float *scratch = scoringL.as<float>() + 2 * start * queryHeads;
  if (selection.scale != Selection::Scale::HeadDim) {
    args.lse = scratch;
    select.lse = scratch;
    counted.scorePairs += queryHeads * args.rows * args.n;
    if (Status status = runner->attend(kernel, std::span(&args, 1)); !status)
      return status;
  }
  if (selection.isolation != Selection::Isolation::Filtered ||
      select.boundary == 0)
    return Status::success();
  if (!schedule.kernels[kernel].terms.empty())
    return Error(
        "selection '" + selection.name +
        "' is scored among the keys of the response alone, which takes "
        "a phase of dense attention");
  int64_t firstKey = select.boundary * selection.group;
  args.key = rowOf(args.key, firstKey, args.keyStride, dtype);
  args.value = rowOf(args.value, firstKey, args.valueStride, dtype);
  args.position += firstKey;
  args.n -= firstKey;
  args.lse = scratch + args.rows * queryHeads;
  select.spanLse = args.lse;
  counted.scorePairs += queryHeads * args.rows * args.n;
  return runner->attend(kernel, std::span(&args, 1));
}

/// Renews the selections that are due from this layer's Q, K and log-sum-exps.
Status Player::refresh(int64_t layer) {
  for (const Launch &launch : launches)
    for (size_t selection = 0; selection < schedule.selections.size();
         ++selection) {
      std::vector<abi::SelectArgs> blocks;
      std::vector<int64_t> renewed;
      size_t kernel = 0;
      for (size_t at = 0; at < sequences.size(); ++at) {
        auto s = static_cast<int64_t>(at);
        const Sequence &sequence = *sequences[at];
        if (sequence.exactBlock < 0)
          continue;
        const Phase &phase = phaseOf(layer, sequence);
        if (static_cast<size_t>(phase.attention) != launch.kernel)
          continue;
        auto due = std::find_if(
            phase.refreshes.begin(), phase.refreshes.end(),
            [&](const Phase::Refresh &each) {
              return each.selection == static_cast<int64_t>(selection) &&
                     program.renews(each.selection, sequence.rows.place());
            });
        if (due == phase.refreshes.end())
          continue;
        kernel = static_cast<size_t>(due->kernel);
        const Selection &what = schedule.selections[selection];
        const abi::AttentionArgs &attention =
            launch.blocks[sequence.exactBlock];
        abi::SelectArgs args = abi::selectArgsOf(attention);
        if (what.scale == Selection::Scale::Heads)
          args.scale = static_cast<float>(
              1 / std::sqrt(static_cast<double>(queryHeads)));
        args.list = lists.list(layer, s, static_cast<int64_t>(selection));
        if (what.kind == Selection::Kind::Blocks) {
          const std::vector<int32_t> &visible = sequence.rows.positions();
          int64_t prompt =
              std::lower_bound(visible.begin(), visible.end(),
                               sequence.rows.shape().promptLength) -
              visible.begin();
          BlockSpans spans = blockSpans(what, args.n, prompt);
          args.boundary = spans.boundary;
          args.spanKeep = spans.spanKeep;
        }
        if (Status status =
                scoringLse(what, launch.kernel, attention, args, starts[at]);
            !status)
          return status;
        blocks.push_back(args);
        renewed.push_back(s);
      }
      if (blocks.empty())
        continue;
      if (Status status = runner->select(kernel, blocks); !status)
        return status;
      for (int64_t s : renewed) {
        int64_t n = sequences[s]->rows.n();
        lists.markFilled(layer, s, static_cast<int64_t>(selection));
        size_t kernels = schedule.kernels.size();
        std::fill_n(knownPairs.begin() +
                        (layer * sequences.size() + s) * kernels,
                    kernels, -1);
        renewedNow[s].push_back(static_cast<int64_t>(selection));
        counted.scorePairs += n * n * queryHeads;
        ++counted.refreshes;
      }
    }
  return Status::success();
}

//===----------------------------------------------------------------------===//
// The layer
//===----------------------------------------------------------------------===//

Status Player::attend(int64_t layer, const PackedBatch &given,
                      const AttentionTensors &tensors) {
  if (Status status = enter(layer, Stage::Attend); !status)
    return status;
  if (Status status = checkTensors(given, tensors); !status)
    return status;
  if (Status status = checkLists(layer); !status)
    return status;
  underWay = true;
  for (std::vector<int64_t> &renewed : renewedNow)
    renewed.clear();
  if (schedule.reuse.kv)
    storeKeysAndValues(layer, tensors);
  planLaunches(layer, tensors);
  for (const std::unique_ptr<Sequence> &sequence : sequences)
    counted.pairs += sequence->pairs;
  for (Launch &launch : launches)
    if (Status status = runner->attend(launch.kernel, launch.blocks); !status)
      return status;
  for (size_t s = 0; s < sequences.size(); ++s) {
    const SequenceRows &rows = sequences[s]->rows;
    if (rows.active())
      counted.densePairs +=
          queryHeads * rows.shape().length * rows.shape().length;
    if (rows.rows() == 0)
      continue;
    combine(layer, static_cast<int64_t>(s), tensors);
    clearDelta(static_cast<int64_t>(s));
  }
  return refresh(layer);
}
