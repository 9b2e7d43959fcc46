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

/// Groups, kept keys and row of a selection over `n` tokens; no memory yet.
static abi::IndexList shapeOf(const bundle::Selection &selection, int64_t n,
                              bundle::Encoding encoding) {
  assert(n >= 1 && selection.group >= 1);
  abi::IndexList list;
  list.indices = nullptr;
  list.groups = (n - 1) / selection.group + 1;
  list.keep = bundle::keepCount(selection.keep, selection.rule, n);
  list.rowBytes = bundle::listRowBytes(encoding, n, list.keep);
  return list;
}

/// Bytes of one list, a multiple of a cache line.
static int64_t paddedBytes(const abi::IndexList &list, int64_t queryHeads) {
  constexpr int64_t line = 64;
  int64_t bytes = times(times(queryHeads, list.groups), list.rowBytes);
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
      total = plus(total, times(layers, paddedBytes(shapeOf(shape.selections[s],
                                                            n, shape.encoding),
                                                    shape.queryHeads)));
  }
  return total;
}

IndexLists IndexLists::at(const IndexListShape &shape, void *memory) {
  IndexLists result;
  result.sequences = static_cast<int64_t>(shape.lengths.size());
  result.selections = static_cast<int64_t>(shape.selections.size());
  auto *next = static_cast<std::byte *>(memory);
  result.lists.reserve(shape.keeps.size() * shape.lengths.size() *
                       shape.selections.size());
  for (const std::vector<bool> &kept : shape.keeps) {
    for (int64_t n : shape.lengths) {
      for (size_t s = 0; s < shape.selections.size(); ++s) {
        abi::IndexList list = shapeOf(shape.selections[s], n, shape.encoding);
        if (kept[s]) {
          list.indices = next;
          next += paddedBytes(list, shape.queryHeads);
        }
        result.lists.push_back(list);
      }
    }
  }
  result.written.assign(result.lists.size(), 0);
  return result;
}

Result<IndexLists> IndexLists::allocate(const IndexListShape &shape) {
  Buffer memory;
  if (int64_t bytes = bytesFor(shape); bytes > 0) {
    Result<Buffer> allocated = Buffer::allocate(bytes);
    if (!allocated)
      return allocated.takeError().withContext("index lists");
    memory = std::move(*allocated);
  }
  IndexLists result = at(shape, memory.data());
  result.memory = std::move(memory);
  return result;
}
