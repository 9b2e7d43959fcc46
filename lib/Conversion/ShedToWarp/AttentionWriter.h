//===- AttentionWriter.h - Attention by warpgroups --------------*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_CONVERSION_SHEDTOWARP_ATTENTIONWRITER_H
#define HEDDLE_LIB_CONVERSION_SHEDTOWARP_ATTENTIONWRITER_H

#include "../ShedToNVVM/IndexSource.h"
#include "WarpBuilder.h"

#include "bundle/program/Scores.h"
#include "heddle/Dialect/Shed/Transforms/Tuning.h"

namespace mlir::heddle {

/// Logits, which are `fragment` times `factor`.
struct Logits {
  Value fragment, factor;
  bool endMasked = false; ///< what lies behind the pass's last key is -inf
};

/// A running softmax. The sum is in parts, one a lane.
struct RunningSoftmax {
  Value context, maximum, sum;
};

/// A pass over keys, tile by tile.
struct KeyPass {
  shed::KeySet over;
  Value tiles;                 ///< i32
  Value count;                 ///< i32: keys, but of a list of blocks
  Value first;                 ///< i32: of a range that need not begin at 0
  Value end;                   ///< i32: behind all of its keys
  std::optional<KeyList> list; ///< of keys or of blocks
  Value skipped;               ///< i32: keys of a list before it do not count
};

/// The keys that rows have in a set which differs by row: a range, as positions
/// ascend, or a part of one.
struct RowKeys {
  KeyRange some, own; ///< of any row of the block, and of the warpgroup
  /// Where each row's are a range: that of all of the warpgroup's rows, and
  /// each row's as columns of i32.
  std::optional<KeyRange> all;
  Value first, length;
};

/// The keys of a tile, or of a part of one: where they stand and how many there
/// are from the first one on, at most 0 if none.
struct TileKeys {
  Value first; ///< i32: the first row, or 0 with `rows`
  Value left;  ///< i32
  Value end;   ///< i32: of the rows that exist
  Value rows;  ///< of keys that a list names
  Value rank;  ///< i32: of the first of these in the list
  int64_t columns;
  int64_t from = 0; ///< the part's first column in the tile
};

/// Whether functions bound all logits of an attention kernel so far that
/// weights are their powers as they are: nothing is gained where they are
/// relative to a row's maximum. bf16 has the exponents for such weights, f16
/// has not.
bool boundsLogits(shed::KernelOp kernel);

/// Writes a kernel for warpgroups of 64 rows, as one stream of control.
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
class AttentionWriter {
public:
  explicit AttentionWriter(shed::KernelOp kernel)
      : kernel(kernel), tiling(kernel.getTilingAs<shed::WgmmaTilingAttr>()),
        v(kernel.getLoc(), kernel.getContext()), element(kernel.getElement()),
        channels(kernel.getHeadDim()),
        taskRows(kernel.getSharedLists()
                     ? shed::sharedTaskRows(kernel.getRowsInStep(),
                                            tiling.getQueryRows())
                     : tiling.getQueryRows()),
        bounded(boundsLogits(kernel)) {}

  LogicalResult run();

private:
  void loadArguments();
  LogicalResult writeTasks();
  LogicalResult writeTile(Value first, Value which);
  void findTask();
  void findRows();
  void findHead();
  Value ofHead(size_t offset, Value which);
  Value field(Type type, size_t offset) {
    return v.loadConstant(type, v.at(args, static_cast<int64_t>(offset)),
                          type.isF32() || type.isInteger(32) ? 4 : 8);
  }
  LogicalResult lower(Operation &op);
  LogicalResult lowerKeys(shed::ForKeysOp loop);
  LogicalResult verifyForm(shed::ForKeysOp loop);
  LogicalResult lowerInTile(Operation &op, const KeyPass &pass,
                            const TileKeys &keys);
  /// What a value of `shed` stands for, of a part of a tile. Functions and
  /// masks are written where the softmax asks for what they give.
  Logits logitsOf(Value value, const KeyPass &pass, const TileKeys &keys);
  Logits score(const Logits &logits, const ::heddle::bundle::Scores &scores,
               const KeyPass &pass, const TileKeys &keys);

  //===--- Which keys: KeyPasses.cpp ---------------------------------------===
  KeyPass keyPass(shed::ForKeysOp loop);
  KeyList keyList(const shed::KeyEntries &entries);
  TileKeys keysOf(const KeyPass &pass, Value tile);
  TileKeys partOf(const TileKeys &tile, int64_t from, int64_t columns);
  /// The keys of a tile that ends within none: [first, end) holds all of them.
  KeyRange rangeOf(const KeyPass &pass, const TileKeys &keys);
  /// Of each element the key, some key behind the last one: i32.
  Value eachKey(const KeyPass &pass, const TileKeys &keys);
  Value positions();
  Value positionOf(Value row);
  void findRowKeys();
  void findRowPositions();
  RowKeys rowKeysOf(shed::KeySet set);
  Value countBelow(Value bounds);
  /// What `body` makes of each element of `inputs`, given where its key stands
  /// in the sequence.
  Value mapKeys(Type type, ValueRange inputs, const KeyPass &pass,
                const TileKeys &keys,
                function_ref<Value(ValueRange elements, Value key)> body);
  Logits mask(shed::MaskOp op, const Logits &logits, const KeyPass &pass,
              const TileKeys &keys);
  Value maskEnd(Value all, float none, const KeyPass &pass,
                const TileKeys &keys);

  RunningSoftmax update(RunningSoftmax state, Value logits, Value values,
                        const KeyPass &pass, const TileKeys &keys);
  RunningSoftmax rescale(RunningSoftmax state, Value top);
  void store(const RunningSoftmax &state);
  RunningSoftmax mergeShares(Value space, int64_t columns, Value from);
  /// `state`: of the columns from `from` on, whose sum is of all of a row.
  void finish(const RunningSoftmax &state, Value from, Value lseEnd);

  Value loadQueries();
  Value loadKeys(Value base, Value stride, Value map, const TileKeys &keys);
  /// Rows of a head that a warpgroup has, of `batch` heads.
  int64_t rowsTogether() const {
    return std::min<int64_t>(taskRows, warp::warpgroupRows);
  }
  bool hasBatch() const { return rowsTogether() < warp::warpgroupRows; }
  /// How far the heads of a batch are apart, if there is one, where their rows
  /// have so many bytes.
  Value batchStride(Value bytes) { return batch ? bytes : Value(); }
  IntegerAttr batchRows() {
    return hasBatch() ? v.b.getI64IntegerAttr(rowsTogether()) : IntegerAttr();
  }
  UnitAttr inTurns() { return packed ? v.b.getUnitAttr() : UnitAttr(); }

  /// The last row before `end`, or the first of all where the tile has none:
  /// what stands there may be read.
  Value lastBefore(Value end) {
    Value last = v.add(end, -1);
    return hasRows ? v.greatest(last, v.word(0)) : last;
  }

  /// The row of the sequence's that row `row` (i32) of tiles is.
  Value sequenceRow(Value row) {
    return packed ? v.quotient(row, packed) : row;
  }

  /// Whether blocks go on to further tiles of rows.
  bool isPersistent() const { return tiling.getQueryStages() > 0; }

  shed::KernelOp kernel;
  shed::WgmmaTilingAttr tiling;
  WarpBuilder v;
  const Type element;
  const int64_t channels;
  const int64_t taskRows; ///< of a task, of one head
  /// Whether weights are powers of logits as these are, without a maximum.
  const bool bounded;

  // Values of the function, i32 unless they are pointers or strides.
  Value args, n, rows;
  Value listRow;           ///< the block's row of lists
  Value head;              ///< the first one of the warpgroup
  Value task;              ///< which rows of lists, and of a head if not shared
  Value sharers;           ///< heads that share a list, or null
  Value packed;            ///< heads whose rows are packed, or null
  Value firstTile, active; ///< the block's warpgroups of a task's
  Value batch;     ///< heads from `head` on, where a warpgroup has several
  Value share;     ///< which of the tile's keys, with `key_shares`
  Value tileStart; ///< the tile's first place, where it has lists
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
  DenseMap<Attribute, RowKeys> rowKeys;

  // What the ops of `shed` gave.
  DenseMap<Value, Value> tiles;
  DenseMap<Value, Value> products; ///< of queries and a tile of keys
  DenseMap<Value, RunningSoftmax> states;
};

} // namespace mlir::heddle

#endif // HEDDLE_LIB_CONVERSION_SHEDTOWARP_ATTENTIONWRITER_H
