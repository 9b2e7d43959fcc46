//===- TopK.h - Chooses the largest scores in a CUDA kernel ---*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_CONVERSION_SHEDTONVVM_TOPK_H
#define HEDDLE_LIB_CONVERSION_SHEDTONVVM_TOPK_H

#include "IndexSource.h"

#include <optional>

namespace mlir::heddle {

/// The exact top k of a row of scores, written straight as an index list, by
/// all threads of a block. The lowest keys win ties.
///
/// The bits of non-negative floats order like unsigned integers. A radix
/// search finds the bits of the keep-th largest score from the highest on: a
/// histogram in shared memory for 11, 10 and 10 of them. Then each warp walks
/// its own part of the row in ascending order. Sums of counts do not depend on
/// the order of additions, so neither does the list. A NaN counts as larger
/// than any number.
class TopK {
public:
  TopK(NVVMBuilder &v, shed::Encoding encoding, int64_t threads)
      : v(v), encoding(encoding), threads(threads), warps(threads / 32) {}

  /// Shared memory that it takes, a multiple of 16 bytes. A power of two of at
  /// most 1024 threads.
  static int64_t sharedBytes();

  /// What the entries of a list are called, where not by their ranks.
  struct Names {
    Value first; ///< i32: of the first score
    Value limit; ///< i32: from here on, entries are left out at the list's end
  };

  /// Writes to `list` the list.keep largest of the `n` (i32) scores at
  /// `scores`, a global pointer of 16-byte alignment, behind which zeros fill
  /// up to a multiple of 4. The scores are those of the block's own threads,
  /// before a barrier; nobody may still read the shared memory at `shared`.
  /// `names` are for lists that are no bitmaps.
  void run(Value scores, Value n, const KeyList &list, Value thread,
           Value shared, const Names &names = {});

private:
  struct Threshold {
    Value bits;  ///< of the keep-th largest score
    Value ties;  ///< scores equal to it that are taken, at least 1
    Value equal; ///< scores equal to it that there are
  };
  /// What a warp finds in its part of the row, or before it.
  struct Counts {
    Value greater, equal;
  };

  Threshold search();
  void count(Value prefix, int64_t shift, int64_t bits);
  Threshold pick(const Threshold &previous, int64_t shift, int64_t bits);
  Value prefixOfBlock(Value x, int64_t at);
  Counts countBefore(const Threshold &threshold);
  void write(const Threshold &threshold, const Counts &before);
  NVVMBuilder::Values scoresOf(Value word);

  NVVMBuilder &v;
  const shed::Encoding encoding;
  const int64_t threads, warps;
  Value scores, n, thread, lane, warp, shared;
  /// The warp's part of the row, in words of 32 keys, and the row's end.
  Value firstWord, endWord, words;
  KeyList list;
  Names names;
};

/// What makes the lists of keys of a select kernel.
struct KeyChoice {
  shed::Encoding encoding;
  int64_t group;   ///< rows that share a list
  int64_t threads; ///< that choose, see TopK
  Value args;      ///< the abi::SelectArgs
  Value n;         ///< i32
  Value thread;    ///< i32
  Value shared;    ///< as TopK::run() wants it
  /// If not 0, a key's score is the largest of so many, see abi::SelectArgs,
  /// and `pool` is a row of scratch to write them to.
  int64_t pooled = 0;
  Value pool = {};
  /// If there, what is taken away from scores, so that none is negative; those
  /// of blocks are then blocks' own, not their keys'.
  Value least = {};
  /// The form of the lists whose keys alone are chosen from, if there are any.
  std::optional<shed::KeyEntries> within = {};
};

/// Writes the list of row `row` of lists and group `which` (i32) of its keys'
/// scores, see TopK::run(), which may change; where the scores are to be shown,
/// those that are chosen by as well.
void chooseKeys(NVVMBuilder &v, const KeyChoice &choice, Value row, Value which,
                Value scores);

/// Rows of scratch: scores of all keys, among all of them and, where the second
/// span is scored by itself, among its own, and room for those of the two
/// spans' blocks.
struct BlockScores {
  Value keys, spanKeys, first, second;
};

/// The same of blocks of `choice.group` keys, see abi::SelectArgs.
void chooseBlocks(NVVMBuilder &v, const KeyChoice &choice, Value row,
                  Value which, const BlockScores &scores);

/// Of blocks (i1): whether the second span's are scored among its keys alone.
Value isScoredBySpan(NVVMBuilder &v, Value args);

/// Where the scores of a list are to be shown, or null.
Value shownScores(NVVMBuilder &v, const KeyChoice &choice, Value row,
                  Value which);

} // namespace mlir::heddle

#endif // HEDDLE_LIB_CONVERSION_SHEDTONVVM_TOPK_H
