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

#include "AttentionLowering.h"

using namespace mlir;
using namespace mlir::heddle;

using Values = NVVMBuilder::Values;

void AttentionLowering::scoreProductExact(const KeyTile &tile) {
  Value row = v.add(warpRow, v.quotient(own.lane, 4));
  Value queryRow = v.add(shared, v.mul(row, swizzle.rowBytes));
  Value keyRow =
      v.add(v.add(shared, tile.stage), v.mul(own.column, swizzle.rowBytes));
  auto floats = VectorType::get(4, v.f32());
  // Four channels a step, one chunk of each row.
  logits = v.loop(
      v.word(0), v.word(channels / 4), 1, logits,
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
          left.push_back(load(queryRow, v.quotient(own.lane, 4),
                              layout.queries + 8 * r * swizzle.rowBytes));
        for (int64_t n = 0; n < keySquares; ++n)
          for (int64_t e = 0; e < 2; ++e)
            right.push_back(load(keyRow, v.add(own.column, e),
                                 layout.keys + (8 * n + e) * swizzle.rowBytes));
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
}

void AttentionLowering::contextProductExact(const KeyTile &tile) {
  int64_t rowBytes = tiling.getKeys() * 4;
  Value row = v.add(warpRow, v.quotient(own.lane, 4));
  Value weights = v.add(shared, v.mul(row, rowBytes));
  Value to = v.add(weights, v.mul(own.column, 4));
  auto pair = VectorType::get(2, v.f32());
  v.warpBarrier();
  for (int64_t m = 0; m < rowSquares; ++m)
    for (int64_t n = 0; n < keySquares; ++n)
      for (int64_t h = 0; h < 2; ++h)
        v.storeShared(
            v.makeVector({logit(m, n, 2 * h), logit(m, n, 2 * h + 1)}), to,
            layout.weights + (16 * m + 8 * h) * rowBytes + 32 * n, 8);
  v.warpBarrier();
  Value values = v.add(shared, tile.stage);
  context = v.loop(
      v.word(0), v.word(tiling.getKeys()), 1, context,
      [&](Value key, ValueRange carried) {
        Value weight = v.add(weights, v.mul(key, 4));
        Values left;
        for (int64_t r = 0; r < 2 * rowSquares; ++r)
          left.push_back(
              v.loadShared(v.f32(), weight, layout.weights + 8 * r * rowBytes));
        Value from =
            v.add(v.add(values, v.mul(key, swizzle.rowBytes)),
                  v.flip(v.mul(own.column, 4), v.mul(v.both(key, 7), 16)));
        Values next(carried);
        for (int64_t n = 0; n < channelSquares; ++n) {
          auto [at, offset] = swizzle.move(v, from, 0, 32 * n);
          Value right = v.loadShared(pair, at, layout.values + offset, 8);
          for (int64_t m = 0; m < rowSquares; ++m)
            for (int64_t k = 0; k < 4; ++k) {
              Value &sum = next[(m * channelSquares + n) * 4 + k];
              sum = v.fma(left[2 * m + k / 2], v.extract(right, k % 2), sum);
            }
        }
        return next;
      });
}
