//===- KernelLowering.h - Lowers one kernel to vectors ---*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Vectors run along query rows. A panel (`panel` rows) keeps Q transposed, so
// logits form as [keys x panel] by broadcasting elements of row-major K rows,
// wherever those lie: contiguous or gathered, neither K nor V is transposed.
// The softmax is then elementwise across keys, and the context grows as
// [channels x panel] by broadcasting elements of V. With matrix tiles the
// weights of a panel are transposed instead, and the context grows as [panel x
// channels]: V is the right operand. Tiles live in scratch:
//
//   queries       [panels][steps][panel]: fp32, or dwords of bf16 pairs
//   positions     [panels][panel] of the rows in the sequence, i32
//   maximum, sum  [panels][panel]
//   context       [panels][channels][panel]; tiles: [panels][panel][channels]
//   logits        [keys][panel] of one panel; fp32 weights take their place
//   weights       [keys / 2][panel] pairs of bf16; tiles: [keys /
//   32][panel][32] keys, values  packed rows of a tile; matrix tiles have two
//   buffers list, mass    [n]
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_CONVERSION_SHEDTOVECTOR_KERNELLOWERING_H
#define HEDDLE_LIB_CONVERSION_SHEDTOVECTOR_KERNELLOWERING_H

#include "VectorBuilder.h"
#include "heddle/Dialect/Shed/IR/Shed.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <map>

namespace mlir::heddle {

/// Byte offsets of a kernel's tiles in scratch, each a multiple of 64.
struct ScratchLayout {
  int64_t queries = 0, positions = 0, maximum = 0, sum = 0, context = 0,
          lse = 0, logits = 0, weights = 0, keys = 0, values = 0, spill = 0,
          bytes = 0;
  /// Bytes of one panel's part.
  int64_t queryPanel = 0, rowPanel = 0, contextPanel = 0;
  /// Bytes for each of the n keys; offsets in them, times n.
  int64_t list = 0, mass = 0, spanMass = 0, pool = 0, perKey = 0;
  /// Likewise, of the keys of each list of blocks.
  SmallVector<std::pair<shed::KeyEntries, int64_t>> blocks;
};

/// The source of a pass over keys: places first + j, or list[j].
struct KeySource {
  Value count;
  Value first; ///< null for a list
  Value list;
};

/// Keys [first, end).
struct KeyRange {
  Value first, end;
};

/// The tile of keys at hand.
struct KeyTile {
  KeySource source;
  Value begin;               ///< index of its first key in the source
  Value count;               ///< keys in it, at least 1
  Value padded;              ///< count rounded up to what the products work on
  Value keys, keyStride;     ///< rows of K: base and bytes between rows
  Value values, valueStride; ///< likewise; interleaved if packed
  bool gathersKeys = false;  ///< rows are found through the source
  bool gathersValues = false;
};

/// Query rows at hand: [row, row + rows) of the compact rows.
struct RowRange {
  Value row, rows, panels;
};

class KernelLowering {
public:
  KernelLowering(shed::KernelOp kernel);

  /// Emits the function before the kernel.
  func::FuncOp run();

private:
  using Values = VectorBuilder::Values;

  //===--- KernelLowering.cpp ----------------------------------------------===
  void layOut();
  void loadArguments();
  void setHead(Value which);
  void lowerQueries(shed::ForQueriesOp loop);
  void lowerBody(Block &body);
  void lowerKeys(shed::ForKeysOp loop);
  void lowerTile(shed::ForKeysOp loop, KeyTile &tile);
  Value keepsSome(shed::KeySet set, const KeyTile &tile);
  void lowerPanelOps(ArrayRef<Operation *> ops, KeyTile &tile);
  void setRows(Value row, Value end);
  Value field(Type type, size_t offset);
  Value placeOf(const KeyTile &tile, Value j);
  Value placeOf(const KeySource &source, Value j);
  Value placeOfRow(Value row);
  Value positionAt(Value place);
  Value countBelow(Value count, function_ref<Value(Value)> at, Value bound);
  Value placesBelow(Value bound);
  void forPanels(function_ref<void(Value)> body);
  Value panelBase(int64_t offset, int64_t bytes, Value panel) {
    return v.at(scratch, v.add(v.mul(panel, bytes), offset));
  }

  //===--- Packing.cpp -----------------------------------------------------===
  void loadQueries();
  void loadRowPositions();
  void loadLse();
  void loadKeys(KeyTile &tile);
  void loadValues(KeyTile &tile);
  Value rowAddress(Value base, Value stride, const KeyTile &tile, Value j,
                   bool gathers);
  void widenRow(Value from, Value to);
  void fetchAhead(const KeyTile &tile, Value base, Value stride, Value panel,
                  Value part, int64_t parts);

  //===--- TilePacking.cpp -------------------------------------------------===
  KeyTile packedTile(const KeySource &source, Value begin);
  KeyTile nextTile(const KeyTile &tile);
  void packPair(const KeyTile &tile, Value j);
  void packRest(const KeyTile &tile, Value from);
  int64_t packShare();
  void packAhead(const KeyTile &tile, Value panel, int64_t i, Value j,
                 int64_t key);
  void packAheadRest(const KeyTile &tile);
  void packShortKeys(KeyTile &tile);

  //===--- Products.cpp ----------------------------------------------------===
  void scoreProduct(const KeyTile &tile, Value panel);
  void scoreProductTiles(const KeyTile &tile, Value panel);
  void contextProduct(const KeyTile &tile, Value panel);
  void contextProductTiles(const KeyTile &tile, Value panel);
  Value multiply(Value broadcast, Value lanes, Value sum);

  //===--- Softmax.cpp -----------------------------------------------------===
  void initSoftmax();
  void mask(shed::MaskOp op, const KeyTile &tile, Value panel);
  void updateSoftmax(const KeyTile &tile, Value panel);
  void padLogits(const KeyTile &tile);
  Value logitScale();
  void columnMass(const KeyTile &tile, Value panel);
  void scaleContext(ArrayRef<Value> ratio, Value panel);
  void storeContext();
  void storeContextTiles();
  void storeLse();
  Value logitsRow(Value j);

  //===--- Scores.cpp ------------------------------------------------------===
  void score(shed::ScoresOp op, const KeyTile &tile, Value panel);

  //===--- Lists.cpp -------------------------------------------------------===
  KeySource keySource(shed::ForKeysOp loop);
  KeySource listSource(const shed::KeyEntries &entries);
  KeySource expandBlocks(const shed::KeyEntries &entries, int64_t offset);
  KeyRange blockKeys(Value block, Value split, int64_t size);
  shed::PairArithmetic positionArithmetic();
  Value endOf(ArrayRef<shed::KeySet> sets);
  KeyRange keysOfRows(shed::KeySet set);
  KeySource cut(const KeySource &list, shed::KeySet set);
  KeySource compact(KeySource source, ArrayRef<shed::KeyEntries> skip,
                    ArrayRef<shed::KeySet> before);

  //===--- TopK.cpp --------------------------------------------------------===
  void initMass(bool span);
  Value massAt(bool span);
  void topK(shed::TopKOp op);
  Value chosenBy(Value mass, int64_t pooled);
  void keepWithin(const shed::KeyEntries &entries, Value mass);
  void poolMass(Value mass, Value from, Value to, Value split, Value padded);
  Value storeLargest(Value scores, Value from, Value to, Value keep,
                     Value limit, Value target);

  shed::KernelOp kernel;
  shed::TilingAttr tiling;
  VectorBuilder v;
  ScratchLayout layout;
  func::FuncOp function;

  // Facts of the kernel.
  const int64_t channels, panel, vectors;
  /// Vectors of the panel at hand that have rows: one, or all of them.
  int64_t active;
  const int64_t elementBytes;
  const shed::DotKind dot;
  const bool bf16, selects;
  /// Whether pairs are told apart by their rows' positions.
  bool masks = false;
  /// Left operands of one product step are dwords of bf16 pairs.
  const bool paired;
  /// Rows of the transposed queries: channels, or pairs of channels.
  const int64_t steps;
  /// Keys that the weights are padded to.
  const int64_t keyStep;

  // Values of the function.
  Value args, head, task, scratch;
  /// The list that a select kernel writes; `head` is one of its query heads.
  Value listRow, headsPerList;
  /// Keys of lists of blocks.
  std::map<int64_t, KeySource> expanded;
  /// Whether the loop at hand is over the second span's keys.
  bool inSpan = false;
  Value n, allRows, places, positions;
  Value queryBase, queryStride, keyBase, keyStride, valueBase, valueStride;
  /// scale * log2(e): folded into Q (fp32), or |.| applied to logits (pairs).
  Value factor;
  /// Bits that flip the sign of a pair of queries where the scale is negative.
  Value querySign;
  Value taskRow, taskEnd;
  RowRange rows;
  /// What the logits in scratch are to be multiplied with, once `shed.scores`
  /// has been at them.
  std::optional<float> scoreFactor;
};

} // namespace mlir::heddle

#endif // HEDDLE_LIB_CONVERSION_SHEDTOVECTOR_KERNELLOWERING_H
