//===- AttentionFrame.h - Attention on warps --------------------*- C++ -*-===//
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

#ifndef HEDDLE_LIB_CONVERSION_SHEDTONVVM_ATTENTIONFRAME_H
#define HEDDLE_LIB_CONVERSION_SHEDTONVVM_ATTENTIONFRAME_H

#include "ThreadPattern.h"
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

//===----------------------------------------------------------------------===//
// What a thread has for values of the kernel
//===----------------------------------------------------------------------===//

/// Of !shed.keys, and of a tile of keys or values: the keys that the products
/// of a warp work on, as shed.keys_at has them. All i32.
struct KeyTile {
  /// What is known of them.
  enum Form : int64_t {
    Listed = 1, ///< without `first`
    Marked = 2, ///< with `index`
    Blocks = 4,
    Partial = 8,
  };

  Value index;      ///< of the tile in its pass, where the filter marks it
  Value rank;       ///< of the first key in its pass
  Value stage;      ///< bytes from the first stage's first key to this one
  Value count;      ///< keys of the pass
  Value first;      ///< place of the pass's rank 0, but for a list
  int64_t form = 0; ///< as a constant operand

  static constexpr size_t size = 6;
  static KeyTile of(ValueRange values);
  bool is(Form what) const { return form & what; }
};

/// Of a tile of queries: the warp's first row in it (i32), then, when kept in
/// registers, its fragments.
struct QueryTile {
  Value row;
  NVVMBuilder::Values fragments;

  static QueryTile of(ValueRange values);
};

/// Of a tile of logits: [square of rows][square of columns][4 elements].
struct Logits {
  NVVMBuilder::Values elements;
  Value factor; ///< what they are multiplied with for base 2
  int64_t columns;

  static Logits of(ValueRange values, int64_t columns);
  NVVMBuilder::Values values() const;
  Value &at(int64_t m, int64_t n, int64_t i) {
    return elements[(m * columns + n) * 4 + i];
  }
};

/// Of a softmax: context, laid out as logits, then a maximum and a sum of each
/// row that the thread has elements of.
struct Softmax {
  NVVMBuilder::Values context, maximum, sum;

  static Softmax of(ValueRange values, int64_t rows);
  NVVMBuilder::Values values() const;
};

//===----------------------------------------------------------------------===//
// The kernel
//===----------------------------------------------------------------------===//

/// Warps that hold the same rows and share the keys of a tile.
struct KeySplit {
  Value rowWarps; ///< i32: warps that hold all rows, a power of two
  Value first;    ///< i32: this warp's first part of a tile; the next one is
                  ///< `sharers` further
  Value sharers;  ///< i32: warps that hold the same rows
};

/// What holds for all of an attention kernel, or of one of its two ways: facts
/// that follow from the op, and values of the function, which dominate the ops
/// on tiles.
class AttentionFrame {
public:
  using Values = NVVMBuilder::Values;

  /// Facts of a kernel or of a task, which is one of its ways.
  template <typename Op> AttentionFrame(Op op, shed::SharedLayoutAttr layout);
  /// All that a task has.
  explicit AttentionFrame(shed::AttentionTaskOp task);

  /// The layout that the facts of the task and the ops in it take.
  shed::SharedLayoutAttr layoutTaken(shed::AttentionTaskOp task) const;
  /// What the function says of such a kernel.
  EntryFacts entryFacts() const;

  /// A lane's part of fragments.
  struct LanePart {
    Value lane;   ///< its number
    Value column; ///< 2 * (lane % 4)
    /// Its row of a square of 16 x 16 elements: matrices 1 and 2 are the next
    /// rows and the next channels, or the other way round. A product's right
    /// operand needs its two words in neighbouring registers, hence both.
    Value rowsFirst, channelsFirst;
  };

  /// From here on the warp has its part of a tile's keys.
  void shareKeys(KeySplit among);

  Value field(NVVMBuilder &v, Type type, size_t offset) const;
  /// The positions of the keys at `places`, each in [0, n).
  Values positionsOf(NVVMBuilder &v, ValueRange places) const;
  /// Where in the sequence this thread's rows stand; its keys: two of a square.
  Values rowPositions(NVVMBuilder &v) const;
  Values keyPositions(NVVMBuilder &v, const KeyTile &tile) const;
  /// Number in the tile (i32) of this thread's row `row` of 2 * rowSquares.
  Value rowInTile(NVVMBuilder &v, int64_t row) const;
  /// Four matrices of a square of 16 x 16 elements at (row, byte) of the tile
  /// at `region` + `bytes`, in the order of `place`.
  Values loadFragment(NVVMBuilder &v, Value place, Value bytes, int64_t region,
                      int64_t row, int64_t byte, bool transpose) const;

  // Facts of the kernel.
  shed::MmaTilingAttr tiling;
  Type element;
  bool exact; ///< f32
  bool writesLse;
  int64_t channels, elementBytes;
  int64_t rowSquares;     ///< 16-row squares of a warp
  int64_t channelSquares; ///< 8-channel squares of a row
  int64_t keySquares;     ///< 8-key squares of a warp at a time
  shed::Encoding encoding;
  Swizzle swizzle;
  int64_t stageBytes; ///< of keys, or of values
  shed::SharedLayoutAttr layout;
  /// Lanes that copy a row together; rows that the block copies at a time.
  int64_t copyLanes, copyRows;

  // Values of the function.
  Value args, n, head, shared;
  Value taskRow, taskEnd; ///< i32: rows of the tile, [taskRow, taskEnd)
  Value factor;           ///< |scale| * log2(e)
  Value warp;             ///< i32
  Value warpRow;          ///< the warp's first row in the tile
  Value warpBytes;        ///< i32: bytes of the rows before the warp's
  LanePart own;
  std::optional<KeySplit> split; ///< in the way of few rows
};

/// Opens the entry of an attention kernel before the op. What is moved is
/// explicit from then on: passes over keys are loops with the copies of tiles
/// and what waits for them, around clones of the ops on tiles. A kernel that
/// shares keys where rows are few has two ways, each a task.
void openAttention(shed::KernelOp kernel);

//===--- Products.cpp, ExactProducts.cpp ----------------------------------===
Logits scoreProductExact(NVVMBuilder &v, const AttentionFrame &f,
                         const QueryTile &queries, const KeyTile &keys);
/// context += weights . values.
void addContext(NVVMBuilder &v, const AttentionFrame &f, Softmax &softmax,
                Logits &weights, const KeyTile &values);
void addContextExact(NVVMBuilder &v, const AttentionFrame &f, Softmax &softmax,
                     Logits &weights, const KeyTile &values);

//===--- Logits.cpp -------------------------------------------------------===
/// Ranks of the tile that have no key give no weight.
void maskMissing(NVVMBuilder &v, const AttentionFrame &f, Logits &logits,
                 const KeyTile &tile);

void populateAttentionProducts(const TypeConverter &converter,
                               RewritePatternSet &patterns,
                               const AttentionFrame &frame);
void populateAttentionLogits(const TypeConverter &converter,
                             RewritePatternSet &patterns,
                             const AttentionFrame &frame);
void populateAttentionSoftmax(const TypeConverter &converter,
                              RewritePatternSet &patterns,
                              const AttentionFrame &frame);

} // namespace mlir::heddle

#endif // HEDDLE_LIB_CONVERSION_SHEDTONVVM_ATTENTIONFRAME_H
