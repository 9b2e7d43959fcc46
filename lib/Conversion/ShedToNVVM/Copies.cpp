//===- Copies.cpp - Brings queries, keys and values to shared memory ------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Some lanes copy a row together, 16 bytes each and several times where the row
// is longer; the block copies `copyRows` rows at a time. A thread's lane, chunk
// and place hence never change, only constants are added.
//
//===----------------------------------------------------------------------===//

#include "AttentionOpening.h"

using namespace mlir;
using namespace mlir::heddle;
using arith::CmpIPredicate;

Value Swizzle::place(NVVMBuilder &v, Value row, Value chunk) const {
  Value turn = span() == 128 ? v.both(row, 7) : v.both(v.quotient(row, 2), 3);
  return v.add(v.mul(row, rowBytes), v.mul(v.flip(chunk, turn), 16));
}

std::pair<Value, int64_t> Swizzle::move(NVVMBuilder &v, Value address,
                                        int64_t rows, int64_t bytes) const {
  int64_t turn = span() == 128 ? rows & 7 : (rows >> 1) & 3;
  int64_t flipped = (bytes & (span() - 1)) ^ (turn * 16);
  return {v.flip(address, flipped), rows * rowBytes + (bytes & ~(span() - 1))};
}

AttentionOpening::CopyPart AttentionOpening::copyPart(Value thread) {
  Value row = v.quotient(thread, copyLanes);
  Value chunk = v.remainder(thread, copyLanes);
  return {thread, row, chunk, v.add(shared, swizzle.place(v, row, chunk))};
}

/// Calls `body` for the first of each set of rows that are copied at a time, of
/// a tile of `rows` rows; this thread's row is `part.row` further.
void AttentionOpening::forCopiedRows(int64_t rows,
                                     function_ref<void(int64_t)> body) {
  if (copyRows > rows) {
    v.when(v.compare(CmpIPredicate::ult, part.row, rows), [&] { body(0); });
    return;
  }
  for (int64_t row = 0; row < rows; row += copyRows)
    body(row);
}

/// Rows beyond the last one are zero.
void AttentionOpening::copyQueries() {
  Value row = v.add(taskRow, part.row);
  Value from = v.at(v.at(queryBase, v.mul(v.widen(row), queryStride)),
                    v.mul(part.chunk, 16));
  Value left = v.sub(taskEnd, row);
  forCopiedRows(tiling.getQueryRows(), [&](int64_t r) {
    Value bytes =
        v.select(v.compare(CmpIPredicate::sgt, left, r), v.word(16), v.word(0));
    Value source = v.at(from, v.mul(queryStride, r));
    for (int64_t c = 0; c < swizzle.rowBytes; c += copyLanes * 16) {
      auto [to, offset] = swizzle.move(v, part.place, r, c);
      v.copyAsync(to, layout.getQueries() + offset, v.at(source, c), bytes);
    }
  });
  v.commitCopies();
}

/// Waits for queries that are on their way, behind `pending` commits of others:
/// from here on they are a tile.
void AttentionOpening::finishQueries(int64_t pending) {
  if (!coming)
    return;
  v.awaitCopies(pending);
  // A negative scale moves its sign into the queries, so that the largest
  // product is the largest logit. Each thread flips what it copied.
  v.when(negative, [&] {
    Value signs = v.word(exact ? int64_t(0x80000000) : int64_t(0x80008000));
    forCopiedRows(tiling.getQueryRows(), [&](int64_t r) {
      for (int64_t c = 0; c < swizzle.rowBytes; c += copyLanes * 16) {
        auto [to, offset] = swizzle.move(v, part.place, r, c);
        offset += layout.getQueries();
        Value quad = v.loadShared(v.quad(), to, offset, 16);
        Values words;
        for (int64_t i = 0; i < 4; ++i)
          words.push_back(v.flip(v.extract(quad, i), signs));
        v.storeShared(v.makeVector(words), to, offset, 16);
      }
    });
  });
  // Others copied what a warp reads. A pass without keys, which waits for no
  // tile, would leave the output to a place that copies still come to.
  v.barrier();
  Values tile = {warpRow};
  if (tiling.getKeepQueries())
    for (int64_t m = 0; m < rowSquares; ++m)
      for (int64_t step = 0; step < channels / 16; ++step)
        llvm::append_range(tile, loadFragment(v, own.rowsFirst, warpBytes,
                                              layout.getQueries(), 16 * m,
                                              32 * step, false));
  Value queries = coming.getResult();
  tiles.map(queries, asTile(v, queries.getType(), tile));
  coming = {};
}

/// Where this thread's part of the keys and values of a range's first key lies.
AttentionOpening::Cursor AttentionOpening::beginCopies(const KeyPass &pass) {
  if (pass.source)
    return {};
  Value chunk = v.mul(part.chunk, 16);
  Value row = v.widen(v.add(pass.first, part.row));
  return {v.at(v.at(keyBase, chunk), v.mul(row, keyStride)),
          v.at(v.at(valueBase, chunk), v.mul(row, valueStride))};
}

/// Begins to copy tile `tile` of keys and values; a range's are at `cursor`.
/// Rows behind a range's last key are zero, those behind a list's repeat its
/// last one.
void AttentionOpening::copyTile(KeyPass &pass, Value tile, Value stage,
                                Cursor cursor) {
  if (pass.source) {
    Value chunk = v.mul(part.chunk, 16);
    cursor = {v.at(keyBase, chunk), v.at(valueBase, chunk)};
  }
  Value place = v.add(part.place, stage);
  Value rank = v.add(v.mul(tile, tiling.getKeys()), part.row);
  Value left = v.sub(pass.count, rank);
  // All positions before the first copy, which loads from shared memory may not
  // pass.
  Values positions;
  if (pass.source)
    for (int64_t r = 0; r < tiling.getKeys(); r += copyRows)
      positions.push_back(pass.source->key(v.add(rank, r)));
  // Pointers go from row to row: multiples of the strides would be kept in
  // registers throughout.
  Cursor at = cursor;
  Cursor step = {v.mul(keyStride, copyRows), v.mul(valueStride, copyRows)};
  forCopiedRows(tiling.getKeys(), [&](int64_t r) {
    Value bytes;
    if (pass.source) {
      Value position = v.widenUnsigned(positions[r / copyRows]);
      at = {v.at(cursor.key, v.mul(position, keyStride)),
            v.at(cursor.value, v.mul(position, valueStride))};
    } else {
      bytes = v.select(v.compare(CmpIPredicate::sgt, left, r), v.word(16),
                       v.word(0));
      if (r)
        at = {v.at(at.key, step.key), v.at(at.value, step.value)};
    }
    for (int64_t c = 0; c < swizzle.rowBytes; c += copyLanes * 16) {
      auto [to, offset] = swizzle.move(v, place, r, c);
      v.copyAsync(to, layout.getKeys() + offset, v.at(at.key, c), bytes);
      v.copyAsync(to, layout.getValues() + offset, v.at(at.value, c), bytes);
    }
  });
}

/// The cursor of the next tile.
AttentionOpening::Cursor AttentionOpening::advance(const KeyPass &pass,
                                                   Cursor cursor) {
  if (pass.source)
    return cursor;
  return {v.at(cursor.key, v.mul(keyStride, tiling.getKeys())),
          v.at(cursor.value, v.mul(valueStride, tiling.getKeys()))};
}
