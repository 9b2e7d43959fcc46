//===- Reference.cpp - What the kernels must compute ----------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/reference/Reference.h"

#include "bundle/IndexLayout.h"
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

reference::Head reference::headOf(const abi::AttentionArgs &args, int64_t head,
                                  int64_t headDim, DType dtype) {
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
  return result;
}

reference::PairPredicate
reference::pairsOf(std::span<const Term> terms, int64_t head,
                   std::span<const abi::IndexList> lists,
                   std::span<const int64_t> groups) {
  if (terms.empty())
    return [](int64_t, int64_t) { return true; };
  return [=](int64_t row, int64_t key) {
    size_t column = 0;
    for (const Term &term : terms) {
      switch (term.kind) {
      case Term::Kind::Window:
        if (std::abs(row - key) <= term.size / 2)
          return true;
        break;
      case Term::Kind::Sinks:
        if (key < term.size)
          return true;
        break;
      case Term::Kind::Columns: {
        const abi::IndexList &list = lists[column];
        int64_t group = row / groups[column];
        const int32_t *keys = bundle::int32Keys(list, head, group);
        if (std::find(keys, keys + list.keep, key) != keys + list.keep)
          return true;
        ++column;
        break;
      }
      }
    }
    return false;
  };
}

/// The scaled logit of (row, key) times log2(e).
static double logit2(const reference::Head &head, int64_t row, int64_t key) {
  double dot = 0;
  for (int64_t e = 0; e < head.headDim; ++e)
    dot += reference::load(head.query, row * head.queryStride + e, head.dtype) *
           reference::load(head.key, key * head.keyStride + e, head.dtype);
  return dot * head.scale * std::numbers::log2e;
}

reference::RowResult reference::attendRow(const Head &head, int64_t row,
                                          const PairPredicate &keeps) {
  RowResult result;
  result.output.assign(static_cast<size_t>(head.headDim), 0);
  std::vector<int64_t> keys;
  for (int64_t key = 0; key < head.n; ++key)
    if (keeps(row, key))
      keys.push_back(key);
  result.pairs = static_cast<int64_t>(keys.size());
  result.lse = -std::numeric_limits<double>::infinity();
  if (keys.empty())
    return result;

  std::vector<double> logits;
  for (int64_t key : keys)
    logits.push_back(logit2(head, row, key));
  double top = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (double logit : logits)
    sum += std::exp2(logit - top);
  result.lse = top + std::log2(sum);
  for (size_t k = 0; k < keys.size(); ++k) {
    double probability = std::exp2(logits[k] - top) / sum;
    for (int64_t e = 0; e < head.headDim; ++e)
      result.output[e] +=
          probability *
          load(head.value, keys[k] * head.valueStride + e, head.dtype);
  }
  return result;
}

std::vector<double> reference::meanProbability(const Head &head, int64_t begin,
                                               int64_t end,
                                               std::span<const float> lse) {
  std::vector<double> scores(static_cast<size_t>(head.n), 0);
  for (int64_t key = 0; key < head.n; ++key) {
    for (int64_t row = begin; row < end; ++row)
      scores[key] +=
          std::exp2(logit2(head, row, key) - static_cast<double>(lse[row]));
    scores[key] /= static_cast<double>(end - begin);
  }
  return scores;
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
