//===- HandKernels.cpp - Kernels as a person would write them -------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A shared object that obeys the kernel ABI without a compiler of ours: plain
// loops in fp32 over one row at a time. The runtime's tests put it into
// bundles; HandBundle.cpp lists what it exports.
//
//===----------------------------------------------------------------------===//

#include "bundle/abi/Abi.h"
#include "bundle/abi/IndexLayout.h"
#include "runtime/tensor/DType.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>

using namespace heddle;

namespace {

/// What a kernel attends to; -1 switches a term off.
struct Pattern {
  int64_t rows;
  bool lse = false;
  int64_t window = -1;
  int64_t sinks = -1;
  bool share = false;          ///< as many sinks as the arguments say
  int64_t columns[2] = {0, 0}; ///< group sizes, 0: no such term
  bool dense() const {
    return window < 0 && sinks < 0 && !share && columns[0] == 0 &&
           columns[1] == 0;
  }
};

float get(const float *data, int64_t at) { return data[at]; }
float get(const uint16_t *data, int64_t at) { return rt::fromBF16(data[at]); }
void put(float *data, int64_t at, float value) { data[at] = value; }
void put(uint16_t *data, int64_t at, float value) {
  data[at] = rt::toBF16(value);
}

constexpr float log2e = 1.44269504088896341f;

template <typename T, int dim, typename Args>
float logit(const Args *args, int64_t head, int64_t row, int64_t key) {
  const T *q = static_cast<const T *>(args->query) + row * args->queryStride +
               head * dim;
  const T *k = static_cast<const T *>(args->key) + key * args->keyStride +
               head / args->kvGroup * dim;
  float dot = 0;
  for (int e = 0; e < dim; ++e)
    dot += get(q, e) * get(k, e);
  return dot * args->scale;
}

template <typename T, int dim, typename Args>
float logit2(const Args *args, int64_t head, int64_t row, int64_t key) {
  return logit<T, dim>(args, head, row, key) * log2e;
}

/// Scratch: n floats.
template <typename T, int dim>
void attend(const Pattern &pattern, const abi::AttentionArgs *args,
            int64_t head, int64_t tile, void *scratch) {
  constexpr float dropped = -std::numeric_limits<float>::infinity();
  float *weight = static_cast<float *>(scratch);
  int64_t n = args->n;
  const int32_t *position = args->position;
  int64_t begin = args->firstRow[tile];
  int64_t end =
      std::min<int64_t>(begin + pattern.rows, args->firstRow[tile + 1]);
  for (int64_t row = begin; row < end; ++row) {
    int64_t place = args->place[row];
    for (int64_t key = 0; key < n; ++key) {
      bool keep =
          pattern.dense() ||
          (pattern.window >= 0 &&
           std::abs(position[place] - position[key]) <= pattern.window / 2) ||
          position[key] < (pattern.share ? args->sinks : pattern.sinks);
      weight[key] = keep ? logit2<T, dim>(args, head, row, key) : dropped;
    }
    for (int c = 0; c < 2; ++c) {
      if (pattern.columns[c] == 0)
        continue;
      const abi::IndexList &list = args->lists[c];
      const int32_t *keys = bundle::int32Keys(list, head / list.headsPerList,
                                              place / pattern.columns[c]);
      for (int64_t k = 0; k < list.keep; ++k)
        weight[keys[k]] = logit2<T, dim>(args, head, row, keys[k]);
    }
    float top = *std::max_element(weight, weight + n);
    float sum = 0;
    float result[dim] = {};
    for (int64_t key = 0; key < n; ++key) {
      if (weight[key] == dropped)
        continue;
      float p = std::exp2(weight[key] - top);
      sum += p;
      const T *v = static_cast<const T *>(args->value) +
                   key * args->valueStride + head / args->kvGroup * dim;
      for (int e = 0; e < dim; ++e)
        result[e] += p * get(v, e);
    }
    T *out =
        static_cast<T *>(args->output) + row * args->outputStride + head * dim;
    for (int e = 0; e < dim; ++e)
      put(out, e, result[e] / sum);
    if (pattern.lse)
      args->lse[head * args->rows + row] = top + std::log2(sum);
  }
}

/// Scratch: n floats.
template <typename T, int dim>
void select(int64_t group, bool logits, const abi::SelectArgs *args,
            int64_t head, int64_t tile, void *scratch) {
  float *scores = static_cast<float *>(scratch);
  int64_t n = args->n, begin = tile * group, end = std::min(begin + group, n);
  for (int64_t key = 0; key < n; ++key) {
    scores[key] = 0;
    for (int64_t row = begin; row < end; ++row)
      scores[key] += logits ? logit<T, dim>(args, head, row, key)
                            : std::exp2(logit2<T, dim>(args, head, row, key) -
                                        args->lse[head * n + row]);
    scores[key] /= static_cast<float>(end - begin);
  }
  const float least = logits ? *std::min_element(scores, scores + n) : 0;
  for (int64_t key = 0; key < n; ++key)
    scores[key] -= least;
  std::fill(scores + args->alwaysBegin, scores + args->alwaysEnd,
            std::numeric_limits<float>::infinity());
  int64_t list = head * args->list.groups + tile;
  if (args->scores)
    std::copy(scores, scores + n, args->scores + list * n);
  // A key is kept if fewer than `keep` keys go before it.
  int32_t *out = bundle::int32Keys(args->list, head, tile);
  for (int64_t key = 0; key < n; ++key) {
    int64_t before = 0;
    for (int64_t other = 0; other < n; ++other)
      before += scores[other] > scores[key] ||
                (scores[other] == scores[key] && other < key);
    if (before < args->list.keep)
      *out++ = static_cast<int32_t>(key);
  }
}

} // namespace

#define HEDDLE_ATTENTION(name, ...)                                            \
  extern "C" void name##_f32_d8(const abi::AttentionArgs *args, int64_t head,  \
                                int64_t tile, void *scratch) {                 \
    attend<float, 8>(Pattern{__VA_ARGS__}, args, head, tile, scratch);         \
  }                                                                            \
  extern "C" void name##_bf16_d8(const abi::AttentionArgs *args, int64_t head, \
                                 int64_t tile, void *scratch) {                \
    attend<uint16_t, 8>(Pattern{__VA_ARGS__}, args, head, tile, scratch);      \
  }

#define HEDDLE_SELECT(name, group, logits)                                     \
  extern "C" void name##_f32_d8(const abi::SelectArgs *args, int64_t head,     \
                                int64_t tile, void *scratch) {                 \
    select<float, 8>(group, logits, args, head, tile, scratch);                \
  }                                                                            \
  extern "C" void name##_bf16_d8(const abi::SelectArgs *args, int64_t head,    \
                                 int64_t tile, void *scratch) {                \
    select<uint16_t, 8>(group, logits, args, head, tile, scratch);             \
  }

HEDDLE_ATTENTION(dense, .rows = 8)
HEDDLE_ATTENTION(dense_lse, .rows = 16, .lse = true)
HEDDLE_ATTENTION(columns16, .rows = 16, .columns = {16, 0})
HEDDLE_ATTENTION(columns32, .rows = 16, .columns = {32, 0})
HEDDLE_ATTENTION(window6, .rows = 8, .window = 6)
HEDDLE_ATTENTION(window5_sinks2, .rows = 3, .window = 5, .sinks = 2)
HEDDLE_ATTENTION(sinks3_lse, .rows = 8, .lse = true, .sinks = 3)
HEDDLE_ATTENTION(window5_share, .rows = 8, .window = 5, .share = true)
HEDDLE_ATTENTION(share_lse, .rows = 8, .lse = true, .share = true)
HEDDLE_ATTENTION(columns16_window6_sinks2, .rows = 8, .window = 6, .sinks = 2,
                 .columns = {16, 0})
HEDDLE_ATTENTION(columns16_columns32_lse, .rows = 16, .lse = true,
                 .columns = {16, 32})
HEDDLE_SELECT(select16, 16, false)
HEDDLE_SELECT(select32, 32, false)
HEDDLE_SELECT(select16_logits, 16, true)

/// Exported like the kernels, and none.
extern "C" const int data_f32_d8;
const int data_f32_d8 = 1;
