//===- IndexSource.h - Reads index lists in CUDA kernels ---*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// How a block walks the keys of an index list, whatever their encoding. The
// keys of tile t are those of ranks [t * tileKeys, (t + 1) * tileKeys) in
// ascending order; they go through a ring in shared memory, some tiles ahead of
// the gathers that need them. In a list of blocks of b keys, entry e has the
// ranks [e * b, (e + 1) * b), of which those behind a shorter block's end have
// no key; so has an entry that is missing (-1):
//
//   source.open(list, words, shared);
//   source.fill(0);  commitCopies();  awaitCopies(0);  barrier();
//   for each tile t:
//     gather rows source.key(rank) of tile t      (asynchronous)
//     source.fill(t + 1);                         (in the same commit)
//     commitCopies() ... awaitCopies(.) ... barrier()
//
// What fill() writes can be read once its commit has been awaited by all
// threads and a barrier has been passed. fill(t) writes over the keys of tile
// t - ringTiles and earlier, so it must come after the barrier behind their
// last use. All threads of the block call fill(), in order, each tile once.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_CONVERSION_SHEDTONVVM_INDEXSOURCE_H
#define HEDDLE_LIB_CONVERSION_SHEDTONVVM_INDEXSOURCE_H

#include "NVVMBuilder.h"
#include "heddle/Dialect/Shed/IR/Shed.h"

namespace mlir::heddle {

/// The list of one head and group.
struct KeyList {
  shed::Encoding encoding = shed::Encoding::Int32;
  Value base;            ///< where it starts, in global memory
  Value keep;            ///< i32: keys or blocks in it, at least 1
  Value rowBytes;        ///< i64: bytes up to the list of the next group
  int64_t blockKeys = 0; ///< of a list of blocks, else 0
  Value split;           ///< i32: of a list of blocks, see abi::IndexList
};

/// The list of row `row` (of a query head, or of those that share it) and group
/// `group` (both i32) in the abi::IndexList at `lists`; of blocks of
/// `blockKeys` keys if that is not 0.
KeyList loadKeyList(NVVMBuilder &v, shed::Encoding encoding, int64_t blockKeys,
                    Value lists, Value row, Value group);

/// Entry `place` (i32) of a list that is no bitmap.
Value entryOf(NVVMBuilder &v, const KeyList &list, Value place);

/// Keys [first, end), i32.
struct KeyRange {
  Value first, end;
};

/// The number (i32) of blocks of `size` keys before `split`, the last of them
/// maybe shorter.
Value blocksBefore(NVVMBuilder &v, Value split, int64_t size);

/// The keys of block `block` (i32) of a sequence of `n` (i32) tokens;
/// bundle::keysOfBlock says which these are.
KeyRange keysOfBlock(NVVMBuilder &v, Value block, Value n, Value split,
                     int64_t size);

/// How many of `count` (i32) words that ascend, taken as unsigned, are below
/// `bound`; `wordAt` loads one. Some log2(count) dependent loads.
Value countBelow(NVVMBuilder &v, Value count, Value bound,
                 function_ref<Value(Value)> wordAt);

/// How many of the `n` (i32) keys stand below `bound` (i32) in the sequence;
/// `positions` ascend, or are null where key j stands at j.
Value placesBelow(NVVMBuilder &v, Value positions, Value n, Value bound);

/// For positions of i32, of a kernel with the abi::AttentionArgs at `args`.
shed::PairArithmetic positionArithmetic(NVVMBuilder &v, Value args);

/// How many of the `n` (i32) keys are in any of these sets, which begin at 0,
/// for the abi::AttentionArgs at `args`.
Value endOf(NVVMBuilder &v, ArrayRef<shed::KeySet> sets, Value args,
            Value positions, Value n);

/// Whether key `key` (i32) is in the list, of a sequence with more than `key`
/// tokens. A load for a bitmap; a binary search for the other encodings.
Value containsKey(NVVMBuilder &v, const KeyList &list, Value key);

/// The keys of one list, tile by tile.
class IndexSource {
public:
  /// Tiles whose keys the ring holds: the one being filled and those before.
  static constexpr int64_t ringTiles = 4;

  /// `tileKeys` is a power of two from 32 to 256.
  IndexSource(NVVMBuilder &v, shed::Encoding encoding, int64_t tileKeys)
      : v(v), encoding(encoding), tileKeys(tileKeys) {}

  /// Shared memory that a source takes, a multiple of 16 bytes; it starts at
  /// one, too.
  static int64_t sharedBytes(shed::Encoding encoding, int64_t tileKeys);

  /// Begins a list for a sequence of `n` (i32) tokens. `thread` is the thread's
  /// number; `shared` the address of the source's shared memory, which nobody
  /// may still read.
  void open(const KeyList &list, Value n, Value thread, Value shared);

  /// Reads keys that another source with `count` ranks has fetched, of a list
  /// of blocks or not.
  void resume(Value count, bool blocks, Value shared);

  /// Ranks, i32.
  Value count() const { return ranks; }

  /// Fetches the keys of tile `tile` (i32). Nothing for tiles behind the last.
  void fill(Value tile);

  /// The key of rank `rank` (i32); the last one for ranks behind it, some key
  /// for ranks that have none.
  Value key(Value rank);

  /// Whether ranks may have no key, and whether rank `rank` (i32) has none.
  bool hasGaps() const { return list.blockKeys != 0; }
  Value isGap(Value rank);

private:
  static int64_t ringKeys(shed::Encoding encoding, int64_t tileKeys);
  Value entry(Value rank);
  void fillFromBitmap(Value tile);
  void fillFromBlocks(Value tile);

  NVVMBuilder &v;
  const shed::Encoding encoding;
  const int64_t tileKeys;
  KeyList list;
  Value n, ranks, words, thread, shared;
};

/// Which ranks of a tile a pass leaves out: those behind its last key and those
/// without a key, and of a union's later passes sinks and keys that earlier
/// passes' lists have. One bit a rank in shared memory, for as many tiles as an
/// IndexSource's ring.
class KeyFilter {
public:
  /// Leaves out keys below `sinks` (i32; null: none) and those in `lists`.
  KeyFilter(NVVMBuilder &v, ArrayRef<KeyList> lists, Value sinks,
            int64_t tileKeys)
      : v(v), lists(lists), sinks(sinks), tileKeys(tileKeys) {}

  /// Shared memory that a filter takes, a multiple of 16 bytes.
  static int64_t sharedBytes(int64_t tileKeys);

  /// Marks the keys of tile `tile`, which `keyOf` gives for ranks below
  /// `count` (both i32); `isGap`, if there is one, tells the ranks without one.
  /// All threads call it; other threads see the bits after a barrier.
  void mark(Value tile, Value count, Value thread, Value shared,
            function_ref<Value(Value)> keyOf, function_ref<Value(Value)> isGap);

  /// The word (i32) whose bit b says that key 32 * `word` + b of tile `tile` is
  /// left out. `shared` is mark()'s.
  Value leftOut(Value tile, int64_t word, Value shared);

private:
  Value wordsOf(Value tile, Value shared);

  NVVMBuilder &v;
  SmallVector<KeyList> lists;
  const Value sinks;
  const int64_t tileKeys;
};

} // namespace mlir::heddle

#endif // HEDDLE_LIB_CONVERSION_SHEDTONVVM_INDEXSOURCE_H
