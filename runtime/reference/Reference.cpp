//===- Reference.cpp - What the kernels must compute ----------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/reference/Reference.h"

#include "bundle/abi/IndexLayout.h"
#include "runtime/tensor/Convert.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <numeric>

using namespace heddle;
using namespace heddle::rt;
using bundle::Term;

double reference::load(const void *array, int64_t index, DType dtype) {
  if (dtype == DType::BF16)
    return fromBF16(static_cast<const uint16_t *>(array)[index]);
  if (dtype == DType::F16)
    return fromF16(static_cast<const uint16_t *>(array)[index]);
  return static_cast<const float *>(array)[index];
}

void reference::store(void *array, int64_t index, DType dtype, double value) {
  if (dtype == DType::BF16)
    static_cast<uint16_t *>(array)[index] = toBF16(static_cast<float>(value));
  else if (dtype == DType::F16)
    static_cast<uint16_t *>(array)[index] = toF16(static_cast<float>(value));
  else
    static_cast<float *>(array)[index] = static_cast<float>(value);
}

const bundle::Scores &reference::noScores() {
  static const bundle::Scores none;
  return none;
}

reference::Head reference::headOf(const abi::AttentionArgs &args, int64_t head,
                                  int64_t headDim, DType dtype,
                                  const bundle::Scores &scores) {
  auto element = [&](const void *array, int64_t index) -> const void * {
    return static_cast<const std::byte *>(array) + index * byteSize(dtype);
  };
  Head result;
  result.query = element(args.query, head * headDim);
  result.key = element(args.key, head / args.kvGroup * headDim);
  result.value = element(args.value, head / args.kvGroup * headDim);
  result.queryStride = args.queryStride;
  result.keyStride = args.keyStride;
  result.valueStride = args.valueStride;
  result.n = args.n;
  result.headDim = headDim;
  result.scale = args.scale;
  result.dtype = dtype;
  result.place = args.place;
  result.position = args.position;
  result.index = head;
  result.scores = &scores;
  return result;
}

reference::Head reference::headOf(const abi::SelectArgs &args, int64_t head,
                                  int64_t headDim, DType dtype,
                                  const bundle::Scores &scores) {
  abi::AttentionArgs same{};
  same.query = args.query;
  same.key = same.value = args.key;
  same.queryStride = args.queryStride;
  same.keyStride = args.keyStride;
  same.n = args.n;
  same.kvGroup = args.kvGroup;
  same.scale = args.scale;
  same.position = args.position;
  return headOf(same, head, headDim, dtype, scores);
}

/// Calls `f` with a function that reads an element of arrays of `dtype` as a
/// double: what the type is is asked once, not at every element.
template <typename F> static auto withReader(DType dtype, F f) {
  switch (dtype) {
  case DType::BF16:
    return f([](const void *array, int64_t index) -> double {
      return fromBF16(static_cast<const uint16_t *>(array)[index]);
    });
  case DType::F16:
    return f([](const void *array, int64_t index) -> double {
      return fromF16(static_cast<const uint16_t *>(array)[index]);
    });
  default:
    return f([](const void *array, int64_t index) -> double {
      return static_cast<const float *>(array)[index];
    });
  }
}

/// The scaled logit of (row, key) times log2(e).
static double logit2(const reference::Head &head, int64_t row, int64_t key) {
  return withReader(head.dtype, [&](auto read) {
    int64_t q = row * head.queryStride, k = key * head.keyStride;
    // Sums that do not wait for each other.
    constexpr int64_t lanes = 8;
    double sums[lanes] = {};
    int64_t e = 0;
    for (; e + lanes <= head.headDim; e += lanes)
      for (int64_t lane = 0; lane < lanes; ++lane)
        sums[lane] +=
            read(head.query, q + e + lane) * read(head.key, k + e + lane);
    for (; e < head.headDim; ++e)
      sums[0] += read(head.query, q + e) * read(head.key, k + e);
    double logit = std::accumulate(sums, sums + lanes, 0.0) * head.scale;
    if (head.scores && !head.scores->empty()) {
      // Where no position counts, rows may stand elsewhere.
      const bool placed = head.scores->usesPositions();
      logit = bundle::evaluate(
          *head.scores, logit, placed ? head.positionOf(head.placeOf(row)) : 0,
          placed ? head.positionOf(key) : 0, static_cast<int32_t>(head.index));
    }
    return logit * std::numbers::log2e;
  });
}

/// output += weight * the values of `key`.
static void addValues(const reference::Head &head, int64_t key, double weight,
                      std::span<double> output) {
  withReader(head.dtype, [&](auto read) {
    for (int64_t e = 0; e < head.headDim; ++e)
      output[e] += weight * read(head.value, key * head.valueStride + e);
  });
}

reference::RowResult reference::attendRow(const Head &head, int64_t row,
                                          const PairPredicate &keeps) {
  RowResult result;
  result.output.assign(static_cast<size_t>(head.headDim), 0);
  std::vector<int64_t> keys;
  for (int64_t key = 0; key < head.n; ++key)
    if (keeps(head.placeOf(row), key))
      keys.push_back(key);
  result.pairs = static_cast<int64_t>(keys.size());
  result.lse = -std::numeric_limits<double>::infinity();
  if (keys.empty())
    return result;

  std::vector<double> logits;
  for (int64_t key : keys)
    logits.push_back(logit2(head, row, key));
  double top = *std::max_element(logits.begin(), logits.end());
  if (top == -std::numeric_limits<double>::infinity())
    return result; // all of them are masked
  double sum = 0;
  for (double logit : logits)
    sum += std::exp2(logit - top);
  result.lse = top + std::log2(sum);
  for (size_t k = 0; k < keys.size(); ++k)
    addValues(head, keys[k], std::exp2(logits[k] - top) / sum, result.output);
  return result;
}

std::vector<double> reference::meanProbability(const Head &head, int64_t begin,
                                               int64_t end,
                                               std::span<const float> lse) {
  std::vector<double> scores(static_cast<size_t>(head.n), 0);
  for (int64_t key = 0; key < head.n; ++key) {
    for (int64_t row = begin; row < end; ++row)
      if (std::isinf(lse[row]) && lse[row] < 0)
        continue; // all keys are masked
      else
        scores[key] +=
            std::exp2(logit2(head, row, key) - static_cast<double>(lse[row]));
    scores[key] /= static_cast<double>(end - begin);
  }
  return scores;
}

std::vector<double> reference::meanLogit(const Head &head, int64_t begin,
                                         int64_t end) {
  std::vector<double> scores(static_cast<size_t>(head.n), 0);
  withReader(head.dtype, [&](auto read) {
    for (int64_t e = 0; e < head.headDim; ++e) {
      double query = 0;
      for (int64_t row = begin; row < end; ++row)
        query += read(head.query, row * head.queryStride + e);
      query *= head.scale / static_cast<double>(end - begin);
      for (int64_t key = 0; key < head.n; ++key)
        scores[key] += query * read(head.key, key * head.keyStride + e);
    }
  });
  return scores;
}

std::vector<double> reference::scoresOfList(const abi::SelectArgs &args,
                                            const bundle::Kernel &kernel,
                                            int64_t list, int64_t begin,
                                            int64_t end, const float *lse,
                                            int64_t headDim, DType dtype,
                                            bool padded) {
  auto ofEntries = [&](std::vector<double> keys) {
    return kernel.blocks
               ? blockMeans(keys, kernel.group, args.list.split, padded)
               : keys;
  };
  if (readsLse(kernel.scorer))
    return ofEntries(
        listScores(args, list, begin, end, lse, headDim, dtype, kernel.scores));
  std::vector<double> scores(static_cast<size_t>(args.n), 0);
  const int64_t heads = args.list.headsPerList;
  for (int64_t head = list * heads; head < (list + 1) * heads; ++head) {
    std::vector<double> one =
        meanLogit(headOf(args, head, headDim, dtype), begin, end);
    for (size_t key = 0; key < scores.size(); ++key)
      scores[key] += one[key] / static_cast<double>(heads);
  }
  scores = ofEntries(std::move(scores));
  const double least = *std::min_element(scores.begin(), scores.end());
  for (double &score : scores)
    score -= least;
  return scores;
}

std::vector<double> reference::listScores(const abi::SelectArgs &args,
                                          int64_t list, int64_t begin,
                                          int64_t end, const float *lse,
                                          int64_t headDim, DType dtype,
                                          const bundle::Scores &function) {
  std::vector<double> scores(static_cast<size_t>(args.n), 0);
  int64_t heads = args.list.headsPerList;
  for (int64_t head = list * heads; head < (list + 1) * heads; ++head) {
    std::vector<double> one = meanProbability(
        headOf(args, head, headDim, dtype, function), begin, end,
        std::span(lse + head * args.n, static_cast<size_t>(args.n)));
    for (size_t key = 0; key < scores.size(); ++key)
      scores[key] += one[key] / static_cast<double>(heads);
  }
  return scores;
}

std::vector<double> reference::chosenBy(const abi::SelectArgs &args,
                                        std::span<const double> scores,
                                        int64_t pooled) {
  std::vector<double> result(scores.size(),
                             std::numeric_limits<double>::infinity());
  std::vector<size_t> others;
  for (size_t key = 0; key < scores.size(); ++key)
    if (static_cast<int64_t>(key) < args.alwaysBegin ||
        static_cast<int64_t>(key) >= args.alwaysEnd)
      others.push_back(key);
  for (size_t i = 0; i < others.size(); ++i) {
    double &best = result[others[i]];
    best = scores[others[i]];
    for (size_t j = 0; j < others.size(); ++j)
      if (2 * (i > j ? i - j : j - i) < static_cast<size_t>(pooled))
        best = std::max(best, scores[others[j]]);
  }
  return result;
}

std::vector<double> reference::chosenWithin(const abi::SelectArgs &args,
                                            const bundle::Kernel &kernel,
                                            int64_t list, int64_t group,
                                            std::vector<double> by,
                                            bundle::Encoding encoding) {
  if (kernel.withinGroup == 0)
    return by;
  const abi::IndexList &outer = args.within;
  std::vector<int32_t> entries(static_cast<size_t>(outer.keep));
  bundle::decodeList(
      kernel.withinBlocks ? bundle::Encoding::Int32 : encoding, args.n,
      bundle::listRow(outer, list * args.list.headsPerList / outer.headsPerList,
                      group * kernel.group / kernel.withinGroup),
      entries);
  for (size_t key = 0; key < by.size(); ++key) {
    const auto at = static_cast<int64_t>(key);
    const int64_t entry =
        kernel.withinBlocks ? blockOf(at, kernel.withinGroup, outer.split) : at;
    const bool listed =
        std::find(entries.begin(), entries.end(), entry) != entries.end();
    if (at >= args.alwaysBegin && at < args.alwaysEnd)
      continue;
    constexpr double least = std::numeric_limits<float>::denorm_min();
    by[key] = listed ? std::max(by[key], least) : 0;
  }
  return by;
}

std::vector<double> reference::blockMeans(std::span<const double> scores,
                                          int64_t size, int64_t split,
                                          bool padded) {
  std::vector<double> sums, counts;
  for (size_t key = 0; key < scores.size(); ++key) {
    auto block =
        static_cast<size_t>(blockOf(static_cast<int64_t>(key), size, split));
    sums.resize(block + 1);
    counts.resize(block + 1);
    sums[block] += scores[key];
    counts[block] += 1;
  }
  for (size_t block = 0; block < sums.size(); ++block)
    sums[block] /= padded ? static_cast<double>(size) : counts[block];
  return sums;
}

template <typename T>
static std::vector<int32_t> largestOf(std::span<const T> scores,
                                      int64_t count) {
  std::vector<int32_t> order(scores.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
    return scores[a] != scores[b] ? scores[a] > scores[b] : a < b;
  });
  order.resize(static_cast<size_t>(count));
  std::sort(order.begin(), order.end());
  return order;
}

std::vector<int32_t> reference::largest(std::span<const double> scores,
                                        int64_t count) {
  return largestOf(scores, count);
}
std::vector<int32_t> reference::largest(std::span<const float> scores,
                                        int64_t count) {
  return largestOf(scores, count);
}

template <typename T>
static std::vector<int32_t> chosenOf(const abi::SelectArgs &args,
                                     std::span<const T> scores,
                                     std::span<const T> spanScores) {
  if (args.boundary == 0)
    return largestOf(scores, args.list.keep);
  auto boundary = static_cast<size_t>(args.boundary);
  std::vector<int32_t> chosen;
  if (spanScores.empty()) {
    chosen = largestOf(scores.first(boundary), args.spanKeep);
    spanScores = scores.subspan(boundary);
  } else {
    chosen = largestOf(scores, args.spanKeep);
    std::erase_if(chosen,
                  [&](int32_t block) { return block >= args.boundary; });
  }
  for (int32_t block : largestOf(spanScores, args.list.keep - args.spanKeep))
    chosen.push_back(static_cast<int32_t>(args.boundary) + block);
  chosen.resize(static_cast<size_t>(args.list.keep), -1);
  return chosen;
}

std::vector<int32_t>
reference::chosenBlocks(const abi::SelectArgs &args,
                        std::span<const double> scores,
                        std::span<const double> spanScores) {
  return chosenOf(args, scores, spanScores);
}
std::vector<int32_t>
reference::chosenBlocks(const abi::SelectArgs &args,
                        std::span<const float> scores,
                        std::span<const float> spanScores) {
  return chosenOf(args, scores, spanScores);
}
