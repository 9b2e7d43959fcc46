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

#include "Lowering.h"

using namespace mlir;
using namespace mlir::heddle;
using namespace mlir::heddle::vectors;

Keys vectors::tileAt(KernelBuilder &v, const KeySource &source, Value begin) {
  const VectorKernel &k = v.k;
  const int64_t size = k.tiling.getKeys();
  Value left = v.greatest(v.sub(source.count, begin), v.constant(0));
  Value count = v.least(left, v.constant(size));
  Keys keys{source,    begin,    count, v.roundUp(count, k.keyStep),
            k.scratch, k.scratch};
  if (k.tiles) {
    Value odd = v.bitAnd(v.quotient(begin, size), v.constant(1));
    Value offset = v.mul(odd, size * k.channels * 2);
    keys.packedKeys = v.at(v.inScratch(k.layout.keys), offset);
    keys.packedValues = v.at(v.inScratch(k.layout.values), offset);
  }
  return keys;
}

static Keys nextTile(KernelBuilder &v, const Keys &keys) {
  return tileAt(v, keys.source, v.add(keys.begin, v.k.tiling.getKeys()));
}

/// Packs keys j and j + 1 of a tile; behind its end, the source's last again.
static void packPair(KernelBuilder &v, const Keys &keys, Value j) {
  const VectorKernel &k = v.k;
  const int64_t channels = k.channels;
  Value first = v.add(keys.begin, j), last = v.add(keys.source.count, -1);
  Value at[2];
  for (int64_t key = 0; key < 2; ++key)
    at[key] = v.placeOf(keys.source, v.least(v.add(first, key), last));
  Value to = v.at(keys.packedKeys, v.mul(j, channels * 2));
  for (int64_t key = 0; key < 2; ++key) {
    Value from = v.at(v.here.keyBase, v.mul(at[key], k.keyStride));
    for (int64_t c = 0; c < channels; c += 32)
      v.store(v.load(v.words(), v.at(from, c * 2), 2),
              v.at(to, (key * channels + c) * 2));
  }
  if (k.selects)
    return;
  // [keys / 32][channels / 16][16 pairs of keys][16 channels] dwords.
  // Interleaving within quarters of vectors is the cheapest, and leaves the
  // channels of a block of 32 in an order that storing the context undoes.
  Value low = v.at(v.here.valueBase, v.mul(at[0], k.valueStride));
  Value high = v.at(v.here.valueBase, v.mul(at[1], k.valueStride));
  Value block = v.mul(v.quotient(j, 32), 32);
  to = v.at(keys.packedValues,
            v.add(v.mul(block, channels * 2), v.mul(v.sub(j, block), 32)));
  for (int64_t c = 0; c < channels; c += 32) {
    Value x = v.load(v.words(), v.at(low, c * 2), 2);
    Value y = v.load(v.words(), v.at(high, c * 2), 2);
    v.store(v.interleaveQuarters(x, y, 0), v.at(to, c * 64));
    v.store(v.interleaveQuarters(x, y, 1), v.at(to, c * 64 + 1024));
  }
}

void vectors::packRest(KernelBuilder &v, const Keys &keys, Value from) {
  v.loop(from, keys.padded, 2, [&](Value j) { packPair(v, keys, j); });
}

/// Keys of the next tile that are packed beside the weights of 32 keys for a
/// vector of rows: a power of two, or 0 where a task has too many rows.
static int64_t packShare(const VectorKernel &k) {
  int64_t share = 32;
  while (share * k.tiling.getPanels() * k.vectors > 32)
    share /= 2;
  return share < 2 ? 0 : share;
}

void vectors::packAhead(KernelBuilder &v, const Keys &keys, int64_t i, Value j,
                        int64_t key) {
  int64_t share = packShare(v.k);
  if (!share || key * share % 64 != 0)
    return;
  Value vector = v.add(v.mul(v.here.panel, v.k.vectors), i);
  Value square =
      v.add(v.mul(vector, v.k.tiling.getKeys() / 32), v.quotient(j, 32));
  packPair(v, nextTile(v, keys), v.add(v.mul(square, share), key * share / 32));
}

/// A task of fewer rows has fewer vectors beside which something was packed.
void vectors::packAheadRest(KernelBuilder &v, const Keys &keys) {
  const VectorKernel &k = v.k;
  Value rows = v.here.rows;
  Value whole = v.quotient(v.add(rows, -1), k.panel);
  Value few = v.compare(Int::sle, v.sub(rows, v.mul(whole, k.panel)),
                        v.constant(v.lanes));
  Value last = v.select(few, v.constant(1), v.constant(k.vectors));
  Value done = v.add(v.mul(whole, k.vectors), last);
  packRest(v, nextTile(v, keys),
           v.mul(done, packShare(k) * (k.tiling.getKeys() / 32)));
}
