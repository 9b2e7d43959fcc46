//===- IndexLists.cpp - The index lists of a run --------------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/cache/IndexLists.h"

#include <algorithm>
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

static int64_t ceilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }

BlockSpans heddle::rt::blockSpans(const bundle::Selection &selection, int64_t n,
                                  int64_t promptPlaces) {
  using Isolation = bundle::Selection::Isolation;
  auto kept = [&](int64_t blocks) { return selection.kept(blocks); };
  int64_t size = selection.group;
  BlockSpans spans;
  spans.blocks = ceilDiv(n, size);
  spans.keep = kept(spans.blocks);
  if (selection.isolation == Isolation::None || promptPlaces <= 0 ||
      promptPlaces >= n)
    return spans;
  if (selection.isolation == Isolation::Spans) {
    spans.split = promptPlaces;
    spans.boundary = ceilDiv(promptPlaces, size);
    spans.blocks = spans.boundary + ceilDiv(n - promptPlaces, size);
    spans.spanKeep = kept(spans.boundary);
  } else {
    spans.boundary = std::min(ceilDiv(promptPlaces, size), spans.blocks - 1);
    if (spans.boundary == 0)
      return spans;
    spans.spanKeep =
        kept(selection.isolation == Isolation::Filtered ? spans.blocks
                                                        : spans.boundary);
  }
  spans.keep = spans.spanKeep + kept(spans.blocks - spans.boundary);
  return spans;
}

int64_t heddle::rt::keysToChoose(std::span<const bundle::Selection> all,
                                 const bundle::Selection &selection, int64_t n,
                                 int64_t promptPlaces, int64_t always) {
  if (selection.within < 0)
    return n;
  const bundle::Selection &outer = all[static_cast<size_t>(selection.within)];
  if (outer.kind == bundle::Selection::Kind::Columns)
    return outer.listed(n, std::min(n, always));
  const BlockSpans spans = blockSpans(outer, n, promptPlaces);
  return n - (spans.blocks - spans.keep) * outer.group;
}

/// Groups, kept keys and row of a selection over `n` places; no memory yet.
static abi::IndexList shapeOf(const bundle::Selection &selection, int64_t n,
                              int64_t promptPlaces,
                              const IndexListShape &shape) {
  assert(n >= 1 && selection.group >= 1);
  abi::IndexList list{};
  list.groups = (n - 1) / selection.group + 1;
  list.headsPerList = selection.headsPerList(shape.queryHeads, shape.kvHeads);
  if (selection.kind == bundle::Selection::Kind::Blocks) {
    BlockSpans spans = blockSpans(selection, n, promptPlaces);
    list.keep = spans.keep;
    list.split = spans.split;
    // Entries that a list does not need are -1, so it may have more than
    // blocks.
    list.rowBytes =
        bundle::listRowBytes(bundle::listEncoding(selection, shape.encoding),
                             std::max(spans.blocks, list.keep), list.keep);
    return list;
  }
  // Where some keys are always listed, by it or by what it chooses within, as
  // many as there can be, until it is known how many these are.
  const bool known =
      selection.within < 0 ||
      shape.selections[static_cast<size_t>(selection.within)].always < 0;
  list.keep = selection.always >= 0 ? n
              : known ? selection.kept(keysToChoose(shape.selections, selection,
                                                    n, promptPlaces, 0))
                      : selection.kept(n);
  list.rowBytes = bundle::listRowBytes(shape.encoding, n, list.keep);
  return list;
}

/// Bytes of one layer's lists of a sequence of at most `n` places, a multiple
/// of a cache line.
static int64_t paddedBytes(const bundle::Selection &selection, int64_t n,
                           const IndexListShape &shape) {
  abi::IndexList list = shapeOf(selection, n, 0, shape);
  if (selection.kind == bundle::Selection::Kind::Blocks &&
      selection.isolation != bundle::Selection::Isolation::None) {
    // Two spans have at most one block more than one, and each span's share is
    // at most that of them all.
    int64_t blocks = list.groups + 1;
    int64_t keep = 2 * selection.kept(blocks);
    list.rowBytes = bundle::listRowBytes(
        bundle::listEncoding(selection, shape.encoding), 2 * blocks, keep);
  }
  // Within blocks that start anew it chooses from more or fewer.
  if (selection.within >= 0 && selection.always < 0)
    list.rowBytes = bundle::listRowBytes(shape.encoding, n, selection.kept(n));
  constexpr int64_t line = 64;
  int64_t rows = times(shape.queryHeads / list.headsPerList, list.groups);
  int64_t bytes = times(rows, list.rowBytes);
  return bytes > tooMany - line ? tooMany : (bytes + line - 1) / line * line;
}

int64_t IndexLists::bytesFor(const IndexListShape &shape) {
  int64_t total = 0;
  for (size_t s = 0; s < shape.selections.size(); ++s) {
    int64_t layers = 0;
    for (size_t layer = 0; layer < shape.sources.size(); ++layer)
      layers += shape.keeps(layer, s);
    if (layers == 0)
      continue;
    for (size_t i = 0; i < shape.lengths.size(); ++i)
      if (shape.ownerOf(static_cast<int64_t>(i)) == static_cast<int64_t>(i))
        total =
            plus(total, times(layers, paddedBytes(shape.selections[s],
                                                  shape.lengths[i], shape)));
  }
  return total;
}

IndexLists IndexLists::at(const IndexListShape &shape, void *memory) {
  IndexLists result;
  result.sequences = static_cast<int64_t>(shape.lengths.size());
  result.selections = static_cast<int64_t>(shape.selections.size());
  result.shape = shape;
  auto *next = static_cast<std::byte *>(memory);
  result.lists.reserve(shape.sources.size() * shape.lengths.size() *
                       shape.selections.size());
  for (size_t layer = 0; layer < shape.sources.size(); ++layer) {
    for (size_t i = 0; i < shape.lengths.size(); ++i) {
      const int64_t n = shape.lengths[i];
      const bool own =
          shape.ownerOf(static_cast<int64_t>(i)) == static_cast<int64_t>(i);
      for (size_t s = 0; s < shape.selections.size(); ++s) {
        abi::IndexList list = shapeOf(shape.selections[s], n, 0, shape);
        if (own && shape.keeps(layer, s)) {
          list.indices = next;
          next += paddedBytes(shape.selections[s], n, shape);
        }
        result.lists.push_back(list);
      }
    }
  }
  result.written.assign(result.lists.size(), 0);
  return result;
}

void IndexLists::keep(int64_t layer, int64_t sequence, int64_t selection,
                      int64_t n, int64_t keep) {
  abi::IndexList &list = lists[place(layer, sequence, selection)];
  assert(list.indices && keep >= 1 && keep <= n);
  list.keep = keep;
  list.rowBytes = bundle::listRowBytes(shape.encoding, n, keep);
}

void IndexLists::see(int64_t sequence, int64_t n, int64_t promptPlaces) {
  assert(n >= 1 && n <= shape.lengths[sequence]);
  for (size_t layer = 0; layer < shape.sources.size(); ++layer)
    for (int64_t s = 0; s < selections; ++s) {
      size_t at = place(static_cast<int64_t>(layer), sequence, s);
      void *indices = lists[at].indices;
      lists[at] = shapeOf(shape.selections[s], n, promptPlaces, shape);
      lists[at].indices = indices;
      written[at] = 0;
    }
}
