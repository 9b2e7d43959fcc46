//===- SelectLowering.h - Lowers selection to warp products ---*- C++ -*-===//
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
// f32 takes the same way with the products replaced by multiply-adds that leave
// the same elements in the same lanes; it is there to compare with.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_CONVERSION_SHEDTONVVM_SELECTLOWERING_H
#define HEDDLE_LIB_CONVERSION_SHEDTONVVM_SELECTLOWERING_H

#include "TopK.h"
#include "bundle/program/Scores.h"

namespace mlir::heddle {

class SelectLowering {
public:
  /// `kernel` is of kind select and has an mma_tiling.
  explicit SelectLowering(shed::KernelOp kernel);

  /// Emits the kernel before the op. Fails, with an error on it, for a tiling
  /// that this lowering can't express.
  LogicalResult run();

private:
  using Values = NVVMBuilder::Values;

  /// Offsets into shared memory. TopK takes it over from the start.
  struct SharedLayout {
    int64_t queries = 0, lse = 0, inverses = 0, keys = 0, bytes = 0;
  };
  SharedLayout layOut() const;

  //===--- SelectLowering.cpp -----------------------------------------------===
  LogicalResult check();
  Value field(Type type, size_t offset);
  Value stride(size_t offset);
  void loadArguments();
  void scoreLists(Value list, Value group);
  void scoreGroups(Value head, Value group, bool span);
  void copyQueries(Value base, Value firstRow, Value end);
  void copyKeys(Value base, Value tile);
  void scoreKeys(Value keyBase, Value firstTile, bool span, Value first);
  Values scoredLogits(Values logits, Value tile, Value row);
  Value positionOf(Value place);
  Values loadKeyFragments();
  Values scoreRows(ValueRange keys, Value tile, Value row, ValueRange sums);
  Values multiply(ValueRange keys, Value row);
  Values multiplyExact(Value row);
  void storeScores(ValueRange sums, Value tile, Value to, Value inverse,
                   Value first);
  Value rowCount();
  Value scoresOf(Value part, bool span);
  Value scratchRow(Value row);
  std::pair<Value, int64_t> chunkAt(ArrayRef<Value> places, int64_t step);

  //===--- SelectLists.cpp --------------------------------------------------===
  void choose(Value list, Value group);

  shed::KernelOp kernel;
  shed::MmaTilingAttr tiling;
  NVVMBuilder v;

  // Facts of the kernel.
  const Type element;
  const bool exact; ///< f32
  const shed::Encoding encoding;
  const int64_t channels, rowBytes;
  const int64_t chunks; ///< of 16 bytes in a row
  const bool swizzled;
  const int64_t threads, warps;
  const int64_t group;      ///< rows that share a list
  const int64_t rows;       ///< rows in shared memory
  const int64_t partRows;   ///< of these, rows of one group
  const int64_t parts;      ///< groups that a block scores together
  const int64_t keySquares; ///< 16-key squares of a warp's tile
  const int64_t tileKeys;   ///< keys of a warp's tile
  const int64_t rowSquares; ///< 8-row squares that are worked on together
  const bool blocks;        ///< chooses blocks of `group` keys
  const bool sharesLists;   ///< query heads of a group share lists
  const bool ofRange;       ///< one group, of some of the rows
  const int64_t pooled;     ///< scores that are pooled, or 0
  const std::optional<shed::KeyEntries> within; ///< see KeyChoice
  /// Of the logits: of all keys and of the span's.
  const ::heddle::bundle::Scores functions[2];
  const SharedLayout layout;

  // Values of the function.
  Value args, n, thread, lane, warp, shared, scratch;
  Value rowBegin, rowEnd;            ///< i32: rows that have groups
  Value lists;                       ///< i32: rows of lists
  Value headsPerList;                ///< i32
  Value keyStride;                   ///< i64, bytes
  Value factor;                      ///< scale * log2(e)
  ::heddle::bundle::Scores function; ///< of the pass at hand
  Value headAtHand, blockRow; ///< i32: query head, first row in shared memory
  Value logitFactor;          ///< what logits are multiplied with for base 2
  Value warpKeys;             ///< shared address of the warp's tile
  /// Offsets of this lane's chunks of rows of queries and keys: in even and in
  /// odd steps of 64 bytes.
  SmallVector<Value> chunkPlaces;
};

} // namespace mlir::heddle

#endif // HEDDLE_LIB_CONVERSION_SHEDTONVVM_SELECTLOWERING_H
