//===- RowStore.cpp - Rows of a tensor kept between steps -----------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/cache/RowStore.h"

#include <algorithm>
#include <limits>
#include <utility>

using namespace heddle;
using namespace heddle::rt;

/// Bytes of one layer's rows, in whole cache lines.
static __int128 layerBytesFor(const std::vector<int64_t> &places,
                              int64_t rowBytes) {
  __int128 rows = 0;
  for (int64_t count : places)
    rows += count;
  return (rows * rowBytes + 63) / 64 * 64;
}

int64_t RowStore::bytesFor(int64_t layers, const std::vector<int64_t> &places,
                           int64_t rowBytes) {
  constexpr __int128 most = std::numeric_limits<int64_t>::max();
  __int128 layer = std::min(layerBytesFor(places, rowBytes), most);
  return static_cast<int64_t>(std::min(layer * layers, most));
}

RowStore::RowStore(const std::vector<int64_t> &places, int64_t rowBytes,
                   std::shared_ptr<std::byte> memory,
                   const std::vector<bool> &kept)
    : memory(std::move(memory)), width(rowBytes),
      layerBytes(static_cast<int64_t>(layerBytesFor(places, rowBytes))) {
  int64_t start = 0;
  for (int64_t count : places) {
    starts.push_back(start);
    start += count;
  }
  int64_t slot = 0;
  for (bool keeps : kept)
    slots.push_back(keeps ? slot++ : -1);
}
