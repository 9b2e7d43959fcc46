//===- RowStore.h - Rows of a tensor kept between steps ---------*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// One block of memory holds, for every layer and sequence, a row for each
// visible place of the sequence: keys, values, attention contexts or outputs of
// the FFN. Rows follow each other without gaps; those of a layer and sequence
// start on a 64-byte boundary.
//
// Worked example: 2 layers, sequences that see at most 3 and 2 places, rows of
// 24 bytes: layer 0 has its sequences at 0 (72 bytes) and 128, layer 1 at 192
// and 320; 384 bytes in all. Place 1 of sequence 1 in layer 1 is at 344.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_CACHE_ROWSTORE_H
#define HEDDLE_RUNTIME_CACHE_ROWSTORE_H

#include "bundle/Result.h"
#include "runtime/base/Buffer.h"

#include <cstdint>
#include <string>
#include <vector>

namespace heddle::rt {

class RowStore {
public:
  /// Keeps nothing.
  RowStore() = default;

  /// Bytes that allocate() takes; INT64_MAX when the true number is larger.
  static int64_t bytesFor(int64_t layers, const std::vector<int64_t> &places,
                          int64_t rowBytes);

  /// `places` [sequences]: the most rows of each. `what` is for the error.
  /// Contents start undefined: who reads a row knows that it was written.
  static Result<RowStore> allocate(int64_t layers,
                                   const std::vector<int64_t> &places,
                                   int64_t rowBytes, const std::string &what);

  bool empty() const { return memory.size() == 0; }
  int64_t rowBytes() const { return width; }

  std::byte *row(int64_t layer, int64_t sequence, int64_t place) {
    return memory.data() + layer * layerBytes + starts[sequence] +
           place * width;
  }

private:
  Buffer memory;
  int64_t width = 0;
  int64_t layerBytes = 0;
  std::vector<int64_t> starts; ///< [sequences], within a layer
};

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_CACHE_ROWSTORE_H
