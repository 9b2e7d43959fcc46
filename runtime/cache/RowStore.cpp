//===- RowStore.cpp - Rows of a tensor kept between steps -----------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/cache/RowStore.h"

#include <algorithm>
#include <cassert>
#include <limits>

using namespace heddle;
using namespace heddle::rt;

/// Bytes of one layer's rows of a sequence, in whole cache lines.
static __int128 regionBytes(int64_t places, int64_t rowBytes) {
  return (static_cast<__int128>(places) * rowBytes + 63) / 64 * 64;
}

int64_t RowStore::bytesFor(int64_t layers, const std::vector<int64_t> &places,
                           int64_t rowBytes) {
  constexpr __int128 most = std::numeric_limits<int64_t>::max();
  __int128 layer = 0;
  for (int64_t count : places)
    layer = std::min(layer + regionBytes(count, rowBytes), most);
  return static_cast<int64_t>(std::min(layer * layers, most));
}

Result<RowStore> RowStore::allocate(int64_t layers,
                                    const std::vector<int64_t> &places,
                                    int64_t rowBytes, const std::string &what) {
  assert(layers >= 1 && rowBytes >= 1);
  RowStore store;
  store.width = rowBytes;
  int64_t bytes = bytesFor(layers, places, rowBytes);
  if (bytes == 0)
    return store;
  Result<Buffer> memory = Buffer::allocate(bytes);
  if (!memory)
    return memory.takeError().withContext(what);
  store.memory = std::move(*memory);
  store.layerBytes = bytes / layers;
  int64_t start = 0;
  for (int64_t count : places) {
    store.starts.push_back(start);
    start += static_cast<int64_t>(regionBytes(count, rowBytes));
  }
  return store;
}
