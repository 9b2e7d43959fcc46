//===- IndexLists.cpp - The column lists of a run -------------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/cache/IndexLists.h"

#include <cassert>
#include <limits>

using namespace heddle;
using namespace heddle::rt;

static constexpr int64_t tooMany = std::numeric_limits<int64_t>::max();

/// a * b and a + b of non-negative numbers that stay at INT64_MAX.
static int64_t times(int64_t a, int64_t b) {
  int64_t product;
  return __builtin_mul_overflow(a, b, &product) ? tooMany : product;
}
static int64_t plus(int64_t a, int64_t b) {
  int64_t sum;
  return __builtin_add_overflow(a, b, &sum) ? tooMany : sum;
}

/// Groups and kept keys of a selection over `n` tokens; no memory yet.
static abi::IndexList shapeOf(const bundle::Selection &selection, int64_t n) {
  assert(n >= 1 && selection.group >= 1);
  abi::IndexList list;
  list.indices = nullptr;
  list.groups = (n - 1) / selection.group + 1;
  list.keep = bundle::keepCount(selection.keep, selection.rule, n);
  return list;
}

/// Bytes of one list, a multiple of a cache line.
static int64_t paddedBytes(const abi::IndexList &list, int64_t queryHeads) {
  constexpr int64_t line = 64;
  int64_t bytes = times(times(times(queryHeads, list.groups), list.keep),
                        static_cast<int64_t>(sizeof(int32_t)));
  return bytes > tooMany - line ? tooMany : (bytes + line - 1) / line * line;
}

int64_t IndexLists::bytesFor(const IndexListShape &shape) {
  int64_t total = 0;
  for (size_t s = 0; s < shape.selections.size(); ++s) {
    int64_t layers = 0;
    for (const std::vector<bool> &kept : shape.keeps)
      layers += kept[s];
    if (layers == 0)
      continue;
    for (int64_t n : shape.lengths)
      total =
          plus(total, times(layers, paddedBytes(shapeOf(shape.selections[s], n),
                                                shape.queryHeads)));
  }
  return total;
}

Result<IndexLists> IndexLists::allocate(const IndexListShape &shape) {
  IndexLists result;
  result.sequences = static_cast<int64_t>(shape.lengths.size());
  result.selections = static_cast<int64_t>(shape.selections.size());
  int64_t bytes = bytesFor(shape);
  if (bytes > 0) {
    Result<Buffer> memory = Buffer::allocate(bytes);
    if (!memory)
      return memory.takeError().withContext("index lists");
    result.memory = std::move(*memory);
  }
  std::byte *next = result.memory.data();
  result.lists.reserve(shape.keeps.size() * shape.lengths.size() *
                       shape.selections.size());
  for (const std::vector<bool> &kept : shape.keeps) {
    for (int64_t n : shape.lengths) {
      for (size_t s = 0; s < shape.selections.size(); ++s) {
        abi::IndexList list = shapeOf(shape.selections[s], n);
        if (kept[s]) {
          list.indices = reinterpret_cast<int32_t *>(next);
          next += paddedBytes(list, shape.queryHeads);
        }
        result.lists.push_back(list);
      }
    }
  }
  result.written.assign(result.lists.size(), 0);
  return result;
}
