//===- TilePacking.cpp - Brings K and V into shape for matrix tiles -------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A matrix tile loads 16 rows at a stride, and a right operand holds pairs of
// rows. So K is copied: gathered rows have no stride, and those of a model with
// many heads lie so far apart that they share few sets of the nearest cache. V
// is interleaved. Packing waits for memory, the softmax for arithmetic: while
// the softmax works on a tile, a pair of keys at a time, the next tile is
// packed into a second buffer.
//
//===----------------------------------------------------------------------===//

#include "KernelLowering.h"

using namespace mlir;
using namespace mlir::heddle;

/// The tile that begins at a key of the source; its rows belong in the one of
/// two buffers that its number gives. Behind the source's end it has no keys.
KeyTile KernelLowering::packedTile(const KeySource &source, Value begin) {
  KeyTile tile;
  tile.source = source;
  tile.begin = begin;
  Value left = v.greatest(v.sub(source.count, begin), v.constant(0));
  tile.count = v.least(left, v.constant(tiling.getKeys()));
  tile.padded = v.roundUp(tile.count, keyStep);
  Value odd = arith::AndIOp::create(v.b, v.quotient(begin, tiling.getKeys()),
                                    v.constant(1));
  Value offset = v.mul(odd, tiling.getKeys() * channels * 2);
  tile.keys = v.at(v.at(scratch, layout.keys), offset);
  tile.keyStride = v.constant(channels * 2);
  tile.values = v.at(v.at(scratch, layout.values), offset);
  return tile;
}

KeyTile KernelLowering::nextTile(const KeyTile &tile) {
  return packedTile(tile.source, v.add(tile.begin, tiling.getKeys()));
}

/// Packs keys j and j + 1 of a tile; behind its end, the source's last again.
void KernelLowering::packPair(const KeyTile &tile, Value j) {
  Value first = v.add(tile.begin, j), last = v.add(tile.source.count, -1);
  Value at[2];
  for (int64_t key = 0; key < 2; ++key)
    at[key] = placeOf(tile.source, v.least(v.add(first, key), last));
  Value to = v.at(tile.keys, v.mul(j, channels * 2));
  for (int64_t key = 0; key < 2; ++key) {
    Value from = v.at(keyBase, v.mul(at[key], keyStride));
    for (int64_t c = 0; c < channels; c += 32)
      v.store(v.load(v.words(), v.at(from, c * 2), 2),
              v.at(to, (key * channels + c) * 2));
  }
  if (selects)
    return;
  // [keys / 32][channels / 16][16 pairs of keys][16 channels] dwords.
  // Interleaving within quarters of vectors is the cheapest, and leaves the
  // channels of a block of 32 in an order that storeContextTiles undoes.
  Value low = v.at(valueBase, v.mul(at[0], valueStride));
  Value high = v.at(valueBase, v.mul(at[1], valueStride));
  Value block = v.mul(v.quotient(j, 32), 32);
  to = v.at(tile.values,
            v.add(v.mul(block, channels * 2), v.mul(v.sub(j, block), 32)));
  for (int64_t c = 0; c < channels; c += 32) {
    Value x = v.load(v.words(), v.at(low, c * 2), 2);
    Value y = v.load(v.words(), v.at(high, c * 2), 2);
    v.store(v.interleaveQuarters(x, y, 0), v.at(to, c * 64));
    v.store(v.interleaveQuarters(x, y, 1), v.at(to, c * 64 + 1024));
  }
}

/// Packs the keys of a tile from the `from`-th on.
void KernelLowering::packRest(const KeyTile &tile, Value from) {
  v.loop(from, tile.padded, 2, [&](Value j) { packPair(tile, j); });
}

/// Keys of the next tile that are packed beside the weights of 32 keys for a
/// vector of rows: a power of two, or 0 where a task has too many rows.
int64_t KernelLowering::packShare() {
  int64_t share = 32;
  while (share * tiling.getPanels() * vectors > 32)
    share /= 2;
  return share < 2 ? 0 : share;
}

/// Packs of the next tile what belongs beside keys j + key and j + key + 1 of
/// vector i of a panel.
void KernelLowering::packAhead(const KeyTile &tile, Value p, int64_t i, Value j,
                               int64_t key) {
  int64_t share = packShare();
  if (!share || key * share % 64 != 0)
    return;
  Value vector = v.add(v.mul(p, vectors), i);
  Value square = v.add(v.mul(vector, tiling.getKeys() / 32), v.quotient(j, 32));
  packPair(nextTile(tile), v.add(v.mul(square, share), key * share / 32));
}

/// Packs what packAhead has left of the next tile: a task of fewer rows has
/// fewer vectors.
void KernelLowering::packAheadRest(const KeyTile &tile) {
  Value whole = v.quotient(v.add(rows.rows, -1), panel);
  Value few =
      v.compare(arith::CmpIPredicate::sle,
                v.sub(rows.rows, v.mul(whole, panel)), v.constant(v.lanes));
  Value last = v.select(few, v.constant(1), v.constant(vectors));
  Value done = v.add(v.mul(whole, vectors), last);
  packRest(nextTile(tile), v.mul(done, packShare() * (tiling.getKeys() / 32)));
}

/// Scoring alone reads a row of K once a panel: where it lies, unless the tile
/// is short.
void KernelLowering::packShortKeys(KeyTile &tile) {
  Value isShort = v.compare(arith::CmpIPredicate::ne, tile.count, tile.padded);
  v.when(isShort, [&] { packRest(tile, v.constant(0)); });
  Value direct = v.at(keyBase, v.mul(placeOf(tile, v.constant(0)), keyStride));
  tile.keys = v.select(isShort, tile.keys, direct);
  tile.keyStride = v.select(isShort, tile.keyStride, keyStride);
}
