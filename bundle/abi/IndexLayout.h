//===- IndexLayout.h - How an index list lies in memory ---------*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A selection keeps, for each query head and each group of query rows, some of
// n keys. Kernels read these lists far more often than they write them, so how
// a key is written decides what a selection costs in memory and bandwidth:
//
//   Int32   the kept keys, ascending, 4 bytes each
//   Uint16  the same in 2 bytes each, for sequences of at most 65,536 keys
//   Bitmap  one bit a key: bit j % 32 (the least significant is bit 0) of the
//           32-bit word j / 32 says whether key j is kept
//
// A bitmap costs n / 8 bytes however many keys are kept, so it is the smallest
// from one key in 16 on. Integers are little-endian.
//
// The list of query head h and group g starts (h * groups + g) * rowBytes
// after the first one. Rows of Uint16 and Bitmap are multiples of 16 bytes, so
// that a GPU can fetch them in its widest loads; those of Int32 are not padded.
// What pads a list of keys is undefined and must not be read; what pads a
// bitmap, and its bits from n on, are zero.
//
// Worked example: keys {1, 4, 33} of n = 40, keep = 3.
//
//   Int32   12 bytes  01 00 00 00  04 00 00 00  21 00 00 00
//   Uint16  16 bytes  01 00 04 00  21 00 .. .. (10 bytes undefined)
//   Bitmap  16 bytes  12 00 00 00  02 00 00 00  00 00 00 00  00 00 00 00
//                     bits 1 and 4; bit 33 % 32 = 1 of word 1; two zero words
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_BUNDLE_ABI_INDEXLAYOUT_H
#define HEDDLE_BUNDLE_ABI_INDEXLAYOUT_H

#include "bundle/abi/Abi.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

namespace heddle::bundle {

/// How the keys of a list are written.
enum class Encoding { Int32, Uint16, Bitmap };

/// Whether lists over `n` keys can be written this way.
bool holds(Encoding encoding, int64_t n);

/// Bytes from the list of one group to that of the next, for lists that keep
/// `keep` of `n` keys, 1 <= keep <= n <= 2^31. holds(encoding, n) must be true.
int64_t listRowBytes(Encoding encoding, int64_t n, int64_t keep);

/// Writes `keys`, ascending and below `n`, as one row of
/// listRowBytes(encoding, n, keys.size()) bytes; pads with zeros.
void encodeList(Encoding encoding, int64_t n, std::span<const int32_t> keys,
                void *row);

/// Reads the keys of one row, as many as `keys` has room for. False, with some
/// of `keys` written, when a bitmap has not exactly so many bits set below `n`,
/// or one from `n` to its end.
bool decodeList(Encoding encoding, int64_t n, const void *row,
                std::span<int32_t> keys);

/// Lists written as Int32 at `indices` [query heads x groups x keep].
inline abi::IndexList int32Lists(int32_t *indices, int64_t groups,
                                 int64_t keep) {
  return {indices, groups, keep, keep * static_cast<int64_t>(sizeof(int32_t))};
}

/// The start of the list of a query head and group.
inline void *listRow(const abi::IndexList &list, int64_t head, int64_t group) {
  return static_cast<std::byte *>(list.indices) +
         (head * list.groups + group) * list.rowBytes;
}

/// The `list.keep` keys of a query head and group in a list written as Int32.
inline int32_t *int32Keys(const abi::IndexList &list, int64_t head,
                          int64_t group) {
  return static_cast<int32_t *>(listRow(list, head, group));
}

//===----------------------------------------------------------------------===//
// Lists of blocks, see abi::IndexList
//===----------------------------------------------------------------------===//

/// Blocks of `size` keys that n keys have; with `split` in (0, n] they start
/// anew at key `split`.
inline int64_t blockCount(int64_t n, int64_t size, int64_t split) {
  return (split + size - 1) / size + (n - split + size - 1) / size;
}

/// Keys [begin, end) of a sequence.
struct KeyRun {
  int64_t begin, end;
};

/// The keys of a block in [0, blockCount(n, size, split)): at least one.
inline KeyRun keysOfBlock(int64_t block, int64_t n, int64_t size,
                          int64_t split) {
  int64_t before = (split + size - 1) / size; // blocks before `split`
  bool second = block >= before;
  int64_t begin = second ? split + (block - before) * size : block * size;
  return {begin, std::min(begin + size, second ? n : split)};
}

/// The number of the block that holds a key.
inline int64_t blockOf(int64_t key, int64_t size, int64_t split) {
  return key < split ? key / size
                     : (split + size - 1) / size + (key - split) / size;
}

} // namespace heddle::bundle

#endif // HEDDLE_BUNDLE_ABI_INDEXLAYOUT_H
