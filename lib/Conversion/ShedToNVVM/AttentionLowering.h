//===- AttentionLowering.h - Attention on warps -----------------*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A block holds `query_rows` rows of one head, each warp 16 or 32 of them, and
// passes over tiles of keys and values that asynchronous copies bring to shared
// memory ahead of their use. Everything else lives in registers, laid out as
// the accumulators of m16n8k16 products: of each 16 x 8 square, lane l holds
// columns 2 (l % 4) and the next one of rows l / 4 and l / 4 + 8. Probabilities
// are rounded in place to the left operand of the product with the values.
//
// Rows in shared memory are not padded: the 16-byte chunks of a row are
// permuted by the row's number so that eight rows at the same chunk lie in
// eight different banks (`Swizzle`).
//
// f32 takes the same way with the products replaced by multiply-adds on the
// same fragments; it is there to compare with, not to be fast.
//
// A block whose rows are few would leave most of its warps without any. Where
// half of the warps can hold them, several warps hold the same rows instead and
// each takes its part of every tile of keys; what they found is merged at the
// end. Which way a row goes depends on the rows of its own sequence alone.
// Kernels of lists, of f32 and of other than 64 keys for 4 warps have one way.
// Source: the split of keys is Flash-Decoding's (Dao et al. 2023), in a block.
//
// Worked example: 4 warps of 32 rows, tiles of 64 keys, 40 rows. Warps 0 and 2
// hold rows 0 to 31, warps 1 and 3 the other 8. Of each tile warps 0 and 1 take
// keys 0 to 15 and 32 to 47, warps 2 and 3 the others; then warp 2 hands its
// sums to warp 0 and warp 3 to warp 1. With 30 rows all warps hold them and
// take 16 keys of a tile each.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_CONVERSION_SHEDTONVVM_ATTENTIONLOWERING_H
#define HEDDLE_LIB_CONVERSION_SHEDTONVVM_ATTENTIONLOWERING_H

#include "IndexSource.h"
#include "NVVMBuilder.h"
#include "heddle/Dialect/Shed/IR/Shed.h"

#include <optional>

namespace mlir::heddle {

/// Where element (row, byte) of a tile in shared memory lies. The chunk of 16
/// bytes is exchanged with one whose number differs in the low bits by a
/// function of the row.
struct Swizzle {
  int64_t rowBytes; ///< a multiple of 64

  /// Chunks are permuted within so many bytes: all bits of the offset from here
  /// on can be added, those below are flipped.
  int64_t span() const { return rowBytes % 128 ? 64 : 128; }

  /// Offset of (row, chunk), both i32 values.
  Value place(NVVMBuilder &v, Value row, Value chunk) const;

  /// Moves `address` = base + place(row, chunk) by constants, `address` being
  /// aligned as rows are. Bits of `rows` below 8 must be zero in `row`, those
  /// of `bytes` in 16 * chunk. The second result goes into the instruction.
  std::pair<Value, int64_t> move(NVVMBuilder &v, Value address, int64_t rows,
                                 int64_t bytes) const;
};

/// A pass over one set of keys.
struct KeyPass {
  Value count;                       ///< i32: keys, by rank
  Value tiles;                       ///< i32
  Value first;                       ///< position of rank 0; null for a list
  std::optional<IndexSource> source; ///< of a list
  std::optional<KeyFilter> filter;   ///< keys to be left out
  shed::KeySet sparse;               ///< asked for each tile, or null
  shed::PositionRange rows;          ///< of the block's rows, with `sparse`
};

/// The keys of a tile that the products of a warp work on.
struct KeyTile {
  Value index;  ///< i32, of the tile in its pass
  Value rank;   ///< i32: of the first key in its pass
  Value stage;  ///< i32: bytes from the first stage's first key to this one
  bool partial; ///< may reach beyond the last key
};

/// Warps that hold the same rows and share the keys of a tile.
struct KeySplit {
  Value rowWarps; ///< i32: warps that hold all rows, a power of two
  Value first;    ///< i32: this warp's first part of a tile; the next one is
                  ///< `sharers` further
  Value sharers;  ///< i32: warps that hold the same rows
};

class AttentionLowering {
public:
  explicit AttentionLowering(shed::KernelOp kernel);

  /// Emits the kernel before the op.
  void run();

private:
  using Values = NVVMBuilder::Values;

  /// Offsets into shared memory.
  struct SharedLayout {
    int64_t queries = 0, keys = 0, values = 0, weights = 0, source = 0,
            filter = 0, positions = 0, bytes = 0;
    int64_t stageBytes = 0;
  };
  static SharedLayout layOut(shed::KernelOp kernel);

  /// A thread's part of a copy: its row of those that are copied at a time, its
  /// 16-byte chunk of the row, and where that goes in a tile.
  struct CopyPart {
    Value thread, row, chunk, place;
  };

  /// A lane's part of fragments.
  struct LanePart {
    Value lane;   ///< its number
    Value column; ///< 2 * (lane % 4)
    /// Its row of a square of 16 x 16 elements: matrices 1 and 2 are the next
    /// rows and the next channels, or the other way round. A product's right
    /// operand needs its two words in neighbouring registers, hence both.
    Value rowsFirst, channelsFirst;
  };

  /// What this thread copies next of keys and values: global pointers.
  struct Cursor {
    Value key, value;
  };

  //===--- AttentionLowering.cpp --------------------------------------------===
  void findRows();
  void loadArguments();
  Value placeOf(Value row);
  Values positionsOf(ValueRange places);
  Value placesBelow(Value bound);
  void storePositions();
  LanePart lanePart(Value thread);
  Value field(Type type, size_t offset);
  void lowerBody();
  int64_t mostFewRows() const;
  void lowerFewRows();
  void lowerKeys(shed::ForKeysOp loop);
  void lowerTile(shed::ForKeysOp loop, KeyPass &pass, const KeyTile &tile);
  void lowerKeysOfTile(shed::ForKeysOp loop, KeyPass &pass,
                       const KeyTile &tile);
  KeyPass keyPass(shed::ForKeysOp loop);
  void bringTile(KeyPass &pass, Value tile, Value stage, Cursor cursor);
  Value keepsSome(const KeyPass &pass, Value tile);
  KeyList list(const shed::KeyEntries &entries);

  //===--- Copies.cpp -------------------------------------------------------===
  CopyPart copyPart(Value thread);
  void copyQueries();
  void finishQueries();
  Cursor beginCopies(const KeyPass &pass);
  void copyTile(KeyPass &pass, Value tile, Value stage, Cursor cursor);
  Cursor advance(const KeyPass &pass, Cursor cursor);
  void forCopiedRows(int64_t rows, function_ref<void(int64_t row)> body);

  //===--- Products.cpp -----------------------------------------------------===
  Values loadFragment(Value place, Value bytes, int64_t region, int64_t row,
                      int64_t byte, bool transpose);
  void scoreProduct(const KeyTile &tile);
  void contextProduct(const KeyTile &tile);
  Values queryFragment(int64_t row, int64_t step);
  void scoreProductExact(const KeyTile &tile);
  void contextProductExact(const KeyTile &tile);

  //===--- Softmax.cpp ------------------------------------------------------===
  void initSoftmax();
  /// The softmax as values that a loop can carry.
  Values state() const;
  void setState(ArrayRef<Value> all);
  void maskEnd(KeyPass &pass, const KeyTile &tile);
  void maskFiltered(KeyPass &pass, const KeyTile &tile);
  void mask(shed::MaskOp op, KeyPass &pass, const KeyTile &tile);
  Values rowPositions();
  Values keyPositions(KeyPass &pass, const KeyTile &tile);
  void updateSoftmax();
  void mergeSplit();
  Values mergedWith(function_ref<Value(int64_t first)> quad);
  void storeContext();
  Value rowInTile(int64_t row);

  //===--- Scores.cpp -------------------------------------------------------===
  void score(shed::ScoresOp op, KeyPass &pass, const KeyTile &tile);

  /// Logits and context: [square of rows][square of columns][4 elements].
  Value &logit(int64_t m, int64_t n, int64_t i) {
    return logits[(m * keySquares + n) * 4 + i];
  }
  Value &out(int64_t m, int64_t n, int64_t i) {
    return context[(m * channelSquares + n) * 4 + i];
  }

  shed::KernelOp kernel;
  shed::MmaTilingAttr tiling;
  NVVMBuilder v;

  // Facts of the kernel.
  const Type element;
  const bool exact; ///< f32
  const bool masks; ///< pairs differ by their rows' positions
  const int64_t channels, elementBytes;
  const int64_t rowSquares;     ///< 16-row squares of a warp
  const int64_t channelSquares; ///< 8-channel squares of a row
  int64_t keySquares;           ///< 8-key squares of a warp at a time
  const shed::Encoding encoding;
  const Swizzle swizzle;
  const SharedLayout layout;
  /// Lanes that copy a row together; rows that the block copies at a time.
  const int64_t copyLanes, copyRows;

  // Values of the function.
  Value args, n, head, kvHead, shared;
  /// The tile's first place, where it has lists; its rows [taskRow, taskEnd).
  Value tileStart, taskRow, taskEnd;
  Value queryStride, keyStride, valueStride; ///< i64, bytes
  Value queryBase, keyBase, valueBase; ///< of the head, as global pointers
  Value factor;                        ///< |scale| * log2(e)
  Value logitFactor; ///< what the tile's logits are multiplied with for base 2
  Value negative;    ///< whether the sign of `scale` is to go into the queries
  Value warp;        ///< i32
  Value warpRow;     ///< the warp's first row in the tile
  CopyPart part;
  Value warpBytes; ///< i32: bytes of the rows before the warp's
  LanePart own;
  std::optional<KeySplit> split; ///< in the way of few rows
  bool queriesReady = false;
  Values queries; ///< fragments, when kept

  // The state of a pass.
  Values logits, context, maximum, sum;
};

} // namespace mlir::heddle

#endif // HEDDLE_LIB_CONVERSION_SHEDTONVVM_ATTENTIONLOWERING_H
