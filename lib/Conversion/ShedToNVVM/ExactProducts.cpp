//===- ExactProducts.cpp - Products of f32 fragments ----------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The products of Products.cpp in fp32 multiply-adds, a lane forming the
// accumulators that it holds. Weights change lanes through shared memory.
//
//===----------------------------------------------------------------------===//

#include "AttentionFrame.h"

using namespace mlir;
using namespace mlir::heddle;

using Values = NVVMBuilder::Values;

Logits mlir::heddle::scoreProductExact(NVVMBuilder &v, const AttentionFrame &f,
                                       const QueryTile &queries,
                                       const KeyTile &keys) {
  const int64_t rowBytes = f.swizzle.rowBytes;
  const int64_t rowSquares = f.rowSquares, keySquares = f.keySquares;
  Value row = v.quotient(f.own.lane, 4);
  Value queryRow = v.add(f.shared, v.mul(v.add(queries.row, row), rowBytes));
  Value keyRow =
      v.add(v.add(f.shared, keys.stage), v.mul(f.own.column, rowBytes));
  auto floats = VectorType::get(4, v.f32());
  // Four channels a step, one chunk of each row.
  Values sums = v.loop(
      v.word(0), v.word(f.channels / 4), 1,
      Values(rowSquares * keySquares * 4, v.real(0.0f)),
      [&](Value chunk, ValueRange carried) {
        auto load = [&](Value base, Value turn, int64_t offset) {
          Value at = v.add(base, v.mul(v.flip(chunk, turn), 16));
          Value quad = v.loadShared(floats, at, offset, 16);
          Values elements;
          for (int64_t i = 0; i < 4; ++i)
            elements.push_back(v.extract(quad, i));
          return elements;
        };
        SmallVector<Values> left, right;
        for (int64_t r = 0; r < 2 * rowSquares; ++r)
          left.push_back(
              load(queryRow, row, f.layout.getQueries() + 8 * r * rowBytes));
        for (int64_t n = 0; n < keySquares; ++n)
          for (int64_t e = 0; e < 2; ++e)
            right.push_back(load(keyRow, v.add(f.own.column, e),
                                 f.layout.getKeys() + (8 * n + e) * rowBytes));
        Values next(carried);
        for (int64_t i = 0; i < 4; ++i)
          for (int64_t m = 0; m < rowSquares; ++m)
            for (int64_t n = 0; n < keySquares; ++n)
              for (int64_t k = 0; k < 4; ++k) {
                Value &sum = next[(m * keySquares + n) * 4 + k];
                sum =
                    v.fma(left[2 * m + k / 2][i], right[2 * n + k % 2][i], sum);
              }
        return next;
      });
  return {sums, f.factor, keySquares};
}

void mlir::heddle::addContextExact(NVVMBuilder &v, const AttentionFrame &f,
                                   Softmax &softmax, Logits &logits,
                                   const KeyTile &tile) {
  const int64_t keys = f.tiling.getKeys(), rowBytes = keys * 4;
  const int64_t rowSquares = f.rowSquares, channelSquares = f.channelSquares;
  Value row = v.add(f.warpRow, v.quotient(f.own.lane, 4));
  Value weights = v.add(f.shared, v.mul(row, rowBytes));
  Value to = v.add(weights, v.mul(f.own.column, 4));
  auto pair = VectorType::get(2, v.f32());
  v.warpBarrier();
  for (int64_t m = 0; m < rowSquares; ++m)
    for (int64_t n = 0; n < f.keySquares; ++n)
      for (int64_t h = 0; h < 2; ++h)
        v.storeShared(
            v.makeVector({logits.at(m, n, 2 * h), logits.at(m, n, 2 * h + 1)}),
            to, f.layout.getWeights() + (16 * m + 8 * h) * rowBytes + 32 * n,
            8);
  v.warpBarrier();
  Value values = v.add(f.shared, tile.stage);
  softmax.context = v.loop(
      v.word(0), v.word(keys), 1, softmax.context,
      [&](Value key, ValueRange carried) {
        Value weight = v.add(weights, v.mul(key, 4));
        Values left;
        for (int64_t r = 0; r < 2 * rowSquares; ++r)
          left.push_back(v.loadShared(
              v.f32(), weight, f.layout.getWeights() + 8 * r * rowBytes));
        Value from =
            v.add(v.add(values, v.mul(key, f.swizzle.rowBytes)),
                  v.flip(v.mul(f.own.column, 4), v.mul(v.both(key, 7), 16)));
        Values next(carried);
        for (int64_t n = 0; n < channelSquares; ++n) {
          auto [at, offset] = f.swizzle.move(v, from, 0, 32 * n);
          Value right =
              v.loadShared(pair, at, f.layout.getValues() + offset, 8);
          for (int64_t m = 0; m < rowSquares; ++m)
            for (int64_t k = 0; k < 4; ++k) {
              Value &sum = next[(m * channelSquares + n) * 4 + k];
              sum = v.fma(left[2 * m + k / 2], v.extract(right, k % 2), sum);
            }
        }
        return next;
      });
}
