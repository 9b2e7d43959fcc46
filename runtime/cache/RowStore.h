//===- RowStore.h - Rows of a tensor kept between steps ---------*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// One block of memory holds, for every layer that keeps them and every
// sequence, a row for each visible place of the sequence: keys, values,
// attention contexts or outputs of the FFN. Rows follow each other without
// gaps, so that within a layer a row has a number; a layer starts on a 64-byte
// boundary.
//
// Worked example: 2 layers, sequences that see at most 3 and 2 places, rows of
// 24 bytes: layer 0 has rows 0 to 2 of sequence 0 at 0, 24 and 48, rows 3 and 4
// of sequence 1 at 72 and 96; layer 1 begins at 128; 256 bytes in all. Place 1
// of sequence 1 is row 4, in layer 1 at 224.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_CACHE_ROWSTORE_H
#define HEDDLE_RUNTIME_CACHE_ROWSTORE_H

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace heddle::rt {

class RowStore {
public:
  /// Keeps nothing.
  RowStore() = default;

  /// Bytes of the memory; INT64_MAX when the true number is larger.
  static int64_t bytesFor(int64_t layers, const std::vector<int64_t> &places,
                          int64_t rowBytes);

  /// `places` [sequences]: the most rows of each, together less than 2^31.
  /// `memory`: bytesFor() bytes, which may be a device's: only addresses are
  /// computed. Contents count as undefined: who reads a row knows that it was
  /// written. `kept` [layers]: whether the layer keeps rows; the memory is that
  /// of those that do.
  RowStore(const std::vector<int64_t> &places, int64_t rowBytes,
           std::shared_ptr<std::byte> memory, const std::vector<bool> &kept);

  bool empty() const { return !memory; }
  int64_t rowBytes() const { return width; }

  /// The number of a row within its layer.
  int32_t index(int64_t sequence, int64_t place) const {
    return static_cast<int32_t>(starts[sequence] + place);
  }

  /// Whether a layer keeps rows.
  bool keeps(int64_t layer) const {
    return !empty() && slots[static_cast<size_t>(layer)] >= 0;
  }

  /// Where the rows of a layer that keeps them begin.
  std::byte *layer(int64_t layer) const {
    return memory.get() + slots[static_cast<size_t>(layer)] * layerBytes;
  }

  std::byte *row(int64_t layer, int64_t sequence, int64_t place) const {
    return this->layer(layer) + index(sequence, place) * width;
  }

private:
  std::shared_ptr<std::byte> memory;
  int64_t width = 0;
  int64_t layerBytes = 0;
  std::vector<int64_t> starts; ///< [sequences], rows within a layer
  std::vector<int64_t> slots;  ///< [layers]: the place of its rows, -1: none
};

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_CACHE_ROWSTORE_H
