//===- SelectFrame.h - Selection on warps -----------------------*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A block holds `query_rows` rows of one head in shared memory, the rows of one
// group, of several, or a part of one, and its warps share out the n keys: each
// takes `keys` / `warps` of them at a time, brought by asynchronous copies of
// its own, and needs no other warp until all keys are scored.
//
// Keys are the rows of the product and queries its columns, so that the sum
// over a group's rows is one over registers and four lanes. The channels of a
// product may come in any order as long as it is the same for both operands:
// lane l reads 16 contiguous bytes, the channels 8 (l % 4) to 8 (l % 4) + 7 of
// each 32, and gives the first four to one product of 16 channels, the others
// to the next. Rows are not padded: in rows of whole 128 bytes, the 16-byte
// chunks of odd rows change places so that the eight lanes that are served
// together meet different banks.
//
// Scores go to the block's scratch: for each group a row of n floats, rounded
// up to a multiple of 4 with zeros. TopK makes the lists of them. A kernel that
// chooses blocks has as many rows again, for scores among the keys of the
// second span, and two for the means over blocks that the two spans' lists are
// made of.
//
// Kernels that score by mean logits have means of groups in place of the rows:
// LogitScores.cpp says how. Where they choose blocks, scores are of blocks.
//
// f32 takes the same way with the products replaced by multiply-adds that leave
// the same elements in the same lanes; it is there to compare with.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_CONVERSION_SHEDTONVVM_SELECTFRAME_H
#define HEDDLE_LIB_CONVERSION_SHEDTONVVM_SELECTFRAME_H

#include "ThreadPattern.h"
#include "TopK.h"

namespace mlir::heddle {

//===----------------------------------------------------------------------===//
// What a thread has for values of the kernel
//===----------------------------------------------------------------------===//

/// Of a tile of queries: some rows in shared memory, by which logits go. All
/// i32.
struct ScoredRows {
  Value row;   ///< the first one's number in shared memory
  Value place; ///< and where it stands among all rows
  Value head;

  static constexpr size_t size = 3;
  static ScoredRows of(ValueRange values) {
    return {values[0], values[1], values[2]};
  }
  NVVMBuilder::Values values() const { return {row, place, head}; }
};

/// Of !shed.keys and a tile of keys: the warp's, with what it holds of them.
struct ScoredKeys {
  Value tile;                    ///< i32
  NVVMBuilder::Values fragments; ///< words; none for f32

  static ScoredKeys of(ValueRange values) {
    return {values[0], NVVMBuilder::Values(values.drop_front())};
  }
  NVVMBuilder::Values values() const;
};

/// Of a tile of logits: [square of rows][square of keys][4 elements].
struct KeyLogits {
  NVVMBuilder::Values elements;
  Value factor; ///< what they are multiplied with for base 2
  ScoredRows rows;

  static KeyLogits of(ValueRange values);
  NVVMBuilder::Values values() const;
};

/// Of a mass: what this thread has yet to add to scores, two for each square of
/// its keys, and the row of scratch (i32) where these begin.
struct Mass {
  NVVMBuilder::Values sums;
  Value row;

  static Mass of(ValueRange values) {
    return {NVVMBuilder::Values(values.drop_back()), values.back()};
  }
  NVVMBuilder::Values values() const;
};

//===----------------------------------------------------------------------===//
// The kernel
//===----------------------------------------------------------------------===//

/// What holds for all of a select kernel: facts that follow from the op, and
/// values of the function, which dominate the ops on tiles.
class SelectFrame {
public:
  using Values = NVVMBuilder::Values;

  /// Facts of a kernel of kind select or of its task, but for the layout.
  template <typename Op> SelectFrame(Op op, int64_t group);
  /// All that a task has.
  explicit SelectFrame(shed::SelectTaskOp task);

  /// The layout that the facts of the task and the op that ends it take.
  shed::SharedLayoutAttr layoutTaken(shed::SelectTaskOp task) const;
  /// What the function says of such a kernel.
  EntryFacts entryFacts() const;

  Value field(NVVMBuilder &v, Type type, size_t offset) const;
  /// Rows that have groups.
  Value rowCount(NVVMBuilder &v) const;
  /// Row `row` (i32) of the block's scratch.
  Value scratchRow(NVVMBuilder &v, Value row) const;
  /// The scores of the block's group `part` (i32), of a mass at `row`.
  Value scoresOf(NVVMBuilder &v, Value part, Value row) const;
  /// Whether what it scores are blocks: by means of their keys.
  bool scoresBlocks() const { return byLogits && blocks; }
  /// The warp's lanes copy its tile `tile` of keys. What lies where keys from n
  /// on would be is left as it is: it reaches no other key's score.
  void copyKeys(NVVMBuilder &v, Value base, Value tile) const;
  /// [step][square] quads of rows l / 4 and l / 4 + 8 of the square.
  Values loadKeyFragments(NVVMBuilder &v) const;
  /// Where this lane's 16 bytes of step `step` (32 channels) are in its row: a
  /// value and a constant to add.
  std::pair<Value, int64_t> chunkAt(ArrayRef<Value> places,
                                    int64_t step) const {
    return {places[step % 2], step / 2 * 128};
  }

  // Facts of the kernel.
  shed::MmaTilingAttr tiling;
  Type element;
  bool exact; ///< f32
  shed::Encoding encoding;
  int64_t channels, rowBytes;
  int64_t chunks; ///< of 16 bytes in a row
  bool swizzled;
  int64_t threads, warps;
  int64_t group;      ///< rows that share a list
  int64_t rows;       ///< rows in shared memory
  int64_t partRows;   ///< of these, rows of one group
  int64_t parts;      ///< groups that a block scores together
  int64_t keySquares; ///< 16-key squares of a warp's tile
  int64_t tileKeys;   ///< keys of a warp's tile
  int64_t rowSquares; ///< 8-row squares that are worked on together
  bool blocks;        ///< chooses blocks of `group` keys
  bool sharesLists;   ///< query heads of a group share lists
  bool ofRange;       ///< one group, of some of the rows
  bool byLogits;      ///< scores by mean logits: rows are means of groups
  int64_t pooled;     ///< scores that are pooled, or 0
  /// TopK takes shared memory over from the start.
  shed::SharedLayoutAttr layout;

  // Values of the function.
  Value args, n, thread, lane, warp, shared, scratch;
  Value rowBegin, rowEnd; ///< i32: rows that have groups
  Value headsPerList;     ///< i32, where heads share lists
  Value keyStride;        ///< i64, bytes
  Value factor;           ///< scale * log2(e)
  Value warpKeys;         ///< shared address of the warp's tile
  /// Offsets of this lane's chunks of rows of queries and keys: in even and in
  /// odd steps of 64 bytes.
  Values chunkPlaces;
  /// The task: a row of lists, and the first of `parts` groups.
  Value list, first;
};

/// K . Q, unscaled, of the warp's keys, `fragments` (none for f32), and the
/// rows from `row` (i32) on: [row square][key square][4 accumulators].
NVVMBuilder::Values multiplyKeys(NVVMBuilder &v, const SelectFrame &f,
                                 ValueRange fragments, Value row);

/// Of blocks, the number (i32) that there are.
Value countBlocks(NVVMBuilder &v, const SelectFrame &f);

/// The least of `count` (i32) scores, for all threads of the block, which have
/// written them before a barrier.
Value leastScore(NVVMBuilder &v, const SelectFrame &f, Value scores,
                 Value count);

/// Opens the entry of a select kernel before the op: passes over queries and
/// keys are loops with copies, around clones of the ops on tiles. Fails, with
/// an error on it, for a tiling that can't be expressed.
LogicalResult openSelection(shed::KernelOp kernel);

/// A constant that LLVM doesn't know, so that it leaves a loop rolled: unrolled
/// ones would keep an address in registers for each of their steps.
Value hiddenWord(NVVMBuilder &v, int64_t value);

void populateSelectScores(const TypeConverter &converter,
                          RewritePatternSet &patterns,
                          const SelectFrame &frame);
void populateSelectLogits(const TypeConverter &converter,
                          RewritePatternSet &patterns,
                          const SelectFrame &frame);
void populateSelectLists(const TypeConverter &converter,
                         RewritePatternSet &patterns, const SelectFrame &frame);

} // namespace mlir::heddle

#endif // HEDDLE_LIB_CONVERSION_SHEDTONVVM_SELECTFRAME_H
