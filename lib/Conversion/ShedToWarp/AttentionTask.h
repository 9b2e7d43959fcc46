//===- AttentionTask.h - What a kernel of attention knows -------*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_CONVERSION_SHEDTOWARP_ATTENTIONTASK_H
#define HEDDLE_LIB_CONVERSION_SHEDTOWARP_ATTENTIONTASK_H

#include "../ShedToNVVM/IndexSource.h"
#include "Lowering.h"

#include "heddle/Dialect/Shed/Transforms/Tuning.h"

namespace mlir::heddle {

/// The keys that rows have in a set which differs by row: a range, as positions
/// ascend, or a part of one.
struct RowKeys {
  KeyRange some, own; ///< of any row of the block, and of the warpgroup
  /// Where each row's are a range: that of all of the warpgroup's rows, and
  /// each row's as columns of i32.
  std::optional<KeyRange> all;
  Value first, length;
};

/// A kernel for warpgroups of 64 rows, as one stream of control.
///
/// Where query heads share lists, a task is the rows of a group for all heads
/// of a list, so that a gathered tile serves all of these. Its rows are counted
/// head by head: with groups of 32 and 7 heads, row 70 of 224 is row 6 of head
/// 2. Warpgroups take 64 of them each, which are of one head or of several, and
/// blocks share a task's warpgroups evenly, so some may have none for the last
/// one: of 7 times 64 rows blocks of three have 2, 2 and 3.
///
/// Packed rows are those of all query heads of a key head, row by row: with 7
/// heads row 23 of tiles is row 3 of the sequence's and head 2. All that counts
/// rows (`taskRow`, `taskEnd`, `firstRow`) counts these.
class AttentionTask final : public WarpTask {
public:
  explicit AttentionTask(shed::KernelOp kernel);

  LogicalResult verifyForm() override;
  Operation *open() override;
  void populate(WarpPatterns patterns) const override;
  std::unique_ptr<WarpTask>
  splitTail(Operation *function,
            SmallVectorImpl<Operation *> &loops) const override;

  /// Rows of a head that a warpgroup has, of `batch` heads.
  int64_t rowsTogether() const {
    return std::min<int64_t>(taskRows, warp::warpgroupRows);
  }
  bool hasBatch() const { return rowsTogether() < warp::warpgroupRows; }
  /// How far the heads of a batch are apart, if there is one, where their rows
  /// have so many bytes.
  Value batchStride(Value bytes) const { return batch ? bytes : Value(); }
  IntegerAttr batchRows(WarpBuilder &v) const {
    return hasBatch() ? v.b.getI64IntegerAttr(rowsTogether()) : IntegerAttr();
  }
  UnitAttr inTurns(WarpBuilder &v) const {
    return packed ? v.b.getUnitAttr() : UnitAttr();
  }
  /// Whether blocks go on to further tiles of rows.
  bool isPersistent() const { return tiling.getQueryStages() > 0; }
  /// Whether some tiles may have rows for all warpgroups but one; with two the
  /// other one would be left alone, and in order all have to compute.
  bool hasShortTiles() const {
    return isPersistent() && !hasLists && tiling.getConsumers() > 2 &&
           !tiling.getPingPong();
  }
  /// Whether loops over keys are of whole tiles alone, for a tail comes after.
  bool hasWholeTiles() const { return tiling.getTailKeys() && !isTail; }
  int64_t shortRows() const { return taskRows - warp::warpgroupRows; }
  /// Of each key, or null where key j stands at j.
  Value positions(WarpBuilder &v) const;

  bool isTail = false;    ///< whether loops over keys are of a list's tail
  const int64_t taskRows; ///< of a task, of one head
  /// Whether weights are powers of logits as these are, without a maximum.
  const bool bounded;
  const bool writesLse;

  // Values of the function, i32 unless they are pointers or strides.
  Value n, rows;
  Value listRow;           ///< the block's row of lists
  Value head;              ///< the first one of the warpgroup
  Value task;              ///< which rows of lists, and of a head if not shared
  Value sharers;           ///< heads that share a list, or null
  Value packed;            ///< heads whose rows are packed, or null
  Value firstTile, active; ///< the block's warpgroups of a task's
  Value batch;     ///< heads from `head` on, where a warpgroup has several
  Value share;     ///< which of the tile's keys, with `key_shares`
  Value tileStart; ///< the tile's first row, or place where it has lists
  Value tileRows;  ///< the most that it has
  Value taskRow, taskEnd; ///< the tile's rows
  KeyRange clusterRows;   ///< those of all tiles of the cluster
  Value hasRows;          ///< whether there are any, where blocks go on without
  Value queryBase, keyBase, valueBase, outputBase, lseBase;
  Value queryStride, keyStride, valueStride, outputStride; ///< i64, bytes
  Value queryMap, keyMap, valueMap; ///< tensor maps, with `tma`
  Value kvColumn;                   ///< of the head in them, in elements
  Value factor;                     ///< |scale| * log2(e)
  Value negative;     ///< whether the sign of `scale` is to go into the queries
  Value firstRow;     ///< of the warpgroup
  Value queryFrom;    ///< the warpgroup's first row of the tile, if not 0
  Value rowPositions; ///< a column of i32, where they are compared
  DenseMap<Attribute, RowKeys> rowKeys; ///< of sets that differ by row

private:
  LogicalResult verifyForm(shed::ForKeysOp loop);
  void setTiles(int64_t keys, int64_t parts);
  void loadArguments(WarpBuilder &v);
  void openTasks(WarpBuilder &v);
  /// What follows from how many tiles are short, all i32.
  struct ShortTiles {
    Value tasks;        ///< of blocks, or of clusters
    Value before;       ///< tasks that are not short
    Value othersOfHead; ///< of these a head's
    Value ofHead;       ///< the short ones
  };
  ShortTiles findShortTiles(WarpBuilder &v, Value heads, Value step,
                            Value ofHead);
  void openTile(WarpBuilder &v, Value first, Value which);
  void findTask(WarpBuilder &v);
  void findRows(WarpBuilder &v);
  void findHead(WarpBuilder &v);
  void findRowKeys(WarpBuilder &v);
  void findRowPositions(WarpBuilder &v);
  RowKeys rowKeysOf(WarpBuilder &v, shed::KeySet set) const;
  Value positionOf(WarpBuilder &v, Value row) const;
  Value countBelow(WarpBuilder &v, Value bounds) const;

  /// The last row before `end`, or the first of all where the tile has none:
  /// what stands there may be read.
  Value lastBefore(WarpBuilder &v, Value end) const {
    Value last = v.add(end, -1);
    return hasRows ? v.greatest(last, v.word(0)) : last;
  }
  /// The row of the sequence's that row `row` (i32) of tiles is.
  Value sequenceRow(WarpBuilder &v, Value row) const {
    return packed ? v.quotient(row, packed) : row;
  }

  // What the ops of the kernel say, before they are moved.
  const bool hasLists, comparesRows;
  std::optional<shed::KeyEntries> entries; ///< of a pass that goes by lists
  SetVector<Attribute> rowSets;            ///< that differ by row
  shed::LoadQueriesOp queries;
};

void populateKeyPatterns(WarpPatterns patterns, const AttentionTask &t);
void populateLogitPatterns(WarpPatterns patterns, const AttentionTask &t);
void populateSoftmaxPatterns(WarpPatterns patterns, const AttentionTask &t);

/// The keys of a tile that ends within none: [first, end) holds all of them.
KeyRange rangeOf(WarpBuilder &v, const AttentionTask &t, const TileKeys &keys);
/// Of each element the key, some key behind the last one: i32.
Value eachKey(WarpBuilder &v, const AttentionTask &t, const TileKeys &keys);

} // namespace mlir::heddle

#endif // HEDDLE_LIB_CONVERSION_SHEDTOWARP_ATTENTIONTASK_H
