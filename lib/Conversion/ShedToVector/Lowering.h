//===- Lowering.h - What patterns to vectors share -------------*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_CONVERSION_SHEDTOVECTOR_LOWERING_H
#define HEDDLE_LIB_CONVERSION_SHEDTOVECTOR_LOWERING_H

#include "bundle/abi/Abi.h"
#include "heddle/Conversion/ShedToVector.h"

namespace mlir::heddle::vectors {

using Values = VectorBuilder::Values;
using Int = arith::CmpIPredicate;
using Float = arith::CmpFPredicate;
using ::heddle::abi::AttentionArgs;
using ::heddle::abi::IndexList;
using ::heddle::abi::SelectArgs;

void populateKernelPatterns(const VectorPatterns &patterns);
void populateKeyPatterns(const VectorPatterns &patterns);
void populateLoadPatterns(const VectorPatterns &patterns);
void populateProductPatterns(const VectorPatterns &patterns);
void populateScorePatterns(const VectorPatterns &patterns);
void populateSoftmaxPatterns(const VectorPatterns &patterns);
void populateSelectPatterns(const VectorPatterns &patterns);
void populateLogitPatterns(const VectorPatterns &patterns);

//===--- Kernels.cpp -------------------------------------------------------===
/// Takes up a query head.
void setHead(KernelBuilder &v, Value which);

//===--- Lists.cpp ---------------------------------------------------------===
/// Keys [first, end).
struct KeyRange {
  Value first, end;
};
/// The keys that a pass visits for the rows at hand.
KeySource keySource(KernelBuilder &v, shed::ForKeysOp loop);
/// Writes the keys of a list of blocks to scratch, for all passes of the task.
KeySource expandBlocks(KernelBuilder &v, const shed::KeyEntries &entries,
                       int64_t offset);
/// The keys of a block; bundle::keysOfBlock says which these are.
KeyRange blockKeys(KernelBuilder &v, Value block, Value split, int64_t size);

//===--- TilePacking.cpp ---------------------------------------------------===
/// The tile that begins at a key of the source; its rows belong in the one of
/// two buffers that its number gives. Behind the source's end it has no keys.
Keys tileAt(KernelBuilder &v, const KeySource &source, Value begin);
/// Packs the keys of a tile from the `from`-th on.
void packRest(KernelBuilder &v, const Keys &keys, Value from);
/// Packs of the next tile what belongs beside keys j + key and j + key + 1 of
/// vector i of the panel at hand.
void packAhead(KernelBuilder &v, const Keys &keys, int64_t i, Value j,
               int64_t key);
/// Packs what packAhead has left of the next tile.
void packAheadRest(KernelBuilder &v, const Keys &keys);

//===--- Loads.cpp ---------------------------------------------------------===
/// The address of row j of a tile.
Value rowAddress(KernelBuilder &v, const KeyTile &tile, Value base, Value j);
/// Has a cache fetch rows of K or V that a later tile reads: part `part` of the
/// `parts` that a panel has, so that requests are spread over the products. The
/// rows of a range are left to the hardware.
void fetchAhead(KernelBuilder &v, const KeyTile &tile, Value part,
                int64_t parts);

//===--- Products.cpp ------------------------------------------------------===
/// context[c][i] += sum_j V[j][c] * P[j][i], for the panel at hand.
void addToContext(KernelBuilder &v, Value context, const LogitTile &logits,
                  const KeyTile &tile);

//===--- Softmax.cpp -------------------------------------------------------===
/// What the logits are to be multiplied with for base 2; null for nothing.
Value logitScale(KernelBuilder &v, const LogitTile &logits);

} // namespace mlir::heddle::vectors

#endif // HEDDLE_LIB_CONVERSION_SHEDTOVECTOR_LOWERING_H
