//===- AttentionOpening.h - Makes movement explicit -------------*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_CONVERSION_SHEDTONVVM_ATTENTIONOPENING_H
#define HEDDLE_LIB_CONVERSION_SHEDTONVVM_ATTENTIONOPENING_H

#include "AttentionFrame.h"
#include "IndexSource.h"

#include "mlir/IR/IRMapping.h"

namespace mlir::heddle {

/// A pass over one set of keys.
struct KeyPass {
  Value count;                       ///< i32: keys, by rank
  Value tiles;                       ///< i32
  Value first;                       ///< place of rank 0; null for a list
  std::optional<IndexSource> source; ///< of a list
  std::optional<KeyFilter> filter;   ///< keys to be left out
  shed::KeySet sparse;               ///< asked for each tile, or null
  shed::PositionRange rows;          ///< of the block's rows, with `sparse`

  /// Tile `index` (i32), in the stage at `stage`.
  KeyTile tile(NVVMBuilder &v, Value index, int64_t keys, Value stage,
               bool partial) const;
};

/// Makes the frame of one way of a kernel and writes its loads of arguments,
/// its copies and loops, and between them the ops on tiles, which stay what
/// they are.
class AttentionOpening : public AttentionFrame {
public:
  AttentionOpening(NVVMBuilder &v, shed::KernelOp kernel);

  /// Returns from the kernel where the tile has no rows.
  void findRows();
  /// Loads arguments; `fewRows`: for a block whose warps share rows.
  void loadArguments(bool fewRows);
  void writeTask();

private:
  /// A thread's part of a copy: its row of those that are copied at a time, its
  /// 16-byte chunk of the row, and where that goes in a tile.
  struct CopyPart {
    Value thread, row, chunk, place;
  };

  /// What this thread copies next of keys and values: global pointers.
  struct Cursor {
    Value key, value;
  };

  //===--- AttentionOpening.cpp ---------------------------------------------===
  void shareRows();
  Value placeOf(Value row);
  void storePositions();
  LanePart lanePart(Value thread);

  //===--- KeyPasses.cpp ----------------------------------------------------===
  KeyList list(const shed::KeyEntries &entries);
  Value placesBelow(Value bound);
  KeyPass keyPass(shed::ForKeysOp loop);
  void bringTile(KeyPass &pass, Value tile, Value stage, Cursor cursor);
  Value keepsSome(const KeyPass &pass, Value tile);
  Value writePass(shed::ForKeysOp loop, Value softmax);
  Value writeTile(shed::ForKeysOp loop, const KeyTile &tile, Value softmax);
  Value writeKeys(shed::ForKeysOp loop, const KeyTile &tile, Value softmax);

  //===--- Copies.cpp -------------------------------------------------------===
  CopyPart copyPart(Value thread);
  void copyQueries();
  void finishQueries(int64_t pending);
  Cursor beginCopies(const KeyPass &pass);
  void copyTile(KeyPass &pass, Value tile, Value stage, Cursor cursor);
  Cursor advance(const KeyPass &pass, Cursor cursor);
  void forCopiedRows(int64_t rows, function_ref<void(int64_t row)> body);

  NVVMBuilder &v;
  shed::KernelOp kernel;

  Value tileStart; ///< the tile's first place, where it has lists
  Value queryStride, keyStride, valueStride; ///< i64, bytes
  Value queryBase, keyBase, valueBase; ///< of the head, as global pointers
  Value negative; ///< whether the sign of `scale` is to go into the queries
  CopyPart part;
  shed::LoadQueriesOp coming; ///< queries that are on their way
  bool passed = false;        ///< a pass is over
  IRMapping tiles;            ///< from the kernel's values to this way's
};

} // namespace mlir::heddle

#endif // HEDDLE_LIB_CONVERSION_SHEDTONVVM_ATTENTIONOPENING_H
